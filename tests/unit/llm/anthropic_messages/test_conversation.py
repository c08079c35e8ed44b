"""What the system prompt and the turns of a Messages body become in the hub, and what a provider of the format gets."""

from typing import Any

import pytest

from libs.llm.canonical import (
    DocumentPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResultPart,
)
from tests.unit.llm.anthropic_messages.bodies import (
    CALL,
    HI,
    PICTURE_AT,
    PIXEL,
    RESULT,
    assistant,
    body,
    parse,
    passed,
    text,
    turns,
    user,
)

MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
UNKNOWN = {"type": "hologram", "text": 4, "source": [], "content": {"x": None}, "id": {}, "is_error": "x"}
FILE = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
SYSTEM_TURN = {"role": "system", "content": "env"}
SHOWN = ImagePart(media_type="image/png", data="iVBORw0KGgo=")
IN_HUB_SHOWN = ImagePart(url="https://images.example/a.png")


def said(role: Role, *parts: Part) -> Message:
    return Message(role, list(parts))


@pytest.mark.parametrize(
    ("system", "told"),
    [
        (None, ""),
        ("", ""),
        ("S", "S"),
        pytest.param([text("S1"), text("S2") | MARK], "S1\n\nS2", marks=pytest.mark.rule("MSG-010")),
        pytest.param([text("S1"), UNKNOWN, PIXEL, text("S2")], "S1\n\nS2", marks=pytest.mark.rule("MSG-011")),
        pytest.param([text("S1"), RESULT, {"type": "image"}], "S1", marks=pytest.mark.rule("MSG-011")),
        ([text(""), text("S")], "S"),
        ([], ""),
        ([UNKNOWN], ""),
    ],
)
@pytest.mark.rule("MSG-009")
def test_the_system_prompt(system: Any, told: str) -> None:
    assert parse(body(system=system)).system == told


@pytest.mark.rule("MSG-011", "CACHE-004")
def test_a_provider_of_the_format_gets_the_text_blocks_of_the_system_as_sent() -> None:
    whole = [text("S1"), text("S2") | MARK]
    assert passed(parse(body(system=whole)), "system") == whole
    assert passed(parse(body(system=[whole[0], UNKNOWN, PIXEL, whole[1]])), "system") == whole
    assert passed(parse(body(system=[UNKNOWN])), "system") == ""


@pytest.mark.parametrize(
    ("messages", "system", "told"),
    [
        ([SYSTEM_TURN, HI], "S\n\nenv", [said(Role.USER, TextPart("Hi"))]),
        (
            [HI, SYSTEM_TURN],
            "S",
            [said(Role.USER, TextPart("Hi")), said(Role.SYSTEM, TextPart("env"))],
        ),
        (
            [HI, {"role": "system", "content": [text("a"), UNKNOWN, text("b")]}, HI],
            "S",
            [
                said(Role.USER, TextPart("Hi")),
                said(Role.SYSTEM, TextPart("a\n\nb")),
                said(Role.USER, TextPart("Hi")),
            ],
        ),
        ([{"role": "system", "content": [text("a"), text("b")]}, SYSTEM_TURN], "S\n\na\n\nb\n\nenv", []),
        ([HI, {"role": "system", "content": []}], "S", [said(Role.USER, TextPart("Hi"))]),
    ],
)
@pytest.mark.rule("MSG-028")
def test_system_turns_lead_or_keep_their_place(messages: list[Any], system: str, told: list[Message]) -> None:
    request = parse(body(system="S", messages=messages))
    assert request.system == system
    assert request.messages == told


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        pytest.param(HI, [said(Role.USER, TextPart("Hi"))], marks=pytest.mark.rule("MSG-027")),
        pytest.param(
            user(text("a"), text("b") | MARK),
            [said(Role.USER, TextPart("a"), TextPart("b"))],
            marks=pytest.mark.rule("MSG-030"),
        ),
        pytest.param(
            user(PIXEL, text("?"), PICTURE_AT),
            [said(Role.USER, SHOWN, TextPart("?"), IN_HUB_SHOWN)],
            marks=pytest.mark.rule("MSG-031", "VIS-012", "VIS-013"),
        ),
        pytest.param(user(FILE, text("?")), [said(Role.USER, TextPart("?"))], marks=pytest.mark.rule("VIS-014")),
        pytest.param(
            user(
                {
                    "type": "document",
                    "title": "bill.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
                }
            ),
            [said(Role.USER, DocumentPart(media_type="application/pdf", data="JVBE", name="bill.pdf"))],
            marks=pytest.mark.rule("MSG-032"),
        ),
        pytest.param(
            user({"type": "document", "title": 4, "source": {"type": "url", "url": "https://x/a.pdf"}}),
            [said(Role.USER, DocumentPart(url="https://x/a.pdf"))],
            marks=pytest.mark.rule("MSG-033"),
        ),
        pytest.param(
            user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}}),
            [said(Role.USER, TextPart("plain"))],
            marks=pytest.mark.rule("MSG-035"),
        ),
        (user({"type": "document", "source": {"type": "file"}}, text("?")), [said(Role.USER, TextPart("?"))]),
        pytest.param(
            assistant(text("So"), CALL),
            [said(Role.ASSISTANT, TextPart("So"), ToolCall("toolu_1", "ping", '{"a": 1}'))],
            marks=pytest.mark.rule("MSG-036", "TOOL-010"),
        ),
        pytest.param(
            user(RESULT),
            [said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("pong")]))],
            marks=pytest.mark.rule("MSG-037", "TOOL-016"),
        ),
        pytest.param(
            user(RESULT | {"content": [text("see"), PIXEL, {"type": "tool_reference"}, UNKNOWN, FILE]}),
            [said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("see"), SHOWN]))],
            marks=pytest.mark.rule("MSG-037"),
        ),
        (user({"type": "tool_result", "tool_use_id": "t"}), [said(Role.TOOL, ToolResultPart("t", []))]),
        (user(RESULT | {"content": None}), [said(Role.TOOL, ToolResultPart("toolu_1", []))]),
        pytest.param(
            user(RESULT | {"is_error": True}),
            [said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("pong")], failed=True))],
            marks=pytest.mark.rule("MSG-038"),
        ),
        (user(RESULT | {"is_error": None}), [said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("pong")]))]),
        pytest.param(
            user(text("first"), RESULT, PIXEL, RESULT | {"tool_use_id": "toolu_2"}),
            [
                said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("pong")])),
                said(Role.TOOL, ToolResultPart("toolu_2", [TextPart("pong")])),
                said(Role.USER, TextPart("first"), SHOWN),
            ],
            marks=pytest.mark.rule("TOOL-035"),
        ),
        pytest.param(
            assistant(
                {"type": "thinking", "thinking": "why", "signature": "s"},
                {"type": "redacted_thinking", "data": "sealed"},
                text("So"),
            ),
            [said(Role.ASSISTANT, ReasoningPart("why", "s"), ReasoningPart("", "sealed", True), TextPart("So"))],
            marks=pytest.mark.rule("MSG-039"),
        ),
        pytest.param(
            assistant({"type": "thinking", "thinking": "", "signature": ""}, {"type": "thinking", "thinking": "t"}),
            [said(Role.ASSISTANT, ReasoningPart(""), ReasoningPart("t"))],
            marks=pytest.mark.rule("STR-048"),
        ),
        pytest.param(
            user(UNKNOWN, text("a"), {"type": "server_tool_use"}),
            [said(Role.USER, TextPart("a"))],
            marks=pytest.mark.rule("MSG-040"),
        ),
        (user(), [said(Role.USER)]),
        pytest.param(user(UNKNOWN), [said(Role.USER)], marks=pytest.mark.rule("MSG-040")),
        (user(UNKNOWN, RESULT), [said(Role.TOOL, ToolResultPart("toolu_1", [TextPart("pong")]))]),
        ({"role": "user", "content": "", "name": 4, "x": [1]}, [said(Role.USER, TextPart(""))]),
    ],
)  # fmt: skip
def test_a_turn_in_the_hub(turn: dict[str, Any], told: list[Message]) -> None:
    assert parse(turns(turn)).messages == told


