"""The stream decoder of Gemini: any cut of any stream gives the same events, and every end is told apart."""

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
from libs.llm.providers.gemini.contents import seal_call
from libs.llm.providers.gemini.stream import StreamDecoder
from tests.support.provider import comment, event
from tests.unit.llm.gemini.chunks import USAGE, call, chunk, error, last, text, thought
from tests.unit.llm.hub import UPSTREAM

COUNTED = Usage(prompt=14, completion=6, cached=8, reasoning=4, tells_cached=True)


def read(*reads: bytes) -> tuple[list[StreamEvent], StreamDecoder]:
    """All events of a body that arrives in these reads and then ends."""
    decoder = StreamDecoder(UPSTREAM, 1_000)
    events: list[StreamEvent] = []
    for data in reads:
        events += decoder.feed(data)
        if decoder.failure:
            return events, decoder
    return events + decoder.end(), decoder


def plain(events: list[StreamEvent]) -> list[Any]:
    """The events, ids of calls left out (each stream makes its own)."""
    return [(each.index, each.name) if isinstance(each, ToolCallStart) else each for each in events]


def said(events: list[StreamEvent]) -> str:
    for each in events:
        if isinstance(each, TextDelta | ReasoningDelta):
            assert json.loads(each.json) == each.text
    return "".join(each.text for each in events if isinstance(each, TextDelta))


WHOLE = [
    chunk(thought("Why ")),
    comment("waiting"),
    chunk(thought("not é"), {"inlineData": {"mimeType": "image/png", "data": ""}}),
    chunk(text('The "ans'), used=2),
    chunk(text("wer\n\\ é 😀"), text("!"), used=3),
    chunk(call(proof="proof", n=1, deep={"a": [1, 2]})),
    chunk(call("other"), {"executableCode": {"code": "x"}}),
    last(text(""), {"text": "", "thoughtSignature": "of text"}),
]


@pytest.mark.rule("STR-022", "STR-024", "STR-025", "TOOL-032", "RSN-050")
def test_a_whole_stream_in_order() -> None:
    events, decoder = read(*WHOLE)
    assert decoder.done and decoder.failure is None
    assert plain(events) == [
        ReasoningDelta("Why ", b'"Why "'),
        ReasoningDelta("not é", rb'"not \u00e9"'),
        TextDelta('The "ans', rb'"The \"ans"'),
        TextDelta("wer\n\\ é 😀", rb'"wer\n\\ \u00e9 \ud83d\ude00"'),
        TextDelta("!", b'"!"'),
        ReasoningEnd(seal_call(UPSTREAM, "proof")),
        (0, "look"),
        ToolCallDelta(0, '{"n":1,"deep":{"a":[1,2]}}'),
        (1, "other"),
        ToolCallDelta(1, "{}"),
        Finish(FinishReason.TOOL_CALLS, COUNTED),
    ]
    ids = [each.id for each in events if isinstance(each, ToolCallStart)]
    assert len(set(ids)) == 2 and all(id.startswith("call_") for id in ids)


def test_an_id_of_the_service_is_kept() -> None:
    named = call() | {"functionCall": {"id": "fc7", "name": "look"}}
    assert read(last(named))[0][:2] == [ToolCallStart(0, "fc7", "look"), ToolCallDelta(0, "{}")]


@pytest.mark.rule("STR-076")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(b"".join(WHOLE))), max_size=12))
def test_any_cut_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    body = b"".join(WHOLE)
    pieces = [body[begin:end] for begin, end in pairwise(sorted({0, len(body), *cuts}))]
    assert plain(read(*pieces)[0]) == plain(read(*WHOLE)[0])


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(b"".join(WHOLE)) - 3))
def test_a_stream_cut_anywhere_is_interrupted_after_what_came(place: int) -> None:
    events, decoder = read(b"".join(WHOLE)[:place])
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.INTERRUPTED
    assert not decoder.done
    assert plain(events) == plain(read(*WHOLE)[0])[: len(events)]


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n"])
def test_the_last_chunk_counts_without_its_blank_line(tail: bytes) -> None:
    events, decoder = read(chunk(text("a")), last(text("b")).rstrip(b"\n") + tail)
    assert decoder.done and said(events) == "ab"


def test_a_finish_reason_in_every_chunk_ends_nothing_early() -> None:
    events, decoder = read(last(text("a")), last(text("b")), last(text("c")))
    assert decoder.done and said(events) == "abc"
    assert sum(isinstance(each, Finish) for each in events) == 1


