"""Messages streams: a strict reader of the events, and every order in which a model can bring its pieces."""

import json
from typing import Any

import pytest

from libs.llm.canonical import (
    Finish,
    FinishReason,
    LogprobsDelta,
    ReasoningEnd,
    RedactedReasoning,
    StreamEvent,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import INTERRUPTED_MESSAGE, ApiError, FailureKind, ProviderFailure
from libs.llm.formats.anthropic_messages import FORMAT
from libs.llm.identity import Identity
from tests.unit.llm.anthropic_messages.bodies import body, parse

IDENTITY = Identity("0190f3a1", "client/name", 1_790_000_000)
USAGE = Usage(14, 6, cached=4, tells_cached=True)
DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}


def done(reason: FinishReason = FinishReason.STOP) -> Finish:
    return Finish(reason, USAGE)


def frames(raw: bytes) -> list[dict[str, Any]]:
    """The events, each of an ``event:`` line that names its type, one ``data:`` line and a blank line."""
    told = []
    assert raw.endswith(b"\n\n") or not raw
    for frame in raw.split(b"\n\n")[:-1]:
        name, data = frame.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        told.append(event)
    return told


def read(raw: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The blocks, each as its deltas make it, and the final ``message_delta``; fails for any disorder."""
    events = frames(raw)
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    assert events[0]["type"] == "message_start"
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert not is_open and event["index"] == len(blocks)
            is_open = True
            blocks.append(event["content_block"])
            continue
        assert is_open and event["index"] == len(blocks) - 1
        if event["type"] == "content_block_stop":
            is_open = False
            continue
        assert event["type"] == "content_block_delta"
        delta = event["delta"]
        kind, member = DELTAS[delta["type"]]
        assert blocks[-1]["type"] == kind and "signed" not in blocks[-1]
        if delta["type"] == "signature_delta":
            blocks[-1]["signed"] = True
        blocks[-1][member] = blocks[-1].get(member, "") + delta[member]
    assert not is_open
    return blocks, events[-2]


def written(*events: StreamEvent) -> bytes:
    """All events at once, which must give the same bytes as one by one."""
    single = FORMAT.writer(IDENTITY, parse(body()))
    raw = b"".join(single.write([event]) for event in events)
    writer = FORMAT.writer(IDENTITY, parse(body()))
    assert writer.write(list(events)) == raw
    assert writer.characters == single.characters
    return raw


def thinking(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature, "signed": True}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(index: int, arguments: str, name: str = "f") -> dict[str, Any]:
    return {"type": "tool_use", "id": f"c{index}", "name": name, "input": {}, "partial_json": arguments}


def start(index: int, name: str = "f") -> ToolCallStart:
    return ToolCallStart(index, f"c{index}", name)


def piece(index: int, arguments: str) -> ToolCallDelta:
    return ToolCallDelta(index, arguments)


WHY, SO, DONE = reasoning_delta("why"), text_delta("So"), text_delta("done")
ORDERS: list[tuple[str, list[StreamEvent], list[dict[str, Any]]]] = [
    ("nothing", [], []),
    ("text", [SO, text_delta(" é\n😀")], [said("So é\n😀")]),
    ("empty text", [text_delta(""), SO, text_delta("")], [said("So")]),
    ("reasoning", [WHY, WHY, SO], [thinking("whywhy"), said("So")]),
    ("signed reasoning", [WHY, ReasoningEnd("s"), SO], [thinking("why", "s"), said("So")]),
    ("reasoning signed with nothing", [WHY, ReasoningEnd(""), WHY, SO], [thinking("why"), thinking("why"), said("So")]),
    ("a proof alone", [ReasoningEnd("s"), SO], [thinking("", "s"), said("So")]),
    ("no proof and no reasoning", [ReasoningEnd(""), SO], [said("So")]),
    ("a late proof", [WHY, SO, ReasoningEnd("s")], [thinking("why"), said("So"), thinking("", "s")]),
    ("empty reasoning", [reasoning_delta(""), SO], [said("So")]),
    (
        "sealed reasoning",
        [WHY, RedactedReasoning("x"), RedactedReasoning("y"), SO],
        [
            thinking("why"),
            {"type": "redacted_thinking", "data": "x"},
            {"type": "redacted_thinking", "data": "y"},
            said("So"),
        ],
    ),
    ("reasoning alone", [WHY], [thinking("why")]),
    ("reasoning between texts", [SO, WHY, DONE], [said("So"), thinking("why"), said("done")]),
    ("logprobs", [LogprobsDelta(b"{}"), SO], [said("So")]),
    ("a call first", [start(0), piece(0, "{}")], [call(0, "{}")]),
    (
        "all three",
        [WHY, SO, start(0), piece(0, '{"a"'), piece(0, ":1}")],
        [thinking("why"), said("So"), call(0, '{"a":1}')],
    ),
    ("text after a call", [start(0), piece(0, "{}"), DONE], [call(0, "{}"), said("done")]),
    (
        "two calls",
        [start(0), piece(0, "{}"), start(1, "g"), piece(1, '{"b":2}')],
        [call(0, "{}"), call(1, '{"b":2}', "g")],
    ),
    (
        "two calls mixed",
        [
            start(0),
            start(1),
            piece(0, '{"a":'),
            piece(1, '{"b"'),
            piece(0, "{}"),
            piece(1, ":2"),
            piece(0, "}"),
            piece(1, "}"),
        ],
        [call(0, '{"a":{}}'), call(1, '{"b":2}')],
    ),
    (
        "three calls, the second and third whole before the first",
        [start(0), start(1), start(2), piece(2, "{}"), piece(1, '{"b":2}'), piece(0, "{"), piece(0, "}")],
        [call(0, "{}"), call(1, '{"b":2}'), call(2, "{}")],
    ),
    (
        "text while a call is not whole",
        [start(0), piece(0, '{"a":"}'), SO, WHY, piece(0, '"}'), DONE],
        [call(0, '{"a":"}"}'), said("So"), thinking("why"), said("done")],
    ),
    (
        "a call that never becomes whole",
        [start(0), piece(0, '{"a":'), start(1), piece(1, "{}"), SO, start(2), piece(2, "oops")],
        [call(0, '{"a":'), call(1, "{}"), said("So"), call(2, "oops")],
    ),
    (
        "white space after a call",
        [start(0), piece(0, "{}"), start(1), piece(0, "\n"), piece(1, "{}")],
        [call(0, "{}"), call(1, "{}")],
    ),
]


@pytest.mark.parametrize(("events", "blocks"), [pytest.param(case[1], case[2], id=case[0]) for case in ORDERS])
@pytest.mark.rule("STR-004", "STR-005", "STR-008", "STR-040", "STR-041", "STR-042", "STR-044", "STR-046", "STR-047")
def test_blocks_follow_each_other_and_lose_nothing(events: list[StreamEvent], blocks: list[dict[str, Any]]) -> None:
    assert read(written(*events, done()))[0] == blocks


@pytest.mark.rule("STR-039")
@pytest.mark.parametrize("first", [SO, WHY, start(0), done()])
def test_the_message_opens_before_anything_else(first: StreamEvent) -> None:
    writer = FORMAT.writer(IDENTITY, parse(body(system="a" * 54)))
    assert frames(writer.write([first]))[0] == {
        "type": "message_start",
        "message": {
            "id": "0190f3a1",
            "type": "message",
            "role": "assistant",
            "model": "client/name",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 14, "output_tokens": 0},
        },
    }


@pytest.mark.rule("STR-043", "STR-050", "CACHE-012", "MSG-048")
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (FinishReason.STOP, "end_turn"),
        (FinishReason.STOP_SEQUENCE, "stop_sequence"),
        (FinishReason.LENGTH, "max_tokens"),
        (FinishReason.TOOL_CALLS, "tool_use"),
        (FinishReason.CONTENT_FILTER, "refusal"),
    ],
)
def test_the_end_tells_the_reason_and_the_whole_usage(reason: FinishReason, told: str) -> None:
    assert read(written(SO, done(reason)))[1] == {
        "type": "message_delta",
        "delta": {"stop_reason": told, "stop_sequence": None},
        "usage": {"input_tokens": 10, "output_tokens": 6, "cache_read_input_tokens": 4},
    }


@pytest.mark.rule("STR-049")
def test_the_pieces_of_a_call_go_out_as_they_come() -> None:
    writer = FORMAT.writer(IDENTITY, parse(body()))
    writer.write([start(0)])
    assert [event["delta"]["partial_json"] for event in frames(writer.write([piece(0, '{"a"')]))] == ['{"a"']
    assert [event["delta"]["partial_json"] for event in frames(writer.write([piece(0, ":1}")]))] == [":1}"]
    assert [event["type"] for event in frames(writer.write([start(1)]))] == [
        "content_block_stop",
        "content_block_start",
    ]


@pytest.mark.rule("STR-075")
def test_text_goes_out_at_once_in_the_bytes_that_came() -> None:
    writer = FORMAT.writer(IDENTITY, parse(body()))
    writer.write([SO])
    assert writer.write([text_delta("é")]) == (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"\xc3\xa9"}}\n\n'
    )


def test_what_was_written_is_counted() -> None:
    writer = FORMAT.writer(IDENTITY, parse(body()))
    writer.write([WHY])
    assert writer.characters == 3
    writer.write([RedactedReasoning("xxxx"), ReasoningEnd("s")])
    assert writer.characters == 3
    writer.write([start(0, "name"), piece(0, "{}")])
    assert writer.characters == 9
    writer.write([SO, SO])
    assert writer.characters == 13


INTERRUPTED = ProviderFailure(FailureKind.INTERRUPTED).api_error(streaming=True)


def rejection(code: str) -> ApiError:
    return ProviderFailure(FailureKind.REJECTED, code=code, status=404).api_error(streaming=True)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        pytest.param(INTERRUPTED, "api_error", marks=pytest.mark.rule("STR-053", "ERR-022")),
        pytest.param(rejection("upstream_error"), "api_error"),
        pytest.param(rejection("content_policy_violation"), "invalid_request_error", marks=pytest.mark.rule("ERR-023")),
        pytest.param(rejection("model_not_found"), "invalid_request_error", marks=pytest.mark.rule("ERR-023")),
        (ApiError(status=429, code="upstream_error", message="later"), "api_error"),
        (ApiError(status=500, code="internal_error", message="sorry"), "api_error"),
        (ApiError(status=400, code="bad_request", message="mend it"), "invalid_request_error"),
    ],
)
@pytest.mark.parametrize("before", [[], [SO], [WHY], [start(0), piece(0, "{"), start(1)]])
@pytest.mark.rule("STR-051", "STR-052")
def test_a_failure_is_the_last_event(before: list[StreamEvent], error: ApiError, told: str) -> None:
    writer = FORMAT.writer(IDENTITY, parse(body()))
    raw = writer.write(before) if before else b""
    events = frames(raw + writer.fail(error))
    assert events[-1] == {"type": "error", "error": {"type": told, "message": error.message}}
    assert "message_stop" not in [event["type"] for event in events]


def test_an_interruption_says_to_send_the_request_again() -> None:
    failed = FORMAT.writer(IDENTITY, parse(body())).fail(INTERRUPTED)
    assert INTERRUPTED_MESSAGE.encode() in failed
