"""All members of a Messages body beside the conversation: tools, reasoning, JSON, limits, headers, what passes on."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import ChatRequest, Effort, ReasoningWish, ToolChoice
from libs.llm.system_prompt import json_instruction
from tests.unit.llm.anthropic_messages.bodies import HI, TOOL, body, parse, passed

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


@pytest.mark.rule("MSG-013", "MSG-014", "MSG-015", "MSG-012")
def test_sampling_and_limits() -> None:
    request = parse(
        body(temperature=0.5, top_p=0.25, top_k=7, stop_sequences=["a", "", "b"], stream=True, max_tokens=9)
    )
    assert (request.temperature, request.top_p, request.top_k) == (0.5, 0.25, 7)
    assert (request.stop, request.stream, request.max_tokens) == (("a", "b"), True, 9)
    assert (request.model, request.dialect, request.cache_key) == ("m", "anthropic_messages", None)


@pytest.mark.rule("MSG-008")
@pytest.mark.parametrize(
    ("sent", "told"), [({}, None), ({"max_tokens": None}, None), ({"max_tokens": 10**30}, 2**31 - 1)]
)
def test_the_output_limit_may_be_left_out(sent: dict[str, Any], told: int | None) -> None:
    assert parse(body(**sent)).max_tokens == told


@pytest.mark.parametrize("stream", [None, False])
def test_not_streamed_unless_asked(stream: bool | None) -> None:
    assert parse(body(stream=stream)).stream is False and parse(body()).stream is False


def functions(request: ChatRequest) -> list[tuple[str, str | None, Any, bool | None]]:
    return [
        (
            tool.name,
            tool.description,
            None if tool.parameters is None else json.loads(bytes(tool.parameters)),
            tool.strict,
        )
        for tool in request.tools
    ]


@pytest.mark.rule("MSG-016", "TOOL-012")
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (TOOL, ("ping", "Pings.", {"type": "object"}, None)),
        (TOOL | {"type": "custom", "strict": True, "cache_control": {}}, ("ping", "Pings.", {"type": "object"}, True)),
        ({"name": "later", "input_schema": {}, "defer_loading": True}, ("later", None, {}, None)),
        ({"name": "bare", "type": None, "description": None, "eager_input_streaming": 1}, ("bare", None, None, None)),
    ],
)
def test_function_tools(sent: dict[str, Any], told: Any) -> None:
    request = parse(body(tools=[sent]))
    assert functions(request) == [told]
    assert request.uses_tools and not request.tools_elsewhere
    assert passed(request, "tools") == [sent]


@pytest.mark.rule("TOOL-012")
def test_tools_of_a_provider_stay_as_they_were_sent() -> None:
    unnamed = {"type": "mcp_toolset", "mcp_server_name": "x", "name": 4}
    request = parse(body(tools=[SEARCH, TOOL, unnamed]))
    assert [json.loads(bytes(tool)) for tool in request.tools_elsewhere] == [SEARCH, unnamed]
    assert [tool.name for tool in request.tools] == ["ping"]
    assert passed(request, "tools") == [SEARCH, TOOL, unnamed]


@pytest.mark.rule("MSG-017", "TOOL-022", "TOOL-023", "TOOL-024", "TOOL-025")
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (None, None),
        ({"type": "auto"}, ToolChoice("auto")),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required")),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "tool", "name": "ping"}, ToolChoice("function", "ping")),
    ],
)
def test_tool_choices(sent: Any, told: ToolChoice | None) -> None:
    request = parse(body(tools=[TOOL], tool_choice=sent))
    assert request.tool_choice == told
    assert passed(request, "tool_choice") == sent


ENABLED = {"type": "enabled", "budget_tokens": 2_048}


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        ({}, ReasoningWish()),
        ({"thinking": None, "output_config": None}, ReasoningWish()),
        ({"output_config": {"effort": None, "task_budget": {}}}, ReasoningWish()),
        ({"thinking": ENABLED}, ReasoningWish(budget=2_048, enabled=True)),
        ({"thinking": {"type": "enabled"}}, ReasoningWish(enabled=True)),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, ReasoningWish(enabled=True)),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            ReasoningWish(effort=Effort.HIGH, enabled=True),
        ),
        (
            {"thinking": ENABLED, "output_config": {"effort": "low"}},
            ReasoningWish(effort=Effort.LOW, budget=2_048, enabled=True),
        ),
        pytest.param(
            {"thinking": {"type": "disabled"}},
            ReasoningWish(enabled=False, off_softly=True),
            marks=pytest.mark.rule("RSN-016", "RSN-017"),
        ),
        pytest.param(
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
            ReasoningWish(enabled=False, off_softly=True),
            marks=pytest.mark.rule("RSN-017"),
        ),
        *[
            pytest.param(
                {"output_config": {"effort": level}},
                ReasoningWish(effort=Effort(level)),
                marks=pytest.mark.rule("RSN-004", "RSN-012", "MSG-019"),
            )
            for level in ("none", "minimal", "low", "medium", "high", "xhigh", "max")
        ],
    ],
)
@pytest.mark.rule("MSG-018", "RSN-011")
def test_the_wish_about_reasoning(sent: dict[str, Any], told: ReasoningWish) -> None:
    assert parse(body(**sent)).reasoning == told


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (1_024, 1_025),
        (4_095, 4_096),
        (65_535, None),
        pytest.param(2_048, 1_024, marks=pytest.mark.rule("RSN-019")),
        pytest.param(10, 500, marks=pytest.mark.rule("RSN-019")),
        pytest.param(1_024, 1, marks=pytest.mark.rule("RSN-019")),
    ],
)
@pytest.mark.rule("RSN-018")
def test_a_budget_within_its_bounds_or_without_any_thinking_at_all(budget: int, limit: int | None) -> None:
    request = parse(body(thinking={"type": "enabled", "budget_tokens": budget}, max_tokens=limit))
    assert request.reasoning.budget == budget


SCHEMA_FORMAT = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("sent", "kind", "schema"),
    [
        pytest.param(
            {"output_config": {"format": SCHEMA_FORMAT}}, "json_schema", SCHEMA, marks=pytest.mark.rule("JSON-012")
        ),
        pytest.param({"output_format": SCHEMA_FORMAT}, "json_schema", SCHEMA, marks=pytest.mark.rule("JSON-013")),
        pytest.param(
            {"output_config": {"format": SCHEMA_FORMAT}, "output_format": {"type": "json_object"}},
            "json_schema",
            SCHEMA,
            marks=pytest.mark.rule("MSG-020"),
        ),
        ({"output_config": {"format": None}, "output_format": SCHEMA_FORMAT}, "json_schema", SCHEMA),
        ({"output_config": {"format": {"type": "json_object"}}}, "json_object", None),
        pytest.param(
            {"output_format": {"type": "json_schema"}}, "json_schema", None, marks=pytest.mark.rule("JSON-007")
        ),
    ],
)  # fmt: skip
def test_json_is_wanted(sent: dict[str, Any], kind: str, schema: Any) -> None:
    request = parse(body(**sent))
    wanted = request.output_format
    assert wanted is not None and wanted.kind == kind
    assert (None if wanted.schema is None else json.loads(bytes(wanted.schema))) == schema


@pytest.mark.rule("JSON-023")
@pytest.mark.parametrize("sent", [{}, {"output_format": None}, {"output_config": {"format": {"type": "text"}}}])
def test_no_json_is_wanted(sent: dict[str, Any]) -> None:
    assert parse(body(**sent)).output_format is None


@pytest.mark.rule("JSON-014")
def test_effort_and_format_both_count() -> None:
    request = parse(body(output_config={"effort": "high", "format": SCHEMA_FORMAT}))
    assert request.output_format is not None and request.reasoning.effort is Effort.HIGH


@pytest.mark.rule("JSON-018")
def test_the_instruction_for_json_counts_into_the_estimate() -> None:
    plain, asked = parse(body()), parse(body(output_format=SCHEMA_FORMAT))
    assert asked.output_format is not None
    added = asked.input_tokens - plain.input_tokens
    assert abs(added * 4 - len(json_instruction(asked.output_format))) < 4


@pytest.mark.rule("MSG-021")
@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (None, None),
        ({}, None),
        ({"user_id": "tenant-7", "trace": [1]}, "tenant-7"),
        ({"user_id": '{"device_id":"d","session_id":"s"}'}, '{"device_id":"d","session_id":"s"}'),
        ({"user_id": None}, None),
        ({"user_id": 4}, None),
        ("x", None),
        ([1], None),
    ],
)
def test_metadata_of_any_shape_are_accepted(metadata: Any, told: str | None) -> None:
    request = parse(body(metadata=metadata))
    assert request.user == told
    assert passed(request, "metadata") == metadata


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("", ""),
        ("a-2025-01-01", "a-2025-01-01"),
        ("a-1, b-2 ,c_3,,  ", "a-1,b-2,c_3"),
        ("a b,\x00,é,ok", "ok"),
        ("x" * 101 + ",ok", "ok"),
        (",".join(["b"] * 1_000), ",".join(["b"] * 40)),
    ],
)
def test_betas_of_any_name_are_taken_within_bounds(header: str, told: str) -> None:
    assert parse(body(), anthropic_beta=header).betas == told


def test_no_header_is_needed_and_no_version_is_checked() -> None:
    assert parse(body()).betas == ""
    assert parse(body(), anthropic_version="1999-01-01").model == "m"


@pytest.mark.rule("MSG-022")
def test_what_nobody_interprets_passes_unchanged() -> None:
    extras = {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "service_tier": "auto",
        "container": None,
        "prompt_cache_key": "k",
        "unheard_of": [1, {"a": None}],
    }
    request = parse(body(**extras))
    assert {name: passed(request, name) for name in extras} == extras


@pytest.mark.rule("MSG-025", "MSG-026")
def test_routing_fields_and_plugins_pass_to_nobody() -> None:
    request = parse(body(provider={"order": ["x"]}, models=["y"], route="fallback", plugins=[{"id": "file-parser"}]))
    assert set(request.fields) == {"model", "messages"}


def test_of_a_member_sent_twice_the_one_that_was_checked_passes() -> None:
    raw = b'{"model":"a","messages":[],"model":"b","messages":[{"role":"user","content":"x"}]}'
    request = parse(raw)
    assert request.model == "b" and bytes(request.fields["messages"]) == b'[{"role":"user","content":"x"}]'


def test_members_pass_as_the_very_bytes_that_were_sent() -> None:
    raw = b'{"model":"m", "temperature":1.10,"messages":[ {"role":"user","content":"\\u00e9"}]}'
    request = parse(raw)
    assert request.fields["temperature"] == Raw(b"1.10")
    assert bytes(request.fields["messages"]) == b'[ {"role":"user","content":"\\u00e9"}]'


def test_what_coding_clients_send_is_no_error() -> None:
    raw = body(
        system=[{"type": "text", "text": "x-billing: a"}, {"type": "text", "text": "S", "cache_control": {}}],
        messages=[HI, {"role": "system", "content": [{"type": "text", "text": "env"}]}],
        thinking={"type": "adaptive", "display": "updates"},
        output_config={"effort": "high"},
        context_management={"edits": []},
        metadata={"user_id": '{"device_id":"d"}'},
        max_tokens=32_000,
        stream=True,
        tools=[TOOL | {"input_schema": {"$schema": "draft/2020-12"}, "defer_loading": True}],
    )  # fmt: skip
    request = parse(raw, anthropic_beta="a-1,b-2,c-3,d-4,e-5,f-6,g-7,h-8", anthropic_version="2026-10-21")
    assert request.betas.count(",") == 7 and request.messages[-1].text() == "env"
