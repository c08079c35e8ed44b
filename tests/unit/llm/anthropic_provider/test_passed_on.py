"""A Messages client's own body on its way to a provider of that format: as it was sent, our members aside."""

import json
from typing import Any

import pytest

from tests.unit.llm.anthropic_provider.bodies import gated, message_request, sent

MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
JSON = {"type": "json_schema", "schema": {"type": "object", "properties": {"new": {"type": "string"}}}}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


@pytest.mark.rule("MSG-022", "MSG-042", "CACHE-004", "CACHE-005", "TOOL-012")
def test_members_and_marks_pass_untouched() -> None:
    own = {
        "system": [text("S1"), text("S2", **MARK)],
        "tools": [
            {"name": "ping", "input_schema": {"type": "object"}, **MARK},
            {"type": "bash_20250124", "name": "bash"},
        ],
        "messages": [{"role": "user", "content": [text("doc", **MARK), text("q")]}],
        "metadata": {"user_id": "u"},
        "context_management": {"edits": []},
        "unheard_of": [1, {"a": None}],
        "temperature": 1.0,
    }
    body = sent(message_request(**own, provider={"a": 1}, models=[], route="x", plugins=[]), 77, stream=True)
    assert body == own | {"model": "real", "max_tokens": 77, "stream": True}
    plain = sent(message_request(), cache_marks=True)
    assert "cache_control" not in json.dumps(plain)


@pytest.mark.rule("JSON-005", "JSON-012", "JSON-013", "JSON-015", "JSON-032", "MSG-020")
@pytest.mark.parametrize("system", [None, "", "S", [text("S", **MARK)]])
def test_the_json_instruction_comes_after_the_clients_own(system: Any) -> None:
    told = {} if system is None else {"system": system}
    body = sent(message_request(output_config={"format": JSON}, output_format={"type": "json_object"}, **told))
    if isinstance(system, list):
        assert body["system"][:-1] == system and body["system"][-1].keys() == {"type", "text"}
    else:
        assert body["system"].startswith(system or "Answer")
    assert '"new"' in json.dumps(body["system"]).replace("\\", "")
    assert "output_format" not in body and "output_config" not in body
    older = sent(message_request(output_format=JSON, **told))
    assert older == body


@pytest.mark.rule("JSON-014", "JSON-016", "JSON-017")
@pytest.mark.parametrize("own", [{"output_config": {"format": JSON, "effort": "low"}}, {"output_format": JSON}])
def test_the_native_format_is_kept_where_the_provider_knows_it(own: dict[str, Any]) -> None:
    request = message_request(**own)
    assert sent(request, json_format=True, reasoning=gated(request))["output_config"]["format"] == JSON
    rest = sent(request, reasoning=gated(request))
    assert "format" not in rest.get("output_config", {}) and "output_format" not in rest


@pytest.mark.rule("MSG-028")
def test_system_turns_stand_where_every_model_takes_them() -> None:
    turns = [
        {"role": "system", "content": "first"},
        {"role": "user", "content": [text("q", **MARK)]},
        {"role": "system", "content": [text("later", **MARK)]},
    ]
    body = sent(message_request(messages=turns, system="S"))
    assert body["system"] == [text("S"), text("first")]
    assert body["messages"] == [turns[1], {"role": "user", "content": [text("later", **MARK)]}]


@pytest.mark.rule("MSG-039")
def test_thinking_without_a_proof_of_anthropics_is_left_out() -> None:
    proved = [
        {"type": "thinking", "thinking": "w", "signature": "sig"},
        {"type": "redacted_thinking", "data": "sealed"},
    ]
    bare = [{"type": "thinking", "thinking": "w", "signature": shown} for shown in ("", "kn1.e30")]
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [*bare, *proved, text("408", **MARK)]},
        {"role": "assistant", "content": bare},
        {"role": "user", "content": "r"},
    ]
    body = sent(message_request(messages=turns))
    assert body["messages"] == [turns[0], {"role": "assistant", "content": [*proved, text("408", **MARK)]}, turns[3]]


def test_calls_whose_thinking_was_left_out_go_on_without_thinking() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    given = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]}
    enabled = {"type": "enabled", "budget_tokens": 2_000}

    def body(signature: str) -> Any:
        thought = {"type": "thinking", "thinking": "w", "signature": signature}
        turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [thought, use]}, given]
        request = message_request(messages=turns, thinking=enabled)
        return sent(request, reasoning=gated(request))

    assert "thinking" not in body("")
    assert body("sig")["thinking"] == enabled


def test_ids_of_other_providers_are_put_right_in_call_and_result() -> None:
    turns = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "functions.f:0", "name": "f", "input": {}, **MARK}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "functions.f:0", "content": "x"}]},
    ]
    body = sent(message_request(messages=turns))
    use, given = body["messages"][1]["content"][0], body["messages"][2]["content"][0]
    assert use["id"] == given["tool_use_id"] != "functions.f:0"
    assert use | {"id": "functions.f:0"} == turns[1]["content"][0]  # type: ignore[index]
