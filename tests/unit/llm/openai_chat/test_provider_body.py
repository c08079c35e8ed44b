"""What a provider of the Chat format is sent: the client's own members with ours in place, or a body from the hub."""

import json
import time
from typing import Any, Literal

import pytest
from msgspec import Raw
from msgspec.structs import replace

from libs.llm.canonical import (
    ChatRequest,
    DocumentPart,
    Effort,
    FunctionTool,
    ImagePart,
    Message,
    OutputFormat,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Abilities, Target
from libs.llm.providers.openai_chat.request import provider_body
from libs.llm.reasoning import AS_IS, ReasoningControl
from libs.llm.system_prompt import json_instruction

TARGET = Target(base_url="http://up/v1", model="up")
KNOWS_JSON = replace(TARGET, abilities=Abilities(json_format=True))
HI = {"role": "user", "content": "Hi"}
HELLO = Message(Role.USER, [TextPart("Hi")])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
RAW_SCHEMA = Raw(json.dumps(SCHEMA).encode())
NAMED = {"type": "json_schema", "json_schema": {"name": "o", "schema": SCHEMA, "strict": True}}
INSTRUCTION = json_instruction(OutputFormat(kind="json_schema", schema=RAW_SCHEMA))
PNG = ImagePart(media_type="image/png", data="AA==")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def told(request: ChatRequest, target: Target = TARGET, *, stream: bool = False) -> Any:
    return json.loads(provider_body(request, target, "max_tokens", 9, stream=stream))


def own(target: Target = TARGET, **members: Any) -> Any:
    """What is sent for a Chat client."""
    return told(parse(json.dumps({"model": "m", "messages": [HI]} | members).encode()), target)


def hub(
    *messages: Message,
    dialect: Literal["anthropic_messages", "openai_responses"] = "anthropic_messages",
    **members: Any,
) -> ChatRequest:
    """A request of a client of another format; its raw members must never show."""
    fields = {"context_management": Raw(b"{}"), "top_k": Raw(b"4")}
    return ChatRequest(
        dialect=dialect, model="m", messages=list(messages) or [HELLO], input_tokens=1, fields=fields, **members
    )


def built(*parts: Part, role: Role = Role.USER) -> Any:
    """The message that one turn of these parts becomes."""
    return told(hub(Message(role, list(parts))))["messages"][0]


# ---- the same format


@pytest.mark.rule("CHAT-023", "TOOL-036", "CHAT-012")
def test_members_nobody_interprets_pass_unchanged() -> None:
    members: dict[str, Any] = {
        "seed": 7, "frequency_penalty": 0.5, "parallel_tool_calls": False, "stop": "END", "metadata": {"a": 1},
        "logprobs": True, "user": "u" * 200,
    }  # fmt: skip
    sent = own(**members)
    assert members.items() <= sent.items()


CONTROLS = [
    (AS_IS, None),
    (ReasoningControl(state="on", effort=Effort.HIGH), "high"),
    (ReasoningControl(state="on", effort=Effort.LOW, budget=2_000), "low"),
    (ReasoningControl(state="off"), "none"),
    (ReasoningControl(state="off", off_softly=True), None),
]


@pytest.mark.rule("RSN-010", "RSN-017", "RSN-022", "RSN-009", "RSN-025")
@pytest.mark.parametrize(("control", "effort"), CONTROLS)
def test_reasoning_is_what_the_edge_settled(control: ReasoningControl, effort: str | None) -> None:
    target = replace(TARGET, reasoning=control)
    for sent in (
        own(target, reasoning={"effort": "xhigh", "exclude": True}, reasoning_effort="minimal"),
        told(hub(), target),
    ):
        assert sent.get("reasoning_effort") == effort and "reasoning" not in sent


@pytest.mark.rule("JSON-003", "JSON-004", "JSON-005", "JSON-015", "JSON-017", "CHAT-030")
@pytest.mark.parametrize(
    ("before", "system"),
    [
        ([], {"role": "system", "content": INSTRUCTION}),
        ([{"role": "system", "content": "S"}], {"role": "system", "content": f"S\n\n{INSTRUCTION}"}),
        ([{"role": "developer", "content": None, "name": "x"}],
         {"role": "developer", "content": INSTRUCTION, "name": "x"}),
        (
            [{"role": "system", "content": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]}],
            {"role": "system", "content": [
                {"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": INSTRUCTION},
            ]},
        ),
        (
            [{"role": "system", "content": "S"}, {"role": "developer", "content": "T"}],
            {"role": "system", "content": f"S\n\nT\n\n{INSTRUCTION}"},
        ),
    ],
)  # fmt: skip
def test_the_instruction_for_json_joins_the_clients_system_prompt(before: list[Any], system: dict[str, Any]) -> None:
    later = {"role": "system", "content": "later"}
    for target, native in ((TARGET, None), (KNOWS_JSON, NAMED)):
        sent = own(target, messages=[*before, HI, later], response_format=NAMED)
        assert sent["messages"] == [system, HI, later]
        assert sent.get("response_format") == native


