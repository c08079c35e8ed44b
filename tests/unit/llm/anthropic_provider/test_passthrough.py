"""A Messages client's own body on its way to an Anthropic-format provider: as it was sent but for our members."""

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import decode

from libs.llm.canonical import SEALED, Effort
from libs.llm.formats.anthropic_messages import FORMAT
from libs.llm.providers.anthropic.request import provider_body
from libs.llm.providers.base import Abilities
from libs.llm.reasoning import ReasoningControl
from tests.unit.llm.hub import target

NATIVE = Abilities(json_format=True, cache_marks=True)
MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
HI = {"role": "user", "content": "Hi"}
OURS = ("model", "max_tokens", "stream")


def sent_raw(body: bytes, max_tokens: int = 8_000, *, stream: bool = False, **members: Any) -> bytes:
    request = FORMAT.parse(body, lambda _: None)
    return provider_body(request, target(**members), max_tokens, stream=stream)


def sent(max_tokens: int = 8_000, abilities: Abilities = NATIVE, **members: Any) -> dict[str, Any]:
    """What becomes of a greeting with ``members``; ``reasoning`` is what the gate allows."""
    control = members.pop("reasoning", ReasoningControl())
    body = json.dumps({"model": "m", "max_tokens": 8_000, "messages": [HI]} | members).encode()
    told: dict[str, Any] = json.loads(sent_raw(body, max_tokens, reasoning=control, abilities=abilities))
    return told


def turns(*messages: dict[str, Any]) -> list[Any]:
    told: list[Any] = sent(messages=list(messages))["messages"]
    return told


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | members


# Spacing, escapes, numbers and orders of members that another encoder would not write.
BODY = rb"""{ "stop_sequences" : ["a", "b"], "model":"m", "messages": [
  {"content": [ {"text":"caf\u00e9 \/" , "cache_control": {"type":"ephemeral","ttl":"1h"}, "type":"text"},
     {"type":"image","source":{"type":"url","url":"https:\/\/pics.example/a.png"}},
     {"type":"document","source":{"url":"https://docs.example/a.pdf","type":"url"},"citations":{"enabled":true}} ],
   "role":"user"},
  {"role":"assistant","content":[{"type":"thinking","thinking":"Why","signature":"sig=="},
     {"type":"redacted_thinking","data":"x\/y"}, {"id":"toolu_1","type":"tool_use","name":"look","input":{"n":1.50}}]},
  {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"1"}]} ],
 "system":[{"type":"text", "text":"Be brief","cache_control":{"type":"ephemeral"}}],
 "tools":[{"input_schema":{"type":"object","x-odd":1.0},"name":"look","cache_control":{"type":"ephemeral"}},
   {"type":"web_search_20250305","name":"web_search","max_uses":3}],
 "tool_choice":{"type":"auto","disable_parallel_tool_use":true}, "temperature":0.70, "top_p":0.95,"top_k":5,
 "thinking":{"budget_tokens" :2048,"type":"enabled","display":"summarized"}, "output_config" : { "effort":"high" },
 "metadata":{"user_id":"u"}, "service_tier":"auto", "container":null, "of_tomorrow":[1e2], "max_tokens" : 9000}"""
GATED = ReasoningControl(state="on", effort=Effort.HIGH, budget=2_048)


@pytest.mark.rule("MSG-013", "MSG-014", "MSG-015", "MSG-022", "MSG-033", "MSG-036", "MSG-037", "MSG-038", "MSG-039")
@pytest.mark.rule("MSG-042", "CACHE-004", "CACHE-005", "CACHE-008", "CACHE-009", "TOOL-012", "VIS-013", "VIS-025")
@pytest.mark.parametrize("stream", [False, True])
def test_every_member_that_is_not_ours_goes_on_byte_for_byte(stream: bool) -> None:
    told = decode(sent_raw(BODY, stream=stream, abilities=NATIVE, reasoning=GATED), type=dict[str, Raw])
    own = decode(BODY, type=dict[str, Raw])
    assert [name for name in told if name not in own] == ["stream"]
    assert {name: bytes(told.pop(name)) for name in OURS} == {
        "model": b'"real"',
        "max_tokens": b"8000",
        "stream": b"true" if stream else b"false",
    }
    assert told == {name: value for name, value in own.items() if name not in OURS}


@pytest.mark.rule("CACHE-005", "MSG-022")
@pytest.mark.parametrize("members", [{}, {"output_config": {}}, {"system": ""}, {"thinking": None}, {"tools": []}])
def test_no_member_is_added_to_a_plain_body_and_none_taken(members: dict[str, Any]) -> None:
    plain = {"model": "real", "max_tokens": 8_000, "stream": False, "messages": [HI]}
    assert sent(**members) == plain | members


@pytest.mark.rule("MSG-025", "MSG-026")
def test_members_about_routing_stay_here() -> None:
    members: dict[str, Any] = {
        "provider": {"only": ["x"]},
        "models": ["a"],
        "route": "fallback",
        "plugins": [{"id": "file-parser"}],
    }
    assert sent(**members) == sent()


