"""What an Anthropic-format provider is sent for clients of other formats: made from the hub, nothing lost."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import (
    DocumentPart,
    FunctionTool,
    ImagePart,
    OutputFormat,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from tests.unit.llm.anthropic_provider.bodies import sent
from tests.unit.llm.hub import SCHEMA, TOOL, asked, assistant, system, tool, user


def call(id: str = "c1", arguments: str = '{"q": 1}') -> ToolCall:
    return ToolCall(id, "look", arguments)


def result(id: str = "c1", *parts: Any, failed: bool = False) -> Any:
    return tool(ToolResultPart(id, [TextPart(part) if isinstance(part, str) else part for part in parts], failed))


def roles(body: Any) -> list[str]:
    return [turn["role"] for turn in body["messages"]]


def test_a_plain_request_holds_what_anthropic_needs_and_no_more() -> None:
    body = sent(asked(system="Be brief."), stream=True)
    assert body == {
        "model": "real",
        "max_tokens": 8_000,
        "stream": True,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


@pytest.mark.rule("TOOL-007", "TOOL-010", "TOOL-034", "TOOL-045")
def test_results_stand_first_in_one_turn_paired_by_id() -> None:
    told = [assistant(call("a"), call("b")), result("b", "B"), result("a", "A"), user("And now?")]
    body = sent(asked(user("Both"), *told, tools=[TOOL]))
    assert roles(body) == ["user", "assistant", "user"]
    assert [(block["type"], block["id"]) for block in body["messages"][1]["content"]] == [
        ("tool_use", "a"),
        ("tool_use", "b"),
    ]
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "A"},
        {"type": "tool_result", "tool_use_id": "b", "content": "B"},
        {"type": "text", "text": "And now?"},
    ]


@pytest.mark.parametrize("first", ["functions.f:0", "call_0", "", "x" * 300])
def test_ids_anthropic_refuses_are_made_anew_for_call_and_result_alike(first: str) -> None:
    told = [assistant(call(first)), result(first, "1"), assistant(call(first)), result(first, "2"), user("?")]
    body = sent(asked(user("Go"), *told, tools=[TOOL]))
    blocks = [block for turn in body["messages"] for block in turn["content"]]
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    given = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    assert given == [(called[0], "1"), (called[1], "2")]
    assert called[0] != called[1] and all(id.replace("_", "").isalnum() for id in called)
    assert body == sent(asked(user("Go"), *told, tools=[TOOL]))


def test_a_result_can_hold_pictures_be_empty_or_tell_of_a_failure() -> None:
    picture = ImagePart(media_type="image/png", data="AA==")
    told = [assistant(call("a"), call("b")), result("a", "see", picture), result("b", failed=True)]
    _, first, second = [
        *sent(asked(user("Go"), *told, tools=[TOOL]))["messages"][0]["content"],
        *sent(asked(user("Go"), *told, tools=[TOOL]))["messages"][2]["content"],
    ]
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert second == {"type": "tool_result", "tool_use_id": "b", "content": "", "is_error": True}


@pytest.mark.parametrize(
    ("arguments", "given"),
    [("", {}), ("{}", {}), ('{"a":[1]}', {"a": [1]}), ("[1]", {"arguments": "[1]"}), ("{oops", {"arguments": "{oops"})],
)
def test_arguments_become_an_object_whatever_the_model_wrote(arguments: str, given: Any) -> None:
    body = sent(asked(user("Go"), assistant(call(arguments=arguments)), result(), tools=[TOOL]))
    assert body["messages"][1]["content"][0]["input"] == given


@pytest.mark.rule("VIS-006", "VIS-008")
def test_pictures_and_documents_keep_their_kind() -> None:
    body = sent(
        asked(
            user(
                ImagePart(media_type="image/png", data="AA=="),
                ImagePart(url="https://images.example/a.png"),
                DocumentPart(media_type="application/pdf", data="JVBERi0=", name="a.pdf"),
                DocumentPart(media_type="text/plain", data="SGk="),
                DocumentPart(url="https://files.example/b.pdf"),
                DocumentPart(media_type="application/zip", data="AA=="),
                "?",
            )
        )
    )
    assert [block.get("source") for block in body["messages"][0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "AA=="},
        {"type": "url", "url": "https://images.example/a.png"},
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        {"type": "text", "media_type": "text/plain", "data": "Hi"},
        {"type": "url", "url": "https://files.example/b.pdf"},
        None,
    ]
    assert body["messages"][0]["content"][2]["title"] == "a.pdf"


def test_turns_of_one_role_are_one_and_blank_text_is_left_out() -> None:
    body = sent(asked(user("a", ""), system("now"), user(" \n"), assistant("b"), assistant("", "c "), user("d")))
    assert [[block["text"] for block in turn["content"]] for turn in body["messages"]] == [
        ["a", "now"],
        ["b", "c "],
        ["d"],
    ]
    assert roles(body) == ["user", "assistant", "user"]


def test_a_conversation_begins_with_the_user_and_an_answer_begun_ends_without_blanks() -> None:
    body = sent(asked(assistant("So "), system="S"))
    assert roles(body) == ["user", "assistant"]
    assert body["messages"][1]["content"] == [{"type": "text", "text": "So"}]


def test_a_system_prompt_alone_is_asked() -> None:
    body = sent(asked(user(""), system="Tell me a joke"))
    assert "system" not in body and body["messages"][0]["content"][0]["text"] == "Tell me a joke"


def test_earlier_reasoning_goes_back_only_with_a_proof() -> None:
    told = [ReasoningPart("a", "sig"), ReasoningPart("b"), ReasoningPart("c", "kn1.e30"), ReasoningPart("", "d", True)]
    body = sent(asked(user("Hi"), assistant(*told, "So"), user("?")))
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "a", "signature": "sig"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "So"},
    ]


@pytest.mark.rule("TOOL-004")
def test_tools_keep_their_schema() -> None:
    bare = FunctionTool(name="bare")
    loose = FunctionTool(name="loose", parameters=Raw(b'{"properties":{"a":{}}}'))
    first, second, third = sent(asked(tools=[TOOL, bare, loose]))["tools"]
    assert first == {"name": "look", "description": "Look it up", "input_schema": json.loads(bytes(SCHEMA))}
    assert second == {"name": "bare", "input_schema": {"type": "object", "properties": {}}}
    assert third["input_schema"] == {"type": "object", "properties": {"a": {}}}


@pytest.mark.rule("TOOL-021", "TOOL-022", "TOOL-023", "TOOL-024", "TOOL-025")
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (None, None),
        (ToolChoice("auto"), {"type": "auto"}),
        (ToolChoice("none"), {"type": "none"}),
        (ToolChoice("required"), {"type": "any"}),
        (ToolChoice("function", "look"), {"type": "tool", "name": "look"}),
    ],
)
def test_a_choice_of_tools_is_told_in_anthropics_words(choice: ToolChoice | None, told: Any) -> None:
    assert sent(asked(tools=[TOOL], tool_choice=choice)).get("tool_choice") == told
    assert "tool_choice" not in sent(asked(tool_choice=choice))


@pytest.mark.rule("TOOL-044", "TOOL-045")
def test_earlier_calls_without_declared_tools_are_declared_but_not_allowed() -> None:
    body = sent(asked(user("Go"), assistant(call()), result("c1", "x")))
    assert [tool["name"] for tool in body["tools"]] == ["look"] and body["tool_choice"] == {"type": "none"}


def test_sampling_stays_within_what_anthropic_takes() -> None:
    body = sent(asked(temperature=1.7, top_p=0.5, stop=("\n", "END", " ")))
    assert (body["temperature"], body["stop_sequences"]) == (1.0, ["END"]) and "top_p" not in body
    assert sent(asked(top_p=0.5))["top_p"] == 0.5
    assert "stop_sequences" not in sent(asked(stop=("\n",)))


@pytest.mark.rule("CHAT-013")
@pytest.mark.parametrize(("name", "told"), [("tenant-7", {"user_id": "tenant-7"}), ("u" * 257, None), (None, None)])
def test_the_user_is_told_if_there_is_room(name: str | None, told: Any) -> None:
    assert sent(asked(user=name)).get("metadata") == told


@pytest.mark.rule("CACHE-001", "CACHE-002", "CACHE-003")
def test_two_marks_are_set_where_the_provider_needs_them() -> None:
    request = asked(user("u1"), assistant("a1"), user("u2", "u3"), system="S")
    body = sent(request, cache_marks=True)
    mark = {"cache_control": {"type": "ephemeral"}}
    assert body["system"] == [{"type": "text", "text": "S"} | mark]
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "u2"}, {"type": "text", "text": "u3"} | mark]
    assert json.dumps(body).count("cache_control") == 2
    assert "cache_control" not in json.dumps(sent(request))


def schema(text: str) -> OutputFormat:
    return OutputFormat(kind="json_schema", name="o", schema=Raw(text.encode()))


STRICT = (
    '{"type":"object","properties":{"minimum":{"type":"string"}},"required":["minimum"],"additionalProperties":false}'
)
LIMITED = STRICT.replace('"type":"string"', '"type":"array","maxItems":3')


@pytest.mark.rule("JSON-004", "JSON-015", "JSON-016", "JSON-017", "JSON-031")
@pytest.mark.parametrize(
    ("text", "knows", "native"),
    [(STRICT, True, True), (STRICT, False, False), (LIMITED, True, False), ('{"type":"object"}', True, False)],
)
def test_json_is_asked_in_words_and_natively_only_with_a_schema_anthropic_takes(
    text: str, knows: bool, native: bool
) -> None:
    body = sent(asked(output_format=schema(text)), json_format=knows)
    assert text in body["system"]
    told = {"output_config": {"format": {"type": "json_schema", "schema": json.loads(text)}}}
    assert {name: body[name] for name in body if name == "output_config"} == (told if native else {})