OWN = {"type": "server_tool_use", "id": "s", "name": "n", "input": {}}


@pytest.mark.rule("MSG-039", "MSG-042", "CACHE-004")
def test_a_provider_of_the_format_gets_the_turns_as_they_were_sent() -> None:
    messages = [
        SYSTEM_TURN,
        user(
            text("doc") | MARK, PIXEL | MARK, {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}
        ),
        assistant({"type": "thinking", "thinking": "why", "signature": "s"}, text("So"), CALL | MARK),
        user(RESULT | MARK | {"content": [text("x") | MARK, {"type": "tool_reference", "tool_name": "x"}]}, text("q")),
        assistant(OWN, {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x"}]}, text("b")),
        user({"type": "container_upload", "file_id": "f"}, {"type": "search_result", "content": [text("c")]}),
        SYSTEM_TURN | {"extra": 1},
    ]
    request = parse(turns(*messages))
    assert passed(request, "messages") == messages
    assert b" " in bytes(request.fields["messages"]), "not even rewritten"


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (user(text("a") | MARK, UNKNOWN, text("b")), user(text("a") | MARK, text("b"))),
        (user(FILE, text("b")) | {"x": 1}, user(text("b")) | {"x": 1}),
        (user({"type": "document", "source": {"type": "file"}}, PIXEL), user(PIXEL)),
        (assistant(text("a"), UNKNOWN, OWN), assistant(text("a"), OWN)),
        (user(RESULT | MARK | {"content": [UNKNOWN, text("a"), FILE]}), user(RESULT | MARK | {"content": [text("a")]})),
        (user(RESULT | {"content": [UNKNOWN]}), user(RESULT | {"content": ""})),
        (user(UNKNOWN), {"role": "user", "content": ""}),
        ({"role": "system", "content": [text("a"), PIXEL]}, {"role": "system", "content": [text("a")]}),
    ],
)  # fmt: skip
@pytest.mark.rule("MSG-040", "VIS-014")
def test_a_provider_of_the_format_gets_no_block_that_is_ignored(turn: Any, told: Any) -> None:
    assert passed(parse(turns(HI, turn, HI)), "messages") == [HI, told, HI]


@pytest.mark.rule("VIS-036")
def test_pictures_are_counted_those_in_results_too() -> None:
    request = parse(turns(user(PIXEL, PICTURE_AT, FILE, RESULT | {"content": [PIXEL, PICTURE_AT]})))
    assert (request.images, request.remote_images) == (4, 2)


@pytest.mark.rule("VIS-035")
def test_an_image_keeps_its_data_whatever_they_are() -> None:
    source = {"type": "base64", "media_type": "image/jpg", "data": "no base64\n=="}
    assert parse(turns(user({"type": "image", "source": source}))).messages[0].parts == [
        ImagePart(media_type="image/jpg", data="no base64\n==")
    ]


@pytest.mark.rule("TOOL-010")
def test_the_input_of_an_earlier_call_is_the_text_the_client_sent() -> None:
    written = '{"n": 12345678901234567890123, "x": 1.10, "s": "\\u00e9"}'
    raw = turns(assistant(CALL | {"input": {"in": "its place"}})).replace(b'{"in": "its place"}', written.encode())
    assert parse(raw).messages[0].parts == [ToolCall("toolu_1", "ping", written)]
