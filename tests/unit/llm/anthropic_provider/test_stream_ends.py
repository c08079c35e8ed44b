"""How streams of Anthropic's format end: reasons, failures after what came before, and ends that are none."""

import pytest

from libs.llm.canonical import (
    FinishReason,
    TextDelta,
)
from libs.llm.failures import FailureKind
from tests.support.anthropic_wire import STOP, end, flat, start, text_block, thinking_block, tool_block, tool_use
from tests.support.provider import DONE, event
from tests.unit.llm.anthropic_provider.events import (
    arguments,
    finish,
    opened,
    piece,
    read,
    said,
    sse,
    starts_and_arguments,
    text,
)


@pytest.mark.rule("MSG-046", "MSG-048", "JSON-030", "STR-027", "STR-067", "RSN-055")
@pytest.mark.parametrize(
    ("stop_reason", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP_SEQUENCE),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.LENGTH),
        ("of_tomorrow", FinishReason.STOP),
    ],
)
def test_endings(stop_reason: str, reason: FinishReason) -> None:
    assert finish(start(3), text("a"), end(stop_reason, 1)).finish_reason is reason
    called = FinishReason.TOOL_CALLS if reason is FinishReason.STOP else reason
    assert finish(start(3), tool_block(0, "c", "f"), end(stop_reason, 1)).finish_reason is called


@pytest.mark.rule("RSN-055", "RSN-056", "RSN-057")
def test_thinking_that_used_the_limit_up_is_a_cut_off() -> None:
    thinking = thinking_block(0, "hm")
    assert finish(start(3), thinking, end("end_turn", 50), max_tokens=50).finish_reason is FinishReason.LENGTH
    assert finish(start(3), thinking, end("end_turn", 49), max_tokens=50).finish_reason is FinishReason.STOP
    said = finish(start(3), thinking, text_block(1, "a"), end("end_turn", 50), max_tokens=50)
    assert said.finish_reason is FinishReason.STOP


def failure(kind: str, words: str = "vendor text") -> bytes:
    return sse("error", error={"type": kind, "message": words})


FAILED, REJECTED, JUNK = FailureKind.FAILED, FailureKind.REJECTED, FailureKind.JUNK


@pytest.mark.rule("ERR-050", "ERR-051", "ERR-053", "ERR-061", "STR-013")
@pytest.mark.parametrize(
    ("frame", "kind", "code"),
    [
        (failure("overloaded_error"), FAILED, "upstream_error"),
        (failure("api_error"), FAILED, "upstream_error"),
        (failure("authentication_error"), FailureKind.REFUSED, "upstream_error"),
        (failure("rate_limit_error"), FailureKind.RATE_LIMITED, "upstream_error"),
        (failure("invalid_request_error"), REJECTED, "invalid_request_error"),
        (failure("invalid_request_error", "prompt is too long"), REJECTED, "context_length_exceeded"),
        (failure("invalid_request_error", "blocked by content filter"), REJECTED, "content_policy_violation"),
        (event({"error": {"type": "overloaded_error"}}), FAILED, "upstream_error"),
        (event({"type": "of_tomorrow", "error": {"code": 503}}), FAILED, "upstream_error"),
        (sse("error", error="vendor text"), FAILED, "upstream_error"),
        (STOP, FailureKind.INTERRUPTED, "upstream_error"),
        (DONE, FailureKind.INTERRUPTED, "upstream_error"),
        (b"data: {oops\n\n", JUNK, "upstream_error"),
        (b"data: 7\n\n", JUNK, "upstream_error"),
        (b"data: " + b"[" * 100_000 + b"\n\n", JUNK, "upstream_error"),
        (piece(0, "text_delta", text=7), JUNK, "upstream_error"),
        (sse("content_block_stop", index="0"), JUNK, "upstream_error"),
        (opened(1, "text", text=[]), JUNK, "upstream_error"),
        (opened(1, "tool_use", id="c"), JUNK, "upstream_error"),
        (arguments("{", 5), JUNK, "upstream_error"),
        (opened(1, "tool_use", name="f", input={"a": "#"}).replace(b"#", b"\xff"), JUNK, "upstream_error"),
        (text("#").replace(b"#", b"\xff"), JUNK, "upstream_error"),
    ],
)
def test_failures_wait_until_what_came_before_is_out(frame: bytes, kind: FailureKind, code: str) -> None:
    for before in ([], flat(opened(0, "text"), *map(text, "before"))):
        events, decoder = read(start(3), b"".join([*before, frame]))
        assert said(events) == ("before" if before else "") and len(events) == len(before[1:])
        assert decoder.failure is not None and not decoder.done
        assert (decoder.failure.kind, decoder.failure.code) == (kind, code)
        assert "vendor" not in f"{decoder.failure} {decoder.failure.detail} {decoder.failure.api_error(streaming=True)}"


def test_an_end_without_the_last_event_is_no_end() -> None:
    events, decoder = read(start(3), text("a"), end("end_turn", 1)[0])
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.INTERRUPTED
    assert [type(each) for each in events] == [TextDelta]


def test_an_event_without_end_is_given_up() -> None:
    _, decoder = read(b"data: " + b"x" * 40_000_000)
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.JUNK


def test_the_name_of_an_event_stands_in_for_a_missing_type() -> None:
    nameless = event({"index": 0, "delta": {"type": "text_delta", "text": "a"}}, "content_block_delta")
    assert said(read(nameless, end("end_turn", 1))[0]) == "a"


def test_characters_cut_in_two_between_events_are_mended() -> None:
    halves = [text("#").replace(b'"#"', half) for half in (rb'"a\ud83d"', rb'"\ude00b"')]
    assert said(read(*halves, end("end_turn", 1))[0]) == "a\U0001f600b"


def test_a_call_in_blocks_of_another_index_is_told_apart() -> None:
    one, two = tool_use("c1", "f"), tool_use("c2", "g")
    events, _ = read(
        sse("content_block_start", index=4, content_block=one),
        sse("content_block_start", index=9, content_block=two),
        *(arguments(words, index) for words, index in (("1", 4), ("2", 9), ("3", 4), ("4", 9), ("5", 9))),
        end("tool_use", 1),
    )
    assert starts_and_arguments(events) == ([(0, "c1", "f"), (1, "c2", "g")], {0: "13", 1: "245"})