@pytest.mark.rule("JSON-016", "JSON-007")
@pytest.mark.parametrize(
    ("wanted", "native"),
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        ({"type": "json_schema"}, {"type": "json_object"}),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}},
         {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}),
        ({"type": "text"}, None),
    ],
)  # fmt: skip
def test_the_providers_own_member_for_json_is_whole(wanted: Any, native: Any) -> None:
    assert own(KNOWS_JSON, response_format=wanted).get("response_format") == native


# ---- other formats


@pytest.mark.rule("MSG-013", "TOOL-013", "CHAT-024")
def test_a_body_from_the_hub_holds_nothing_but_what_the_format_has() -> None:
    request = hub(
        system="S", temperature=0.5, top_p=0.25, top_k=4, stop=("a", "b"), user="u",
        tools=[FunctionTool(name="f", description="d", parameters=RAW_SCHEMA, strict=True), FunctionTool(name="g")],
        tools_elsewhere=[Raw(b'{"type":"bash"}')], tool_choice=ToolChoice("function", "f"), cache_key="k",
    )  # fmt: skip
    assert told(request) == {
        "model": "up",
        "max_tokens": 9,
        "stream": False,
        "messages": [{"role": "system", "content": "S"}, HI],
        "temperature": 0.5,
        "top_p": 0.25,
        "stop": ["a", "b"],
        "user": "u",
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}},
            {"type": "function", "function": {"name": "g"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }


@pytest.mark.parametrize("mode", ["auto", "none", "required"])
@pytest.mark.rule("TOOL-022", "TOOL-023", "TOOL-025")
def test_tool_choices_are_translated(mode: Literal["auto", "none", "required"]) -> None:
    tools = [FunctionTool(name="f")]
    assert told(hub(tools=tools, tool_choice=ToolChoice(mode)))["tool_choice"] == mode
    assert "tool_choice" not in told(hub(tool_choice=ToolChoice(mode)))


def test_a_long_user_id_is_left_out_and_a_cache_key_of_responses_is_not() -> None:
    sent = told(hub(user="u" * 65, cache_key="k", dialect="openai_responses"))
    assert "user" not in sent and sent["prompt_cache_key"] == "k"


def test_a_stream_asks_for_usage() -> None:
    assert told(hub(), stream=True)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([TextPart("a")], "a"),
        ([TextPart("a"), TextPart("b")], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        ([PNG], [PNG_PART]),
        (
            [ImagePart(url="https://x/a.png", detail="low"), TextPart("a")],
            [{"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
             {"type": "text", "text": "a"}],
        ),
        (
            [DocumentPart(media_type="application/pdf", data="JV", name="a.pdf")],
            [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JV"}}],
        ),
        ([DocumentPart(url="https://x/a.pdf"), TextPart("a")], "a"),
        ([DocumentPart(url="https://x/a.pdf")], ""),
    ],
)  # fmt: skip
@pytest.mark.rule("VIS-012", "VIS-013", "VIS-026", "MSG-034")
def test_what_a_user_says(parts: list[Part], content: Any) -> None:
    assert built(*parts) == {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("parts", "turn"),
    [
        ([TextPart("a"), TextPart("b")], {"content": "ab"}),
        ([], {"content": ""}),
        ([ReasoningPart("why", "sig"), TextPart("so")], {"content": "so", "reasoning_content": "why"}),
        ([ReasoningPart("", "sealed", redacted=True), TextPart("so")], {"content": "so"}),
        (
            [ToolCall("a", "f", '{"x": 1}')],
            {"content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
            ]},
        ),
    ],
)  # fmt: skip
def test_what_an_assistant_said(parts: list[Part], turn: dict[str, Any]) -> None:
    assert built(*parts, role=Role.ASSISTANT) == {"role": "assistant"} | turn


def calls(*ids: str) -> Message:
    return Message(Role.ASSISTANT, [ToolCall(id, "f", "{}") for id in ids])


def result(id: str, *parts: TextPart | ImagePart, failed: bool = False) -> Message:
    return Message(Role.TOOL, [ToolResultPart(id, list(parts) or [TextPart(id.upper())], failed)])


NO_RESULT = "[No result was given.]"


def stray(id: str, text: str) -> list[dict[str, str]]:
    """What is said of a result whose call is not there."""
    return [{"type": "text", "text": f"[Result of an earlier call, {id}:]"}, {"type": "text", "text": text}]


def spoken(*messages: Message) -> list[tuple[str, Any]]:
    """Role and content (the id for calls) of what is sent."""
    sent = told(hub(*messages))["messages"]
    return [
        (turn["role"], [call["id"] for call in turn["tool_calls"]] if "tool_calls" in turn else turn["content"])
        for turn in sent
    ]


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([calls("a", "b"), result("b"), result("a"), HELLO],
         [("assistant", ["a", "b"]), ("tool", "A"), ("tool", "B"), ("user", "Hi")]),
        ([calls("a"), HELLO, result("a")], [("assistant", ["a"]), ("tool", "A"), ("user", "Hi")]),
        ([calls("a"), calls("b"), result("a"), result("b")],
         [("assistant", ["a"]), ("tool", "A"), ("assistant", ["b"]), ("tool", "B")]),
        ([calls("a"), result("a", TextPart("1")), calls("a"), result("a", TextPart("2"))],
         [("assistant", ["a"]), ("tool", "1"), ("assistant", ["a"]), ("tool", "2")]),
        ([HELLO, result("x"), HELLO], [("user", "Hi"), ("user", stray("x", "X")), ("user", "Hi")]),
        ([calls("a"), result("a", TextPart("1")), result("a", TextPart("2"))],
         [("assistant", ["a"]), ("tool", "1\n2")]),
        ([result("a"), calls("a"), HELLO],
         [("user", stray("a", "A")), ("assistant", ["a"]), ("tool", NO_RESULT), ("user", "Hi")]),
        ([calls("a", "b"), result("b")], [("assistant", ["a", "b"]), ("tool", NO_RESULT), ("tool", "B")]),
        ([calls("a"), calls("a"), result("a")],
         [("assistant", ["a"]), ("tool", NO_RESULT), ("assistant", ["a"]), ("tool", "A")]),
        ([calls("a"), result("a", TextPart(""))], [("assistant", ["a"]), ("tool", "")]),
    ],
    ids=["by id", "right after", "two turns", "an id again", "no call", "two results", "too early", "no result",
         "no result of an id again", "empty"],
)  # fmt: skip
@pytest.mark.rule("TOOL-016", "TOOL-020", "TOOL-035", "TOOL-045")
def test_each_result_follows_the_turn_that_called(messages: list[Message], sent: list[tuple[str, Any]]) -> None:
    assert spoken(*messages) == sent