@pytest.mark.rule("MSG-028")
def test_leading_system_turns_join_the_system_prompt_and_later_ones_keep_their_place() -> None:
    told = sent(
        system=[text("One", **MARK)],
        messages=[
            {"role": "system", "content": "Two"},
            {"role": "system", "content": [text("Three", **MARK)]},
            HI,
            {"role": "system", "content": "Four"},
        ],
    )
    assert told["system"] == [text("One", **MARK), text("Two"), text("Three", **MARK)]
    assert told["messages"] == [{"role": "user", "content": [text("Hi"), text("Four")]}]


@pytest.mark.rule("MSG-028")
def test_a_later_system_turn_leaves_no_two_user_turns_in_a_row_and_results_right_after_their_calls() -> None:
    said = {"role": "assistant", "content": "Hello"}
    called = assistant({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}})
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
    note = {"role": "system", "content": [text("Note", **MARK)]}
    answered = {"role": "user", "content": [result, text("Note", **MARK)]}
    assert turns(HI, said, note, HI) == [HI, said, {"role": "user", "content": [text("Note", **MARK), text("Hi")]}]
    assert turns(HI, called, note, {"role": "user", "content": [result]}) == [HI, called, answered]
    assert turns(HI, called, {"role": "user", "content": [result]}, note) == [HI, called, answered]
    assert turns(HI, said, note, said) == [HI, said, {"role": "user", "content": [text("Note", **MARK)]}, said]
    assert turns(HI, {"role": "system", "content": ""}) == [HI]


@pytest.mark.rule("MSG-028")
@pytest.mark.parametrize(("system", "told"), [("One", [text("One"), text("Two")]), ("", [text("Two")])])
def test_leading_system_turns_come_after_a_system_text(system: str, told: list[Any]) -> None:
    turn = {"role": "system", "content": "Two"}
    assert sent(system=system, messages=[turn, HI])["system"] == told
    assert sent(messages=[turn, HI])["system"] == [text("Two")]


@pytest.mark.rule("STR-048")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "Why", "signature": ""},
        {"type": "thinking", "thinking": "Why"},
        {"type": "thinking", "thinking": "Why", "signature": f"{SEALED}abc"},
        {"type": "redacted_thinking", "data": f"{SEALED}abc"},
    ],
)
def test_reasoning_of_other_models_is_left_out_and_all_else_stays(block: dict[str, Any]) -> None:
    said = assistant(text("a", **MARK), block)
    assert turns(HI, said, HI) == [HI, assistant(text("a", **MARK)), HI]
    assert turns(HI, assistant(block), HI) == [HI, HI]


THINKING = {"type": "enabled", "budget_tokens": 2_048}
ON = ReasoningControl(state="on", effort=Effort.LOW, budget=2_048)
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
GIVEN_BACK: dict[str, Any] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
RESULT = {"role": "user", "content": [GIVEN_BACK]}


@pytest.mark.rule("STR-048")
@pytest.mark.parametrize(("signature", "kept"), [("sig", True), (f"{SEALED}abc", False), ("", False)])
def test_calls_under_way_whose_reasoning_was_left_out_go_on_without_any(signature: str, kept: bool) -> None:
    said = assistant({"type": "thinking", "thinking": "Why", "signature": signature}, USE)
    told = sent(messages=[HI, said, RESULT], thinking=THINKING, reasoning=ON)
    assert told.get("thinking") == (THINKING if kept else None)
    assert told["messages"][1] == (said if kept else assistant(USE))
    assert sent(messages=[HI, said, RESULT, assistant(text("a")), HI], thinking=THINKING, reasoning=ON)["thinking"]


@pytest.mark.rule("TOOL-010", "TOOL-016")
def test_ids_of_other_providers_are_made_fit_in_call_and_result_alike() -> None:
    use, result = USE | {"id": "functions.look:0"} | MARK, GIVEN_BACK | {"tool_use_id": "functions.look:0"}
    told = turns(HI, assistant(use), {"role": "user", "content": [result]})
    id = told[1]["content"][0]["id"]
    assert id.isidentifier() and told[1] == assistant(use | {"id": id})
    assert told[2]["content"] == [result | {"tool_use_id": id}]


