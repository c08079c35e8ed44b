"""The stream decoder of Responses: any cut of any stream gives the same events, and every end is told apart."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import (
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from libs.llm.failures import FailureKind
from libs.llm.providers.openai_responses.items import seal_reasoning
from libs.llm.providers.openai_responses.stream import StreamDecoder
from tests.support.provider import DONE, comment, event
from tests.unit.llm.hub import UPSTREAM
from tests.unit.llm.openai_responses_provider.events import (
    CREATED,
    MESSAGE,
    USAGE,
    added,
    arguments,
    call,
    closing,
    ended,
    message,
    reasoning,
    sse,
    text,
    thought,
)

COUNTED = Usage(prompt=14, completion=6, cached=8, reasoning=4, tells_cached=True)
STOP = Finish(FinishReason.STOP, COUNTED)
CALLED = Finish(FinishReason.TOOL_CALLS, COUNTED)
END = ReasoningEnd(seal_reasoning(UPSTREAM, "rs_1", "sealed"))


def read(*reads: bytes, end: bool = True) -> tuple[list[StreamEvent], StreamDecoder]:
    """All events of a body that arrives in these reads and then ends."""
    decoder = StreamDecoder(UPSTREAM, 1_000)
    events: list[StreamEvent] = []
    for data in reads:
        events += decoder.feed(data)
        if decoder.failure or decoder.done:
            return events, decoder
    return events + (decoder.end() if end else []), decoder


def said(events: list[StreamEvent]) -> str:
    for each in events:
        if isinstance(each, TextDelta | ReasoningDelta):
            assert json.loads(each.json) == each.text
    return "".join(each.text for each in events if isinstance(each, TextDelta))


def thoughts(events: list[StreamEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, ReasoningDelta))


def starts_and_arguments(events: list[StreamEvent]) -> tuple[list[tuple[int, str, str]], dict[int, str]]:
    starts = [(each.index, each.id, each.name) for each in events if isinstance(each, ToolCallStart)]
    pieces: dict[int, str] = {}
    for each in events:
        if isinstance(each, ToolCallDelta):
            assert each.arguments
            pieces[each.index] = pieces.get(each.index, "") + each.arguments
    return starts, pieces


WHOLE = [
    CREATED,
    comment("waiting"),
    sse("response.queued"),
    added(reasoning(encrypted=None)),
    sse("response.reasoning_summary_part.added", output_index=0, summary_index=0, part={"type": "summary_text"}),
    thought("Why "),
    thought("not é"),
    thought("Then", part=1),
    ended(reasoning("Why not é", "Then")),
    added(MESSAGE, 1),
    sse("response.content_part.added", output_index=1, content_index=0, part={"type": "output_text", "text": ""}),
    text('The "ans', 1),
    text("wer\n\\ é 😀", 1),
    sse("response.output_text.done", output_index=1, text='The "answer'),
    sse("response.a_kind_of_tomorrow", delta={"x": 1}, item=[1], arguments=[2]),
    ended(message({"type": "output_text", "text": "unused"}), 1),
    added(call(2), 2),
    arguments('{"n"', 2),
    arguments(":1}", 2),
    sse("response.function_call_arguments.done", output_index=2, arguments='{"n":1}'),
    ended(call(2, '{"n":1}'), 2),
    closing(),
]


@pytest.mark.rule("STR-022", "STR-024", "STR-025", "RSN-050")
def test_a_whole_stream_in_order() -> None:
    events, decoder = read(*WHOLE)
    assert decoder.done and decoder.failure is None
    assert [type(each).__name__ for each in events] == [
        *["ReasoningDelta"] * 4,
        "ReasoningEnd",
        *["TextDelta"] * 2,
        "ToolCallStart",
        *["ToolCallDelta"] * 2,
        "Finish",
    ]
    assert thoughts(events) == "Why not é\n\nThen"
    assert said(events) == 'The "answer\n\\ é 😀'
    assert events[4] == END
    assert starts_and_arguments(events) == ([(0, "call_2x", "look")], {0: '{"n":1}'})
    assert events[-1] == CALLED


@pytest.mark.rule("STR-076")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(b"".join(WHOLE))), max_size=12))
def test_any_cut_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    body = b"".join(WHOLE)
    places = sorted({0, len(body), *cuts})
    pieces = [body[begin:end] for begin, end in pairwise(places)]
    assert read(*pieces)[0] == read(*WHOLE)[0]


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(b"".join(WHOLE)) - 3))
def test_a_stream_cut_anywhere_is_interrupted_after_what_came(place: int) -> None:
    body = b"".join(WHOLE)
    events, decoder = read(body[:place])
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.INTERRUPTED
    assert not decoder.done
    assert events == read(*WHOLE)[0][: len(events)]


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n"])
def test_the_last_event_counts_without_its_blank_line(tail: bytes) -> None:
    events, decoder = read(text("a"), closing().rstrip(b"\n") + tail)
    assert decoder.done and events[-1] == STOP


@pytest.mark.parametrize(
    ("frames", "starts", "pieces"),
    [
        ([ended(call(0, '{"n":1}'))], [(0, "call_0x", "look")], {0: '{"n":1}'}),
        ([added(call(0)), ended(call(0, '{"n":1}'))], [(0, "call_0x", "look")], {0: '{"n":1}'}),
        ([added(call(0)), ended(call(0))], [(0, "call_0x", "look")], {0: "{}"}),
        ([added(call(0))], [(0, "call_0x", "look")], {0: "{}"}),
        (
            [added(call(0)), sse("response.function_call_arguments.done", output_index=0, arguments="[]")],
            [(0, "call_0x", "look")],
            {0: "[]"},
        ),
        ([arguments("{"), added(call(0)), arguments("}"), ended(call(0, "{}"))], [(0, "call_0x", "look")], {0: "{}"}),
        (
            [added(call(3), 3), added(call(5), 5), arguments("5", 5), arguments("3", 3), arguments("5", 5)],
            [(0, "call_3x", "look"), (1, "call_5x", "look")],
            {0: "3", 1: "55"},
        ),
    ],
)
@pytest.mark.rule("TOOL-032", "STR-026", "STR-027")
def test_calls_are_whole_however_their_arguments_come(
    frames: list[bytes], starts: list[tuple[int, str, str]], pieces: dict[int, str]
) -> None:
    events, _ = read(*frames, closing())
    assert starts_and_arguments(events) == (starts, pieces)
    assert events[-1] == CALLED


def test_items_without_places_are_told_apart_by_their_ids() -> None:
    def bare(kind: str, **members: Any) -> bytes:
        return event({"type": kind} | members)

    one, two = call(0), call(1)
    events, _ = read(
        bare("response.output_item.added", item=one),
        bare("response.output_item.added", item=two),
        bare("response.function_call_arguments.delta", item_id="fc_1", delta="1"),
        bare("response.function_call_arguments.delta", item_id="fc_0", delta="0"),
        closing(),
    )
    assert starts_and_arguments(events)[1] == {0: "0", 1: "1"}


def test_the_name_of_an_event_stands_in_for_a_missing_type() -> None:
    nameless = event({"delta": "a"}, "response.output_text.delta")
    assert said(read(nameless, closing())[0]) == "a"


def test_text_and_reasoning_that_come_only_with_their_item() -> None:
    events, _ = read(ended(reasoning("Why", "so")), ended(message({"type": "output_text", "text": "Hi"}), 1), closing())
    assert (thoughts(events), said(events)) == ("Why\n\nso", "Hi")


def test_a_refusal_is_text() -> None:
    events, _ = read(sse("response.refusal.delta", output_index=0, delta="No"), closing())
    assert said(events) == "No"
    item = message({"type": "refusal", "refusal": "No"})
    assert said(read(ended(item), closing())[0]) == "No"


def test_reasoning_told_in_full_and_in_summary_comes_once() -> None:
    full = sse("response.reasoning_text.delta", output_index=0, content_index=0, delta="full")
    events, _ = read(full, thought("short"), full, ended(reasoning("short", encrypted=None)), closing())
    assert thoughts(events) == "fullfull"
    assert not any(isinstance(each, ReasoningEnd) for each in events)


def test_encrypted_reasoning_without_a_summary_still_comes_back() -> None:
    assert read(ended(reasoning()), text("a", 1), closing())[0][0] == END


@pytest.mark.rule("STR-067", "RSN-055")
@pytest.mark.parametrize(
    ("status", "members", "reason"),
    [
        ("completed", {}, FinishReason.STOP),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, FinishReason.LENGTH),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, FinishReason.CONTENT_FILTER),
        ("incomplete", {}, FinishReason.LENGTH),
    ],
)
def test_endings(status: str, members: dict[str, Any], reason: FinishReason) -> None:
    events, decoder = read(text("a"), closing(status, **members), DONE)
    assert decoder.done and events[-1] == Finish(reason, COUNTED)


@pytest.mark.rule("RSN-055")
def test_thinking_that_used_the_limit_up_is_a_cut_off_though_called_complete() -> None:
    used_up = USAGE | {"output_tokens": 1_000}
    events, _ = read(thought("hm"), closing(usage=used_up))
    assert isinstance(events[-1], Finish) and events[-1].finish_reason is FinishReason.LENGTH
    events, _ = read(text("a"), closing(usage=used_up))
    assert isinstance(events[-1], Finish) and events[-1].finish_reason is FinishReason.STOP


@pytest.mark.rule("STR-030")
@pytest.mark.parametrize(
    "usage",
    [None, {}, [], *({"input_tokens": given, "output_tokens": told} for given, told in ((-1, 2), (0, 0), (2**40, 1)))],
)
def test_counts_that_cannot_be_used_are_none(usage: object) -> None:
    assert read(text("a"), closing(usage=usage))[0][-1] == Finish(FinishReason.STOP, None)


def test_counts_without_details() -> None:
    events, _ = read(text("a"), closing(usage={"input_tokens": 3, "output_tokens": 1}))
    assert events[-1] == Finish(FinishReason.STOP, Usage(prompt=3, completion=1))


@pytest.mark.parametrize(
    ("frame", "kind", "code"),
    [
        (
            sse("response.failed", response={"status": "failed", "error": {"code": "server_error", "message": "x"}}),
            FailureKind.FAILED,
            "upstream_error",
        ),
        (sse("response.failed", response={"status": "failed", "error": None}), FailureKind.FAILED, "upstream_error"),
        (
            sse("response.failed", response={"status": "failed", "error": {"code": "rate_limit_exceeded"}}),
            FailureKind.RATE_LIMITED,
            "upstream_error",
        ),
        (
            sse("response.failed", response={"status": "failed", "error": {"code": "invalid_prompt"}}),
            FailureKind.REJECTED,
            "content_policy_violation",
        ),
        (
            sse("response.failed", response={"status": "failed", "error": {"code": "image_too_large"}}),
            FailureKind.REJECTED,
            "invalid_request_error",
        ),
        (
            event({"type": "error", "code": "context_length_exceeded", "message": "long", "param": None}, "error"),
            FailureKind.REJECTED,
            "context_length_exceeded",
        ),
        (
            event({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}),
            FailureKind.REJECTED,
            "invalid_request_error",
        ),
        (event({"error": {"code": 503, "message": "x"}}), FailureKind.FAILED, "upstream_error"),
        (sse("response.cancelled", response={"status": "cancelled"}), FailureKind.INTERRUPTED, "upstream_error"),
        (b"data: {oops\n\n", FailureKind.JUNK, "upstream_error"),
        (b"data: 7\n\n", FailureKind.JUNK, "upstream_error"),
        (sse("response.output_text.delta", output_index=0, delta=7), FailureKind.JUNK, "upstream_error"),
        (ended({"type": "function_call", "call_id": "c"}), FailureKind.JUNK, "upstream_error"),
        (b"data: " + b"[" * 100_000 + b"\n\n", FailureKind.JUNK, "upstream_error"),
        (DONE, FailureKind.INTERRUPTED, "upstream_error"),
    ],
)
@pytest.mark.rule("ERR-023")
def test_failures_wait_until_what_came_before_is_out(frame: bytes, kind: FailureKind, code: str) -> None:
    events, decoder = read(text("before"), frame)
    assert said(events) == "before"
    assert decoder.failure is not None and not decoder.done
    assert (decoder.failure.kind, decoder.failure.code) == (kind, code)


def test_characters_cut_in_two_between_events_are_mended() -> None:
    halves = [sse("response.output_text.delta", output_index=0, delta="#").replace(b'"#"', half) for half in
              (rb'"a\ud83d"', rb'"\ude00b"')]  # fmt: skip
    assert said(read(*halves, closing())[0]) == "a😀b"