def test_many_results_of_one_id_take_no_longer_than_others() -> None:
    began = time.process_time()
    spoken(calls(""), *(result("", TextPart("x")) for _ in range(50_000)))
    assert time.process_time() - began < 3


@pytest.mark.rule("MSG-038")
def test_a_failed_call_is_told_in_words() -> None:
    messages = spoken(calls("a"), result("a", TextPart("no such file"), failed=True))
    assert messages[1][0] == "tool" and "error" in messages[1][1] and messages[1][1].endswith("\nno such file")


def test_pictures_of_results_come_after_all_results() -> None:
    sent = spoken(calls("a", "b"), result("a", PNG), result("b"), HELLO)
    assert [role for role, _ in sent] == ["assistant", "tool", "tool", "user", "user"]
    assert sent[1][1] and sent[2][1] == "B"
    assert [part["type"] for part in sent[3][1]] == ["text", "image_url"] and "a" in sent[3][1][0]["text"]
    assert sent[3][1][1] == PNG_PART


def test_a_later_system_turn_keeps_its_place() -> None:
    assert spoken(HELLO, Message(Role.SYSTEM, [TextPart("b")])) == [("user", "Hi"), ("system", "b")]


@pytest.mark.rule("JSON-012", "JSON-016")
def test_json_of_other_formats_is_asked_for_both_ways() -> None:
    wanted = OutputFormat(kind="json_schema", schema=RAW_SCHEMA, strict=True)
    sent = told(hub(system="S", output_format=wanted), KNOWS_JSON)
    assert sent["messages"][0] == {"role": "system", "content": f"S\n\n{INSTRUCTION}"}
    assert sent["response_format"] == {
        "type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}
    }  # fmt: skip
    assert "response_format" not in told(hub(output_format=wanted))