@pytest.mark.rule("RSN-012", "RSN-016", "RSN-019", "MSG-018", "MSG-019", "JSON-014")
@pytest.mark.parametrize(
    ("members", "control", "max_tokens", "told"),
    [
        ({"thinking": THINKING}, ON, 8_000, {"thinking": THINKING}),
        ({"thinking": THINKING}, ON, 2_048, {"thinking": THINKING | {"budget_tokens": 2_047}}),
        ({"thinking": THINKING}, ON, 1_024, {}),
        ({"thinking": {"type": "disabled"}}, ReasoningControl(state="off"), 1_024, {}),
        ({"thinking": {"type": "disabled", "x": 1}}, ReasoningControl(state="off"), 8_000,
         {"thinking": {"type": "disabled", "x": 1}}),
        # The model does not reason.
        ({"thinking": THINKING, "output_config": {"effort": "low", "x": 1}}, ReasoningControl(), 8_000,
         {"output_config": {"x": 1}}),
        ({"output_config": {"effort": "low"}}, ReasoningControl(), 8_000, {}),
        ({"output_config": {"effort": "none"}}, ReasoningControl(state="off"), 8_000,
         {"thinking": {"type": "disabled"}}),
        ({"output_config": {"effort": "high"}}, ReasoningControl(state="on", effort=Effort.HIGH), 8_000,
         {"output_config": {"effort": "high"}}),
        # A level the model does not list.
        ({"output_config": {"effort": "xhigh", "x": 1}}, ReasoningControl(state="on", effort=Effort.HIGH), 8_000,
         {"output_config": {"effort": "high", "x": 1}}),
        ({"output_config": {"effort": "minimal"}}, ReasoningControl(state="on", effort=Effort.LOW), 8_000,
         {"output_config": {"effort": "low"}}),
        ({"thinking": {"type": "adaptive"}}, ReasoningControl(state="on", effort=Effort.MEDIUM), 8_000,
         {"thinking": {"type": "adaptive"}}),
        ({"thinking": {"type": "adaptive"}}, ReasoningControl(state="on", effort=Effort.LOW), 8_000,
         {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ],
)  # fmt: skip
def test_the_clients_words_about_reasoning_stay_unless_the_gate_or_the_limit_says_otherwise(
    members: dict[str, Any], control: ReasoningControl, max_tokens: int, told: dict[str, Any]
) -> None:
    plain = sent(max_tokens)
    assert sent(max_tokens, reasoning=control, **members) == plain | told


LOW = {"type": "enabled", "budget_tokens": 1_600}


@pytest.mark.rule("RSN-030", "RSN-031")
@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, LOW),
        ({"thinking": {"type": "disabled"}}, LOW),
        ({"thinking": THINKING | {"display": "omitted"}}, LOW | {"display": "omitted"}),
        ({"tool_choice": {"type": "any"}, "tools": [{"name": "look", "input_schema": {"type": "object"}}]}, None),
    ],
)
def test_a_level_in_the_models_name_becomes_a_budget(members: dict[str, Any], told: object) -> None:
    body = sent(reasoning=ReasoningControl(state="on", effort=Effort.LOW), temperature=0.5, **members)
    assert body.get("thinking") == told
    assert ("temperature" in body) is (told is None)


SCHEMA = {"type": "json_schema", "schema": {"type": "object", "minimum": 1}}
WANTED: dict[str, Any] = {"format": SCHEMA}


@pytest.mark.rule("JSON-005", "JSON-012", "JSON-015", "JSON-031", "JSON-032", "CACHE-004")
def test_the_instruction_for_json_comes_after_the_clients_system_prompt() -> None:
    wanted: dict[str, Any] = {"output_config": WANTED}
    told = sent(system=[text("Be brief", **MARK)], **wanted)["system"]
    assert told[0] == text("Be brief", **MARK) and len(told) == 2
    instruction = told[1]["text"]
    assert told[1] == text(instruction) and json.dumps(SCHEMA["schema"]) in instruction
    assert sent(system="Be brief", **wanted)["system"] == f"Be brief\n\n{instruction}"
    assert sent(**wanted)["system"] == instruction
    turn = {"role": "system", "content": "Two"}
    assert sent(messages=[turn, HI], **wanted)["system"] == [text("Two"), text(instruction)]


@pytest.mark.rule("JSON-013", "JSON-014", "JSON-016", "JSON-017", "MSG-020")
@pytest.mark.parametrize(
    ("members", "native", "told"),
    [
        ({"output_config": WANTED}, True, WANTED),
        ({"output_format": SCHEMA}, True, WANTED),
        ({"output_format": {"type": "text"}, "output_config": WANTED}, True, WANTED),
        ({"output_format": SCHEMA, "output_config": {"format": None, "x": 1}}, True, {"format": SCHEMA, "x": 1}),
        ({"output_config": {"format": SCHEMA, "x": 1}}, False, {"x": 1}),
        ({"output_config": WANTED}, False, None),
        ({"output_format": SCHEMA}, False, None),
        ({"output_config": {"format": {"type": "json_object"}}}, True, None),
        ({"output_format": {"type": "text"}}, True, None),
    ],
)
def test_a_format_has_one_name_and_only_where_it_is_known(members: dict[str, Any], native: bool, told: object) -> None:
    body = sent(abilities=Abilities(json_format=native), **members)
    assert body.get("output_config") == told and "output_format" not in body


def test_a_turn_with_nothing_to_say_is_left_out() -> None:
    so = {"role": "user", "content": "So?"}
    assert turns(HI, assistant({"type": "from_tomorrow"}), so) == [HI, so]


def test_where_only_system_turns_were_sent_they_are_what_is_answered() -> None:
    said = {"role": "system", "content": "Say hello."}
    body = sent(messages=[said])
    assert [turn["role"] for turn in body["messages"]] == ["user"]
    assert "Say hello." in str(body["messages"])
    assert "system" not in body
