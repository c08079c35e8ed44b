"""The members an Anthropic-format provider is sent for requests of other dialects."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import (
    ChatRequest,
    Effort,
    FunctionTool,
    OutputFormat,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.providers.anthropic.request import provider_body
from libs.llm.providers.base import Abilities
from libs.llm.reasoning import ReasoningControl
from tests.unit.llm.hub import SCHEMA, TOOL, asked, assistant, target, tool, user

SCHEMA_TEXT = bytes(SCHEMA).decode()
NATIVE = Abilities(json_format=True)


def sent(request: ChatRequest, max_tokens: int = 100, *, stream: bool = False, **members: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(provider_body(request, target(**members), max_tokens, stream=stream))
    return body


@pytest.mark.parametrize("stream", [False, True])
def test_a_plain_request_holds_no_more_than_was_asked(stream: bool) -> None:
    assert sent(asked(system="Be brief", max_tokens=7), stream=stream) == {
        "model": "real",
        "max_tokens": 100,
        "stream": stream,
        "system": "Be brief",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


@pytest.mark.rule("TOOL-037", "TOOL-041", "RESP-025")
def test_members_of_other_clients_have_no_place_here() -> None:
    names = ("seed", "parallel_tool_calls", "response_format", "logprobs", "reasoning", "provider", "n")
    request = asked(fields={name: Raw(b"1") for name in names}, tools_elsewhere=[Raw(b'{"type":"odd"}')])
    assert sent(request) == sent(asked())


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"temperature": 0.3}, {"temperature": 0.3}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"temperature": 1.7}, {"temperature": 1.0}),
        ({"top_p": 0.9}, {"top_p": 0.9}),
        ({"temperature": 0.3, "top_p": 0.9}, {"temperature": 0.3}),
        ({"top_k": 5}, {"top_k": 5}),
        ({"stop": ("END", " \n", "x")}, {"stop_sequences": ["END", "x"]}),
        ({"stop": ("\n",)}, {}),
        ({"user": "u-1"}, {"metadata": {"user_id": "u-1"}}),
        ({"user": "u" * 256}, {"metadata": {"user_id": "u" * 256}}),
        ({"user": "u" * 257}, {}),
        ({"user": ""}, {}),
        ({"cache_key": "k"}, {}),
    ],
)
def test_settings(members: dict[str, Any], told: dict[str, Any]) -> None:
    assert sent(asked(**members)) == sent(asked()) | told


@pytest.mark.rule("TOOL-004", "TOOL-018", "JSON-031")
def test_tools_have_their_schemas_untouched() -> None:
    bare = FunctionTool(name="bare", strict=True)
    untyped = FunctionTool(name="untyped", parameters=Raw(b'{"properties":{"a":{"minimum":1}}}'))
    no_object = FunctionTool(name="no_object", parameters=Raw(b"7"))
    body = provider_body(asked(tools=[TOOL, bare, untyped, no_object]), target(), 100, stream=False)
    assert bytes(SCHEMA) in body
    assert json.loads(body)["tools"] == [
        {"name": "look", "description": "Look it up", "input_schema": json.loads(SCHEMA_TEXT)},
        {"name": "bare", "input_schema": {"type": "object", "properties": {}}},
        {"name": "untyped", "input_schema": {"type": "object", "properties": {"a": {"minimum": 1}}}},
        {"name": "no_object", "input_schema": {"type": "object", "properties": {}}},
    ]


@pytest.mark.rule("TOOL-021", "TOOL-022", "TOOL-023", "TOOL-024", "TOOL-025", "TOOL-029")
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
def test_the_choice_of_tools(choice: ToolChoice | None, told: object) -> None:
    assert sent(asked(tools=[TOOL], tool_choice=choice)).get("tool_choice") == told
    assert "tool_choice" not in sent(asked(tool_choice=choice))


@pytest.mark.rule("TOOL-044", "TOOL-045")
def test_earlier_calls_without_declared_tools_have_tools_that_cannot_be_called() -> None:
    calls = [ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")]
    results = [tool(ToolResultPart(call.id, [TextPart("x")])) for call in calls]
    body = sent(asked(user("Hi"), assistant(*calls), *results))
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "none"}


HIGH = ReasoningControl(state="on", effort=Effort.HIGH)


def on(effort: Effort) -> ReasoningControl:
    return ReasoningControl(state="on", effort=effort)


def thinks(budget: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


@pytest.mark.rule("RSN-010", "RSN-013", "RSN-021", "RSN-022", "RSN-024", "RSN-019")
@pytest.mark.parametrize(
    ("control", "max_tokens", "told"),
    [
        (ReasoningControl(), 8_000, None),
        (ReasoningControl(state="off"), 8_000, {"type": "disabled"}),
        (ReasoningControl(state="off", off_softly=True), 8_000, {"type": "disabled"}),
        (ReasoningControl(state="on"), 100_000, thinks(10_240)),
        (on(Effort.LOW), 100_000, thinks(4_096)),
        (on(Effort.MEDIUM), 100_000, thinks(10_240)),
        (HIGH, 100_000, thinks(24_576)),
        (on(Effort.XHIGH), 100_000, thinks(32_768)),
        (on(Effort.MAX), 100_000, thinks(65_536)),
        (HIGH, 8_000, thinks(4_800)),
        (ReasoningControl(state="on", effort=Effort.LOW, budget=2_000), 8_000, thinks(2_000)),
        (ReasoningControl(state="on", effort=Effort.LOW, budget=9_000), 8_000, thinks(7_999)),
        (ReasoningControl(state="on", effort=Effort.LOW, budget=5), 8_000, thinks(1_024)),
        (HIGH, 1_025, thinks(1_024)),
        (HIGH, 1_024, None),
        (ReasoningControl(state="off"), 1_024, None),
        (ReasoningControl(state="on", budget=2_000), 1_000, None),
    ],
)
def test_reasoning_is_a_budget_within_the_limit(control: ReasoningControl, max_tokens: int, told: object) -> None:
    assert sent(asked(), max_tokens, reasoning=control).get("thinking") == told


def test_thinking_takes_no_sampling_beside_it() -> None:
    request = asked(temperature=0.3, top_k=5, stop=("x",))
    body = sent(request, 8_000, reasoning=HIGH)
    assert "temperature" not in body and "top_k" not in body and body["stop_sequences"] == ["x"]
    assert sent(request, 1_000, reasoning=HIGH)["temperature"] == 0.3


CALL = ToolCall("a", "look", "{}")
RESULT = tool(ToolResultPart("a", [TextPart("x")]))


@pytest.mark.rule("TOOL-023", "TOOL-024", "JSON-029")
@pytest.mark.parametrize(
    ("turns", "choice", "thinking"),
    [
        ([user("Hi")], ToolChoice("auto"), True),
        ([user("Hi")], ToolChoice("required"), False),
        ([user("Hi")], ToolChoice("function", "look"), False),
        ([user("Hi"), assistant("So")], None, False),
        ([user("Hi"), assistant(CALL), RESULT], None, False),
        ([user("Hi"), assistant(ReasoningPart("Why", "sig"), CALL), RESULT], None, True),
        ([user("Hi"), assistant(ReasoningPart("Why", "sig"), CALL), RESULT, user("Well?")], None, True),
        ([user("Hi"), assistant(CALL), RESULT, assistant("So"), user("Well?")], None, True),
    ],
    ids=["auto", "forced", "named", "begun", "call without", "call with", "result and more", "call long over"],
)
def test_the_clients_own_words_come_before_thinking(turns: list[Any], choice: ToolChoice, thinking: bool) -> None:
    request = asked(*turns, tools=[TOOL], tool_choice=choice)
    assert ("thinking" in sent(request, 8_000, reasoning=HIGH)) is thinking
    assert sent(request, 8_000, reasoning=ReasoningControl(state="off"))["thinking"] == {"type": "disabled"}


STRICT = Raw(b'{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}')


@pytest.mark.rule("JSON-004", "JSON-005", "JSON-006", "JSON-008", "JSON-015", "JSON-016", "JSON-017", "JSON-031")
@pytest.mark.parametrize(("system", "before"), [("Be brief", "Be brief\n\n"), ("", "")])
def test_a_schema_is_in_the_system_prompt_and_in_its_own_member_where_that_is_known(system: str, before: str) -> None:
    request = asked(system=system, output_format=OutputFormat(kind="json_schema", name="n", schema=STRICT, strict=True))
    plain, native = sent(request), sent(request, abilities=NATIVE)
    assert plain["system"].startswith(before) and plain["system"].endswith(bytes(STRICT).decode())
    assert "output_config" not in plain
    assert native == plain | {"output_config": {"format": {"type": "json_schema", "schema": json.loads(bytes(STRICT))}}}


@pytest.mark.rule("JSON-003", "JSON-007", "JSON-009", "JSON-023")
@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_plain_json_is_in_the_system_prompt_alone(kind: Any) -> None:
    body = sent(asked(output_format=OutputFormat(kind=kind)), abilities=NATIVE)
    assert "JSON" in body["system"] and "output_config" not in body
    assert "system" not in sent(asked(), abilities=NATIVE)


@pytest.mark.rule("JSON-001", "JSON-031")
@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "array", "items": {"anyOf": [{"type": "string", "enum": ["a"]}, {"const": 1}]}}, True),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {}, "additionalProperties": True}, False),
        ({"type": "integer", "minimum": 1}, False),
        ({"type": "string", "pattern": "a"}, False),
        ({"type": "array", "items": {"type": "integer", "maximum": 1}}, False),
        ({"anyOf": [{"type": "object"}]}, False),
        ({"anyOf": {"type": "string"}}, False),
        ({"type": "array", "items": True}, False),
    ],
)
def test_a_schema_the_service_would_refuse_is_in_the_system_prompt_alone(schema: Any, fits: bool) -> None:
    wanted = OutputFormat(kind="json_schema", schema=Raw(json.dumps(schema).encode()))
    body = sent(asked(output_format=wanted), abilities=NATIVE)
    assert json.dumps(schema) in body["system"]
    assert ("output_config" in body) is fits
