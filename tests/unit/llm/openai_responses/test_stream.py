"""Responses streams: the contract's events in its order, whatever order a provider's pieces come in."""

import json
from typing import Any

import pytest

from libs.llm.canonical import (
    Answer,
    AnswerPart,
    ChatRequest,
    Finish,
    FinishReason,
    LogprobsDelta,
    ReasoningEnd,
    ReasoningPart,
    RedactedReasoning,
    StreamEvent,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import INTERRUPTED_MESSAGE, ApiError
from libs.llm.formats.openai_responses import FORMAT
from libs.llm.identity import Identity
from tests.support.frames import frames
from tests.support.joined_responses import join_responses
from tests.unit.llm.openai_responses.bodies import SEAL, body, parse

IDENTITY = Identity("0198", "fx", 1_790_000_000)
USAGE = Usage(prompt=21, completion=7, cached=5, reasoning=3)
END = Finish(FinishReason.STOP, USAGE)
CUT = ApiError(status=503, code="stream_interrupted", type="upstream_error", message=INTERRUPTED_MESSAGE)
PLAIN = parse(body())
ASKS_SEALED = parse(body(include=["reasoning.encrypted_content"]))


def written(*events: StreamEvent, request: ChatRequest = PLAIN) -> bytes:
    """The stream when each event comes alone; it is the same when all come at once."""
    writer = FORMAT.writer(IDENTITY, request)
    single = b"".join(writer.write([event]) for event in events)
    assert FORMAT.writer(IDENTITY, request).write(list(events)) == single
    return single


def kinds(raw: bytes) -> list[str]:
    return [frame.event.removeprefix("response.") for frame in frames(raw)]


def start(index: int, name: str = "f") -> ToolCallStart:
    return ToolCallStart(index, f"c{index}", name)


@pytest.mark.rule("STR-006")
@pytest.mark.rule("STR-056")
@pytest.mark.rule("STR-057")
@pytest.mark.rule("STR-058")
@pytest.mark.rule("STR-062")
def test_a_text() -> None:
    raw = written(text_delta("Hel"), text_delta('lo "\n😀'), END)
    told = [frame.json for frame in frames(raw)]
    assert [event["sequence_number"] for event in told] == [0, 1, 2, 3, 4, 5]
    assert told[0]["response"]["status"] == "in_progress"
    assert (told[0]["response"]["id"], told[0]["response"]["model"]) == ("resp_0198", "fx")
    place = {"item_id": "msg_0198_0", "output_index": 0, "content_index": 0}
    assert told[2] == {"type": "response.output_text.delta", "delta": "Hel", "sequence_number": 2} | place
    assert join_responses(raw).text == 'Hello "\n😀'


@pytest.mark.rule("RESP-056")
def test_an_item_starts_with_the_part_that_sdks_fill() -> None:
    added = frames(written(text_delta("a"), END))[1].json
    assert added["item"]["content"] == [{"type": "output_text", "text": "", "annotations": []}]
    assert added["item"]["status"] == "in_progress"


@pytest.mark.rule("STR-059")
@pytest.mark.rule("STR-061")
@pytest.mark.rule("STR-015")
@pytest.mark.rule("STR-066")
def test_reasoning_comes_first_as_one_item() -> None:
    raw = written(reasoning_delta("wh"), reasoning_delta("y"), ReasoningEnd("sig"), text_delta("a"), END)
    assert kinds(raw) == [
        "created",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "output_text.delta",
        "output_item.done",
        "completed",
    ]
    joined = join_responses(raw)
    assert (joined.reasoning, joined.text) == ("why", "a")
    delta = frames(raw)[3].json
    assert (delta["item_id"], delta["output_index"], delta["summary_index"]) == ("rs_0198_0", 0, 0)


@pytest.mark.rule("STR-060")
def test_reasoning_after_the_answer_began_is_not_shown() -> None:
    late: list[StreamEvent] = [reasoning_delta("more"), ReasoningEnd(SEAL), RedactedReasoning("zz")]
    raw = written(reasoning_delta("why"), text_delta("a"), *late, text_delta("b"), END, request=ASKS_SEALED)
    joined = join_responses(raw)
    assert (joined.reasoning, joined.text) == ("why", "ab")
    raw = written(start(0), *late, ToolCallDelta(0, "{}"), END)
    assert join_responses(raw).reasoning == ""


@pytest.mark.rule("STR-016")
@pytest.mark.rule("RSN-051")
def test_no_reasoning_no_item() -> None:
    raw = written(RedactedReasoning("zz"), ReasoningEnd(""), LogprobsDelta(b"[]"), text_delta("a"), END)
    assert [block["type"] for block in join_responses(raw).blocks] == ["message"]


@pytest.mark.rule("STR-063")
@pytest.mark.rule("STR-064")
@pytest.mark.rule("RESP-050")
def test_a_call() -> None:
    raw = written(start(0), ToolCallDelta(0, '{"a":'), ToolCallDelta(0, "1}"), END)
    assert kinds(raw)[1:5] == [
        "output_item.added",
        *["function_call_arguments.delta"] * 2,
        "function_call_arguments.done",
    ]
    done = frames(raw)[-2].json
    assert done["item"] == {
        "type": "function_call",
        "id": "fc_0198_0",
        "status": "completed",
        "call_id": "c0",
        "name": "f",
        "arguments": '{"a":1}',
    }
    join_responses(raw)


ORDERS: list[list[StreamEvent]] = [
    [start(0), ToolCallDelta(0, "{}"), start(1), ToolCallDelta(1, '{"b":'), ToolCallDelta(1, "2}")],
    [
        start(0),
        start(1),
        ToolCallDelta(0, "{"),
        ToolCallDelta(1, '{"b":'),
        ToolCallDelta(0, "}"),
        ToolCallDelta(1, "2}"),
    ],
    [start(0), start(1), ToolCallDelta(1, '{"b":2}'), ToolCallDelta(0, "{"), ToolCallDelta(0, "}")],
    [start(0), start(1), ToolCallDelta(1, '{"b":2}'), ToolCallDelta(0, "{} "), ToolCallDelta(0, " ")],
]


@pytest.mark.rule("STR-063")
@pytest.mark.parametrize("events", ORDERS, ids=["in turn", "overlapping", "later first", "space after"])
def test_calls_that_overlap_come_out_one_after_the_other(events: list[StreamEvent]) -> None:
    joined = join_responses(written(*events, END))
    assert [(call.id, call.arguments.strip()) for call in joined.calls] == [("c0", "{}"), ("c1", '{"b":2}')]


def test_a_call_whose_arguments_are_whole_is_closed_at_once() -> None:
    writer = FORMAT.writer(IDENTITY, PLAIN)
    first = writer.write([start(0), ToolCallDelta(0, "{}"), start(1)])
    assert kinds(first)[-3:] == ["function_call_arguments.done", "output_item.done", "output_item.added"]
    assert kinds(writer.write([ToolCallDelta(1, "{")])) == ["function_call_arguments.delta"]


def test_arguments_that_never_close_hold_up_the_rest_but_lose_nothing() -> None:
    raw = written(start(0), ToolCallDelta(0, '{"a'), start(1), ToolCallDelta(1, "{}"), text_delta("b"), END)
    joined = join_responses(raw)
    assert [call.arguments for call in joined.calls] == ['{"a', "{}"]
    assert joined.text == "b"


@pytest.mark.rule("STR-058")
def test_text_and_calls_in_any_order_keep_it() -> None:
    raw = written(
        text_delta("a"), start(0), ToolCallDelta(0, "{}"), text_delta("b"), text_delta("c"), start(1),
        ToolCallDelta(1, "{}"), END,
    )  # fmt: skip
    told = [(block["type"], block["id"]) for block in join_responses(raw).blocks]
    assert told == [
        ("message", "msg_0198_0"),
        ("function_call", "fc_0198_1"),
        ("message", "msg_0198_2"),
        ("function_call", "fc_0198_3"),
    ]


@pytest.mark.rule("STR-007")
@pytest.mark.rule("STR-065")
@pytest.mark.parametrize(
    "reason", [FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.LENGTH, FinishReason.CONTENT_FILTER]
)
def test_the_end_equals_the_whole_answer(reason: FinishReason) -> None:
    parts: list[AnswerPart] = [ReasoningPart("why", SEAL), TextPart("Hi"), ToolCall("c0", "f", "{}")]
    events: list[StreamEvent] = [reasoning_delta("why"), ReasoningEnd(SEAL), text_delta("Hi"), start(0)]
    events.append(ToolCallDelta(0, "{}"))
    for request in (PLAIN, ASKS_SEALED):
        raw = written(*events, Finish(reason, USAGE), request=request)
        whole = FORMAT.render_answer(Answer(parts=parts, finish_reason=reason, usage=USAGE), USAGE, IDENTITY, request)
        assert frames(raw)[-1].json["response"] == json.loads(whole)
        assert join_responses(raw).usage == json.loads(whole)["usage"]


@pytest.mark.rule("STR-067")
def test_a_limit_ends_in_completed_with_status_incomplete() -> None:
    told = frames(written(text_delta("a"), Finish(FinishReason.LENGTH, USAGE)))[-1]
    assert told.event == "response.completed"
    assert told.json["response"]["status"] == "incomplete"
    assert told.json["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_sealed_reasoning_without_text_is_an_item_without_summary() -> None:
    raw = written(ReasoningEnd(SEAL), start(0), ToolCallDelta(0, "{}"), END, request=ASKS_SEALED)
    item = frames(raw)[-1].json["response"]["output"][0]
    assert (item["type"], item["summary"], item["encrypted_content"]) == ("reasoning", [], SEAL)
    assert "reasoning" not in str(kinds(raw))
    assert join_responses(written(ReasoningEnd(SEAL), text_delta("a"), END)).reasoning == ""


@pytest.mark.rule("RESP-029")
def test_sealed_reasoning_is_not_shown_unasked() -> None:
    assert SEAL.encode() not in written(reasoning_delta("why"), ReasoningEnd(SEAL), text_delta("a"), END)


BREAKS: list[tuple[list[StreamEvent], int]] = [
    ([], 1),
    ([text_delta("a")], 3),
    ([reasoning_delta("a")], 4),
    ([start(0), ToolCallDelta(0, "{"), start(1)], 3),
]


@pytest.mark.rule("STR-068")
@pytest.mark.rule("STR-069")
@pytest.mark.rule("ERR-021")
@pytest.mark.parametrize(("events", "number"), BREAKS, ids=["before", "text", "reasoning", "calls"])
def test_a_failure(events: list[StreamEvent], number: int) -> None:
    writer = FORMAT.writer(IDENTITY, PLAIN)
    raw = (writer.write(events) if events else b"") + writer.fail(CUT)
    joined = join_responses(raw)
    assert joined.error == {"code": "stream_interrupted", "message": INTERRUPTED_MESSAGE}
    told = frames(raw)
    assert told[0].event == "response.created"
    last = told[-1].json
    assert (last["sequence_number"], last["response"]["id"], last["response"]["model"]) == (number, "resp_0198", "fx")


@pytest.mark.rule("ERR-023")
def test_a_rejection_in_a_stream_keeps_its_code() -> None:
    rejected = ApiError(status=400, code="content_policy_violation", type="upstream_error", message="m")
    raw = FORMAT.writer(IDENTITY, PLAIN).fail(rejected)
    assert join_responses(raw).error == {"code": "content_policy_violation", "message": "m"}


def test_what_was_said_is_counted() -> None:
    writer = FORMAT.writer(IDENTITY, PLAIN)
    writer.write([reasoning_delta("why")])
    assert writer.characters == 3
    writer.write([text_delta("ab"), text_delta("c")])
    assert writer.characters == 6
    writer.write([start(0, "name"), ToolCallDelta(0, "{}"), END])
    assert writer.characters == 12


@pytest.mark.rule("STR-008")
def test_a_format_sent_over_many_lines_stays_within_its_frames() -> None:
    sent: dict[str, Any] = {"format": {"type": "json_schema", "name": "n", "schema": {"a": {"b": 1}}}}
    raw = json.dumps({"model": "m", "input": "Hi", "text": sent}, indent=1).encode()
    told = frames(written(text_delta("a"), END, request=parse(raw)))
    assert told[-1].json["response"]["text"] == sent