@pytest.mark.rule("STR-067", "RSN-055")
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("STOP", FinishReason.STOP),
        ("MAX_TOKENS", FinishReason.LENGTH),
        ("FINISH_REASON_OF_TOMORROW", FinishReason.STOP),
        *(
            (blocked, FinishReason.CONTENT_FILTER)
            for blocked in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")
        ),
    ],
)
def test_endings(reason: str, told: FinishReason) -> None:
    assert read(chunk(text("a")), last(reason=reason))[0][-1] == Finish(told, COUNTED)


@pytest.mark.rule("RSN-055")
def test_thinking_that_used_the_limit_up_is_a_cut_off_though_called_a_stop() -> None:
    used_up = USAGE | {"thoughtsTokenCount": 998}
    events, _ = read(chunk(thought("hm")), last(usage=used_up))
    assert isinstance(events[-1], Finish) and events[-1].finish_reason is FinishReason.LENGTH
    events, _ = read(chunk(text("a")), last(usage=used_up))
    assert isinstance(events[-1], Finish) and events[-1].finish_reason is FinishReason.STOP


@pytest.mark.rule("CACHE-020", "STR-030")
@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (USAGE, COUNTED),
        ({"promptTokenCount": 3, "candidatesTokenCount": 1}, Usage(prompt=3, completion=1)),
        (
            {"promptTokenCount": 3, "toolUsePromptTokenCount": 2, "thoughtsTokenCount": 4},
            Usage(prompt=5, completion=4, reasoning=4),
        ),
        (
            {"promptTokenCount": 3, "candidatesTokenCount": 1, "cachedContentTokenCount": 0},
            Usage(prompt=3, completion=1, tells_cached=True),
        ),
        ({"promptTokenCount": 3}, None),
        ({"promptTokenCount": 0, "candidatesTokenCount": 0}, None),
        ({"promptTokenCount": -1, "candidatesTokenCount": 1}, None),
        ({"promptTokenCount": 2**40, "candidatesTokenCount": 1}, None),
        ([], None),
    ],
)
def test_counts(usage: object, told: Usage | None) -> None:
    assert read(event({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}))[0] == [
        Finish(FinishReason.STOP, told)
    ]


def test_the_last_counts_win_and_earlier_ones_stand_where_the_last_chunk_has_none() -> None:
    events, _ = read(chunk(text("a"), used=2), chunk(text("b"), used=5), last(usage=None))
    assert events[-1] == Finish(FinishReason.STOP, Usage(prompt=14, completion=5))


@pytest.mark.parametrize(
    ("frame", "kind", "code"),
    [
        (event({"promptFeedback": {"blockReason": "SAFETY"}}), FailureKind.REJECTED, "content_policy_violation"),
        (event(error(503, "UNAVAILABLE")), FailureKind.FAILED, "upstream_error"),
        (event(error(429, "RESOURCE_EXHAUSTED")), FailureKind.RATE_LIMITED, "upstream_error"),
        (event(error(400, "INVALID_ARGUMENT")), FailureKind.REJECTED, "invalid_request_error"),
        (event(error(400, "INVALID_ARGUMENT", "API key not valid.")), FailureKind.REFUSED, "upstream_error"),
        (event({"error": "odd"}), FailureKind.FAILED, "upstream_error"),
        (last(reason="MALFORMED_FUNCTION_CALL"), FailureKind.INTERRUPTED, "upstream_error"),
        (last(reason="OTHER"), FailureKind.INTERRUPTED, "upstream_error"),
        (b"data: {oops\n\n", FailureKind.JUNK, "upstream_error"),
        (b"data: []\n\n", FailureKind.JUNK, "upstream_error"),
        (b"data: " + b'{"usageMetadata":' + b"[" * 100_000 + b"\n\n", FailureKind.JUNK, "upstream_error"),
        (last({"text": 7}), FailureKind.JUNK, "upstream_error"),
        (last({"functionCall": {"args": {}}}), FailureKind.JUNK, "upstream_error"),
        (b"", FailureKind.INTERRUPTED, "upstream_error"),
    ],
)
@pytest.mark.rule("ERR-023")
def test_failures_wait_until_what_came_before_is_out(frame: bytes, kind: FailureKind, code: str) -> None:
    events, decoder = read(chunk(text("before")), frame)
    assert said(events) == "before"
    assert decoder.failure is not None and not decoder.done
    assert (decoder.failure.kind, decoder.failure.code) == (kind, code)


def test_characters_cut_in_two_between_chunks_are_mended() -> None:
    halves = [chunk(text("#")).replace(b'"#"', half) for half in (rb'"a\ud83d"', rb'"\ude00b"')]
    assert said(read(*halves, last())[0]) == "a😀b"
