"""What a Responses body becomes in the hub (contract: Responses, Request and Input items)."""

import json
from typing import Any

import pytest

from libs.llm.canonical import (
    NO_WISH,
    Effort,
    FunctionTool,
    ImagePart,
    Message,
    OutputFormat,
    ReasoningPart,
    ReasoningWish,
    Role,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.formats.openai_responses.items import OUR_SEAL
from libs.llm.providers.sealed import PREFIX
from libs.llm.system_prompt import json_instruction
from tests.unit.llm.openai_responses.bodies import (
    HI,
    PNG,
    SEAL,
    TOOL,
    body,
    call,
    output,
    parse,
    read,
    reasoning,
    said,
    user,
)

CALL = ToolCall("c1", "f", "{}")
DONE = Message(Role.TOOL, [ToolResultPart("c1", [TextPart("ok")])])
IMAGE = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
PICTURE = {"type": "input_image", "image_url": PNG}


def user_turn(*parts: Any) -> Message:
    return Message(Role.USER, list(parts))


def model_turn(*parts: Any) -> Message:
    return Message(Role.ASSISTANT, list(parts))


GREETING = user_turn(TextPart("Hi"))

TURNS: list[tuple[str, list[Any], list[Message]]] = [
    ("RESP-034", [{"role": "user", "content": "Hi"}], [GREETING]),
    ("RESP-035", [{"type": "message", "role": "user", "content": "Hi"}], [GREETING]),
    ("RESP-013", [HI, said("A"), user({"type": "input_text", "text": "B"})],
     [GREETING, model_turn(TextPart("A")), user_turn(TextPart("B"))]),
    ("RESP-035", [HI, {"role": "assistant", "content": "A"}], [GREETING, model_turn(TextPart("A"))]),
    ("RESP-040", [HI, {"role": "system", "content": "S"}], [GREETING, Message(Role.SYSTEM, [TextPart("S")])]),
    ("RESP-040", [HI, {"role": "developer", "content": "S"}], [GREETING, Message(Role.SYSTEM, [TextPart("S")])]),
    ("RESP-042", [user({"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"})],
     [user_turn(TextPart("a"), TextPart("b"))]),
    ("RESP-042", [HI, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
     [GREETING, model_turn(TextPart("no"))]),
    ("RESP-042", [user({"type": "input_audio", "text": 4}, {"type": "input_text", "text": "b"})],
     [user_turn(TextPart("b"))]),
    ("RESP-043", [user(PICTURE, {"type": "input_text", "text": "b"})], [user_turn(IMAGE, TextPart("b"))]),
    ("RESP-043", [HI, {"role": "assistant", "content": [PICTURE]}], [GREETING, model_turn(IMAGE)]),
    ("VIS-016", [user(PICTURE | {"detail": "high"})],
     [user_turn(ImagePart(media_type="image/png", data="iVBORw0KGgo=", detail="high"))]),
    ("VIS-017", [user({"type": "input_image", "image_url": "https://x.test/a.png", "detail": None})],
     [user_turn(ImagePart(url="https://x.test/a.png"))]),
    ("RESP-037", [HI, call(arguments='{"a": 1}')], [GREETING, model_turn(ToolCall("c1", "f", '{"a": 1}'))]),
    ("RESP-051", [HI, call(), output()], [GREETING, model_turn(CALL), DONE]),
    ("TOOL-020", [HI, call(), output(output=[{"type": "input_text", "text": "a"}, PICTURE])],
     [GREETING, model_turn(CALL), Message(Role.TOOL, [ToolResultPart("c1", [TextPart("a"), IMAGE])])]),
    ("RESP-038", [HI, call(), call("c2"), output("c2"), output("c1")],
     [GREETING, model_turn(CALL, ToolCall("c2", "f", "{}")),
      Message(Role.TOOL, [ToolResultPart("c2", [TextPart("ok")])]), DONE]),
    ("RESP-038", [HI, call(), output(), call("c2"), output("c2")],
     [GREETING, model_turn(CALL), DONE, model_turn(ToolCall("c2", "f", "{}")),
      Message(Role.TOOL, [ToolResultPart("c2", [TextPart("ok")])])]),
    ("RESP-039", [HI, reasoning("why"), said("A")], [GREETING, model_turn(ReasoningPart("why"), TextPart("A"))]),
    ("RESP-039", [HI, reasoning("why"), said("A"), call()],
     [GREETING, model_turn(ReasoningPart("why"), TextPart("A"), CALL)]),
    ("RESP-039", [HI, reasoning("why"), call(), reasoning("more"), call("c2")],
     [GREETING, model_turn(ReasoningPart("why"), CALL, ReasoningPart("more"), ToolCall("c2", "f", "{}"))]),
    ("RESP-039", [HI, reasoning("", SEAL), call()], [GREETING, model_turn(ReasoningPart("", SEAL), CALL)]),
    ("RESP-039", [HI, reasoning("why", "gAAAA"), call()], [GREETING, model_turn(ReasoningPart("why"), CALL)]),
    ("RESP-039", [HI, reasoning(""), call()], [GREETING, model_turn(CALL)]),
    ("RESP-039", [HI, reasoning("") | {"content": [{"type": "reasoning_text", "text": "full"}]}],
     [GREETING, model_turn(ReasoningPart("full"))]),
    ("RESP-013", [HI, said("A"), said("B")], [GREETING, model_turn(TextPart("A")), model_turn(TextPart("B"))]),
    ("RESP-013", [HI, said(""), said("B")], [GREETING, model_turn(TextPart("B"))]),
    ("RESP-041", [HI, {"type": "item_reference", "id": "msg_1"}], [GREETING]),
    ("RESP-041", [HI, {"id": "msg_1"}], [GREETING]),
    ("RESP-041", [HI, {"type": "custom_tool_call", "call_id": 4, "role": [], "content": {}}], [GREETING]),
    ("RESP-041", [HI, call(), {"type": "web_search_call", "id": "w"}, output()], [GREETING, model_turn(CALL), DONE]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("items", "turns"),
    [
        pytest.param(items, turns, marks=pytest.mark.rule(rule), id=f"{n}-{rule}")
        for n, (rule, items, turns) in enumerate(TURNS)
    ],
)
def test_items_become_turns(items: list[Any], turns: list[Message]) -> None:
    assert read(*items).messages == turns


@pytest.mark.rule("RESP-012")
def test_a_string_is_one_user_message() -> None:
    request = parse(body(input="Hi"))
    assert (request.messages, request.system, request.dialect) == ([GREETING], "", "openai_responses")


@pytest.mark.rule("RESP-014")
@pytest.mark.parametrize(
    ("members", "leading", "system"),
    [
        ({"instructions": "I"}, [], "I"),
        ({"instructions": None}, [], ""),
        ({"instructions": ""}, [{"role": "developer", "content": "D"}], "D"),
        ({"instructions": "I"}, [{"role": "developer", "content": "D"}, {"role": "system", "content": "S"}],
         "I\n\nD\n\nS"),
        ({}, [{"type": "zz"}, {"role": "developer", "content": [{"type": "input_text", "text": "a"},
         {"type": "input_text", "text": "b"}]}], "a\n\nb"),
    ],
)  # fmt: skip
def test_instructions_and_leading_items_are_the_system_prompt(
    members: dict[str, Any], leading: list[Any], system: str
) -> None:
    request = read(*leading, HI, **members)
    assert request.system == system
    assert request.messages == [GREETING]


@pytest.mark.rule("RESP-040")
def test_system_items_alone_are_a_request() -> None:
    request = read({"role": "developer", "content": "D"})
    assert (request.system, request.messages) == ("D", [])


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


def test_what_codex_sends() -> None:
    request = read(
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are an agent."}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "No network."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List files"}]},
        reasoning("I list them", SEAL),
        call("call_1", "exec_command", '{"cmd":"ls"}') | {"id": "fc_1", "status": "completed"},
        output("call_1", "a.txt") | {"id": "fco_1"},
        tools=[TOOL | {"strict": False}, {"type": "namespace", "name": "n", "tools": [TOOL]}, {"type": "web_search"}],
        tool_choice="auto", parallel_tool_calls=True, store=False, stream=True,
        include=["reasoning.encrypted_content"], prompt_cache_key="0198-a", client_metadata={"x": "y"},
        reasoning={"summary": "auto"}, text={"verbosity": "low"},
    )  # fmt: skip
    assert request.system == "You are an agent.\n\nNo network."
    assert [message.role for message in request.messages] == [Role.USER, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert request.messages[2].parts == [
        ReasoningPart("I list them", SEAL),
        ToolCall("call_1", "exec_command", '{"cmd":"ls"}'),
    ]
    assert [tool.name for tool in request.tools] == ["get_weather"]
    assert (request.cache_key, request.stream, request.reasoning) == ("0198-a", True, NO_WISH)


@pytest.mark.rule("VIS-016")
def test_pictures_are_counted() -> None:
    far = {"type": "input_image", "image_url": "https://x.test/a.png"}
    request = read(user(PICTURE, far), call(), output(output=[PICTURE]))
    assert (request.images, request.remote_images) == (3, 1)
    assert request.input_tokens > 3 * 1_000


def test_everything_a_model_reads_is_estimated() -> None:
    text = "x" * 4_000
    base = parse(body()).input_tokens
    requests = [
        parse(body(input=text)),
        parse(body(instructions=text)),
        parse(body(tools=[TOOL | {"description": text}])),
        parse(body(text={"format": {"type": "json_schema", "schema": {"x": text}}})),
        *(read(HI, item) for item in (call(arguments=text), output(output=text), reasoning(text), said(text))),
        read({"role": "developer", "content": text}),
    ]
    assert all(1_000 <= request.input_tokens - base + 1 <= 1_100 for request in requests)


def test_the_seal_is_the_one_providers_make() -> None:
    assert OUR_SEAL == PREFIX
