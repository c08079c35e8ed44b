"""What the members beside ``input`` become in the hub (contract: Responses, Request)."""

import json
from typing import Any

import pytest

from libs.llm.canonical import NO_WISH, Effort, FunctionTool, OutputFormat, ReasoningWish, ToolChoice
from libs.llm.system_prompt import json_instruction
from tests.unit.llm.openai_responses.bodies import TOOL, body, parse


@pytest.mark.rule("RESP-015")
@pytest.mark.rule("RESP-018")
@pytest.mark.rule("TOOL-018")
def test_functions_are_offered_and_other_tools_dropped() -> None:
    others = [
        {"type": "namespace", "name": "n", "tools": [TOOL]},
        {"type": "web_search"},
        {"type": "custom", "name": 4, "parameters": 5},
    ]
    request = parse(body(tools=[others[0], TOOL, *others[1:], {"type": "function", "name": "g", "strict": True}]))
    schema = json.loads(bytes(request.tools[0].parameters or b""))
    assert schema == {"type": "object"}
    assert [(tool.name, tool.description) for tool in request.tools] == [("get_weather", "Weather"), ("g", None)]
    assert request.tools[1] == FunctionTool(name="g", strict=True)
    assert request.tools_elsewhere == []


@pytest.mark.rule("RESP-019")
@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, None),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "get_weather"}, ToolChoice("function", "get_weather")),
    ],
)
def test_tool_choice(choice: Any, read_as: ToolChoice | None) -> None:
    assert parse(body(tools=[TOOL], tool_choice=choice)).tool_choice == read_as


@pytest.mark.rule("RESP-018")
@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_choice_among_dropped_tools_only_is_no_choice(choice: str) -> None:
    request = parse(body(tools=[{"type": "web_search"}], tool_choice=choice))
    assert (request.tools, request.tool_choice) == ([], None)


@pytest.mark.rule("RESP-021")
@pytest.mark.rule("RSN-004")
@pytest.mark.parametrize("level", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_level_is_taken(level: str) -> None:
    assert parse(body(reasoning={"effort": level})).reasoning == ReasoningWish(effort=Effort(level))


@pytest.mark.rule("RESP-022")
@pytest.mark.rule("RESP-023")
@pytest.mark.parametrize("sent", [..., None, {}, {"effort": None}, {"summary": "auto"}, {"summary": 4}])
def test_reasoning_without_a_level_is_no_setting(sent: Any) -> None:
    assert parse(body(reasoning=sent)).reasoning == NO_WISH


@pytest.mark.rule("RESP-024")
@pytest.mark.parametrize(("sent", "limit"), [(..., None), (None, None), (1, 1), (70, 70), (10**15, 2**31 - 1)])
def test_output_limit(sent: Any, limit: int | None) -> None:
    assert parse(body(max_output_tokens=sent)).max_tokens == limit


@pytest.mark.rule("RESP-025")
@pytest.mark.rule("RESP-026")
def test_sampling_and_streaming() -> None:
    request = parse(body(temperature=0.5, top_p=1, stream=True))
    assert (request.temperature, request.top_p, request.stream) == (0.5, 1.0, True)
    plain = parse(body(temperature=None, stream=False))
    assert (plain.temperature, plain.top_p, plain.stream) == (None, None, False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(..., None, marks=pytest.mark.rule("JSON-023")),
        pytest.param(None, None, marks=pytest.mark.rule("RESP-027")),
        pytest.param({"verbosity": "low"}, None, marks=pytest.mark.rule("RESP-027")),
        pytest.param({"format": None}, None, marks=pytest.mark.rule("RESP-027")),
        pytest.param({"format": {"type": "text"}}, None, marks=pytest.mark.rule("JSON-023")),
        pytest.param({"format": {"type": "json_object"}}, OutputFormat(kind="json_object"),
                     marks=pytest.mark.rule("JSON-009")),
        pytest.param({"format": {"type": "json_schema"}}, OutputFormat(kind="json_schema"),
                     marks=pytest.mark.rule("JSON-007")),
        pytest.param({"format": {"type": "json_schema", "name": "n", "schema": None, "strict": None}},
                     OutputFormat(kind="json_schema", name="n"), marks=pytest.mark.rule("JSON-007")),
    ],
)  # fmt: skip
def test_text_format(text: Any, wanted: OutputFormat | None) -> None:
    assert parse(body(text=text)).output_format == wanted


@pytest.mark.rule("JSON-008")
@pytest.mark.rule("RESP-027")
def test_a_schema_stands_on_the_format_itself() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
    sent = {"format": {"type": "json_schema", "name": "invoice", "schema": schema, "strict": True}}
    wanted = parse(body(text=sent)).output_format
    assert wanted is not None and wanted.schema is not None
    assert (wanted.kind, wanted.name, wanted.strict) == ("json_schema", "invoice", True)
    assert json.loads(bytes(wanted.schema)) == schema
    assert '"total"' in json_instruction(wanted)


@pytest.mark.rule("CACHE-024")
@pytest.mark.parametrize(
    ("sent", "key"),
    [
        pytest.param(" a\n", "a", marks=pytest.mark.rule("CACHE-026")),
        pytest.param("", None, marks=pytest.mark.rule("CACHE-027")),
        pytest.param(" \t", None, marks=pytest.mark.rule("CACHE-027")),
        pytest.param(None, None, marks=pytest.mark.rule("CACHE-027")),
        pytest.param("k" * 512 + " ", "k" * 512, marks=pytest.mark.rule("CACHE-028")),
        pytest.param("k" * 513, None, marks=pytest.mark.rule("CACHE-028")),
        pytest.param(4, None, marks=pytest.mark.rule("CACHE-028")),
        pytest.param("€" * 170, "€" * 170, marks=pytest.mark.rule("CACHE-029")),
        pytest.param("€" * 171, None, marks=pytest.mark.rule("CACHE-029")),
    ],
)
def test_conversation_key(sent: Any, key: str | None) -> None:
    assert parse(body(prompt_cache_key=sent)).cache_key == key


IGNORED = [
    ("RESP-005", {"previous_response_id": None}),
    ("RESP-006", {"store": True}),
    ("RESP-006", {"store": False}),
    ("RESP-029", {"include": ["file_search_call.results"]}),
    ("RESP-029", {"include": 4}),
    ("RESP-030", {"metadata": {"trace": "abc"}}),
    ("RESP-031", {"parallel_tool_calls": False}),
    ("RESP-032", {"provider": {"order": ["x"]}, "models": ["a"], "route": "fallback", "plugins": [{"id": "web"}]}),
    ("RESP-033", {"truncation": "auto", "seed": 4, "stream_options": 4, "user": ["x"], "service_tier": {}}),
    ("RESP-033", {"client_metadata": {"a": "b"}, "background": True, "safety_identifier": "x"}),
]


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(members, marks=pytest.mark.rule(rule), id=f"{n}-{rule}")
        for n, (rule, members) in enumerate(IGNORED)
    ],
)
def test_what_is_ignored_leaves_no_trace(members: dict[str, Any]) -> None:
    assert parse(body(**members)) == parse(body())
