"""What a Responses body becomes in the hub (contract: Responses, Request and Input items)."""

from typing import Any

import pytest

from libs.llm.canonical import (
    NO_WISH,
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResultPart,
)
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
