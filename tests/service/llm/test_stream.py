"""Streams of an OpenAI-format provider over real HTTP, as one client sees them."""

import asyncio
import time
from contextlib import aclosing
from itertools import pairwise

import pytest

from libs.llm.canonical import Finish, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.formats.openai_chat import FORMAT
from tests.service.llm.calls import HELLO, IDENTITY, Upstream, no_headers
from tests.support.provider import (
    CUT,
    DONE,
    HANG,
    RESET,
    Pause,
    Scripted,
    ScriptedProvider,
    comment,
    completion,
    delta,
    error,
    event,
    finish,
    in_pieces,
    json_answer,
    stream,
    text_answer,
    usage,
)

OPENING = delta("", role="assistant")
ANSWER = (OPENING, delta("The answer "), delta("is é 😀"), finish(), usage(14, 6), DONE)


async def failure(upstream: Upstream) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as caught:
        await upstream.stream()
    return caught.value


@pytest.mark.rule("STR-002", "STR-003", "STR-008", "STR-019", "STR-020", "STR-021", "STR-022", "STR-028", "STR-029")
async def test_a_stream_is_told_in_our_chunks(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(*ANSWER))

    seen = await upstream.stream()

    first, *middle, last = seen.chunks
    for chunk in seen.chunks:
        assert (chunk["id"], chunk["model"], chunk["created"]) == (IDENTITY.id, "fx-oai", IDENTITY.created)
        assert chunk["object"] == "chat.completion.chunk"
        assert [choice["index"] for choice in chunk["choices"]] == [0]
        assert chunk.keys() <= {"id", "object", "created", "model", "choices", "usage"}
    assert first["choices"][0] == {
        "index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None
    }  # fmt: skip
    assert [chunk["choices"][0]["delta"] for chunk in middle] == [{"content": "The answer "}, {"content": "is é 😀"}]
    assert all("usage" not in chunk for chunk in (first, *middle))
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert last["usage"] == {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
    assert seen.data.count("[DONE]") == 1 and seen.data[-1] == "[DONE]"
    assert seen.usage == Usage(prompt=14, completion=6)
    assert b"vendor" not in seen.raw


@pytest.mark.rule("STR-032", "STR-033")
@pytest.mark.parametrize("options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
async def test_usage_is_asked_for_and_told_whatever_the_client_said(
    provider: ScriptedProvider, upstream: Upstream, options: dict[str, object]
) -> None:
    provider.answers(stream(*ANSWER))
    seen = await upstream.stream(HELLO | options)
    assert provider.requests[0].json["stream_options"] == {"include_usage": True}
    assert all(chunk["choices"] for chunk in seen.chunks)
    assert [chunk["usage"]["total_tokens"] for chunk in seen.chunks if "usage" in chunk] == [20]


@pytest.mark.rule("STR-031")
async def test_cached_tokens_are_told_when_there_are_any(provider: ScriptedProvider, upstream: Upstream) -> None:
    counted = usage(14, 6, prompt_tokens_details={"cached_tokens": 8})
    provider.answers(stream(OPENING, delta("1"), finish(), counted, DONE))
    assert (await upstream.stream()).chunks[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 8}


@pytest.mark.rule("STR-030")
@pytest.mark.parametrize("ending", [(finish(), DONE), (finish(), usage(0, 0), DONE)])
async def test_without_counted_tokens_there_is_no_usage(
    provider: ScriptedProvider, upstream: Upstream, ending: tuple[bytes, ...]
) -> None:
    provider.answers(stream(OPENING, delta("1"), *ending))
    seen = await upstream.stream()
    assert "usage" not in seen.chunks[-1] and seen.usage is None


async def test_usage_in_the_finish_chunk_and_again_after_it_is_told_once(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(stream(OPENING, delta("1"), finish(usage=(14, 6)), usage(14, 6), DONE))
    assert sum("usage" in chunk for chunk in (await upstream.stream()).chunks) == 1


@pytest.mark.rule("STR-023", "STR-015")
async def test_reasoning_comes_first_and_under_both_names(provider: ScriptedProvider, upstream: Upstream) -> None:
    thoughts = [delta(reasoning_content=text) for text in ("why", " not", '"?"')]
    provider.answers(stream(OPENING, *thoughts, delta("So"), delta(" be it"), finish(), DONE))
    seen = await upstream.stream()
    deltas = [chunk["choices"][0]["delta"] for chunk in seen.chunks[1:-1]]
    assert deltas[:3] == [{"reasoning": t, "reasoning_content": t} for t in ("why", " not", '"?"')]
    assert seen.text == "So be it"


@pytest.mark.rule("STR-024", "STR-025", "STR-026", "STR-027")
async def test_parallel_calls_keep_their_pieces_apart(provider: ScriptedProvider, upstream: Upstream) -> None:
    def piece(index: int, arguments: str, **more: object) -> bytes:
        name = {"name": more.pop("name")} if "name" in more else {}
        call = {"index": index, "function": {**name, "arguments": arguments}, **more}
        return delta(tool_calls=[call])

    provider.answers(
        stream(
            OPENING,
            piece(0, "", id="a", type="function", name="weather"),
            piece(0, '{"city":"Jak'),
            piece(1, '{"tz":"WIB"}', id="b", type="function", name="time"),
            piece(0, 'arta"}'),
            piece(2, "", id="c", type="function", name="ping"),
            finish("stop"),
            DONE,
        )
    )

    seen = await upstream.stream()

    pieces = [c["choices"][0]["delta"]["tool_calls"][0] for c in seen.chunks[1:-1]]
    starts = [piece for piece in pieces if "id" in piece]
    assert starts == [
        {"index": n, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        for n, (id, name) in enumerate([("a", "weather"), ("b", "time"), ("c", "ping")])
    ]
    joined = {n: "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == n) for n in range(3)}
    assert joined == {0: '{"city":"Jakarta"}', 1: '{"tz":"WIB"}', 2: "{}"}
    assert seen.chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_comments_pings_and_empty_data_of_the_provider_are_dropped(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(
        stream(
            comment("VENDOR PROCESSING"), comment(), OPENING, b"data: \n\n", delta("ok"), event({}, "ping"),
            b":x-vendor-cost=1\n", finish(), usage(5, 1), DONE, delta("after the end"),
        )
    )  # fmt: skip
    seen = await upstream.stream()
    assert seen.text == "ok" and seen.data[-1] == "[DONE]"
    assert b"VENDOR" not in seen.raw and b"after" not in seen.raw


@pytest.mark.rule("STR-076")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
async def test_bytes_cut_anywhere_give_the_same_stream(
    provider: ScriptedProvider, upstream: Upstream, size: int, newline: bytes
) -> None:
    whole = b"".join(ANSWER).replace(b"\\u00e9", "é".encode()).replace(b"\n", newline)
    provider.answers(stream(*in_pieces(whole, size)))
    seen = await upstream.stream()
    assert seen.text == "The answer is é 😀"
    assert seen.chunks[-1]["usage"]["total_tokens"] == 20


@pytest.mark.rule("STR-035", "STR-036", "ERR-020")
@pytest.mark.parametrize("end", [(CUT,), (RESET,), (), (DONE,), (HANG,), (finish("error"), DONE), (finish(),)])
async def test_a_stream_that_breaks_off_is_told_as_a_failure(
    provider: ScriptedProvider, upstream: Upstream, end: tuple[object, ...]
) -> None:
    provider.answers(stream(OPENING, delta("The answer is "), *end))  # type: ignore[arg-type]

    seen = await upstream.stream()

    assert seen.text == "The answer is "
    *before, last = seen.chunks
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in before)
    assert last.keys() == {"error"}
    assert last["error"] | {"message": ""} == {
        "message": "", "type": "upstream_error", "param": None, "code": "stream_interrupted"
    }  # fmt: skip
    assert "again" in last["error"]["message"]
    assert seen.data[-1] == "[DONE]"
    assert seen.failure is not None
    assert seen.failure.kind is (FailureKind.TIMEOUT if HANG in end else FailureKind.INTERRUPTED)


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {broken\n\n", b"data: [1]\n\n", b"data: hello\n\n", b'data: {"choices":{}}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', b"data: " + b"[" * 5_000 + b"\n\n",
        b'data: {"choices":[{"delta":{"content":4}}]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}}]}\n\n',
    ],
)  # fmt: skip
async def test_a_malformed_chunk_is_never_passed_on(provider: ScriptedProvider, upstream: Upstream, bad: bytes) -> None:
    provider.answers(stream(OPENING, delta("good"), bad, delta("never"), finish(), DONE))
    seen = await upstream.stream()
    assert seen.text == "good" and seen.chunks[-1]["error"]["code"] == "stream_interrupted"
    assert seen.failure is not None and seen.failure.kind is FailureKind.JUNK


@pytest.mark.rule("STR-013")
async def test_what_came_before_a_failure_in_the_same_read_still_arrives(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(stream(OPENING + delta("a") + delta("b") + event({"error": {"message": "vendor"}}) + DONE))
    seen = await upstream.stream()
    assert seen.text == "ab" and seen.chunks[-1]["error"]["code"] == "stream_interrupted"
    assert b"vendor" not in seen.raw


@pytest.mark.rule("ERR-023")
async def test_a_rejection_in_the_stream_keeps_its_code(provider: ScriptedProvider, upstream: Upstream) -> None:
    refused = event({"error": {"message": "vendor", "code": "content_policy_violation"}})
    provider.answers(stream(OPENING, delta("a"), refused))
    told = (await upstream.stream()).chunks[-1]["error"]
    assert (told["type"], told["code"]) == ("upstream_error", "content_policy_violation")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (stream(comment("wait"), event({"error": {"message": "vendor", "code": 503}}), DONE), FailureKind.FAILED),
        (stream(OPENING, event({"message": "vendor"}, "error")), FailureKind.FAILED),
        (stream(event({"error": {"type": "rate_limit_error"}})), FailureKind.RATE_LIMITED),
        (stream(OPENING, event({"error": {"code": "model_not_found"}})), FailureKind.REJECTED),
        (stream(event({"error": "vendor"})), FailureKind.FAILED),
        (stream(CUT), FailureKind.INTERRUPTED),
        (stream(OPENING, CUT), FailureKind.INTERRUPTED),
        (stream(), FailureKind.INTERRUPTED),
        (stream(DONE), FailureKind.INTERRUPTED),
        (stream(OPENING, HANG), FailureKind.TIMEOUT),
        (stream(HANG), FailureKind.TIMEOUT),
        (stream(b"<html>busy</html>\n\n"), FailureKind.INTERRUPTED),
        (text_answer("<html>busy</html>"), FailureKind.JUNK),
        (json_answer({"error": {"message": "vendor", "code": 503}}), FailureKind.FAILED),
        (completion("not a stream"), FailureKind.JUNK),
        (error(429), FailureKind.RATE_LIMITED),
        (error(500), FailureKind.FAILED),
        (stream(status=503), FailureKind.FAILED),
    ],
)
async def test_before_the_first_content_a_failure_is_still_open_to_another_attempt(
    provider: ScriptedProvider, upstream: Upstream, answer: Scripted, kind: FailureKind
) -> None:
    provider.answers(answer)
    assert (await failure(upstream)).kind is kind


async def test_a_last_event_without_its_blank_line_counts(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(OPENING, delta("a"), finish(), b"data: [DONE]\n"))
    assert (await upstream.stream()).chunks[-1]["choices"][0]["finish_reason"] == "stop"


async def test_an_answer_without_text_is_a_whole_stream(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(OPENING, finish("length"), usage(3, 9), DONE))
    seen = await upstream.stream()
    assert [c["choices"][0]["finish_reason"] for c in seen.chunks] == [None, "length"]


async def test_each_piece_arrives_before_the_next_is_sent(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(OPENING, delta("a"), Pause(0.2), delta("b"), Pause(0.2), finish(), DONE))
    times = []
    request = FORMAT.parse(b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}', no_headers)
    async with aclosing(upstream.adapter.stream(request, upstream.target, 10)) as batches:
        async for _ in batches:
            times.append(time.monotonic())
    assert len(times) == 3
    assert all(later - earlier > 0.15 for earlier, later in pairwise(times))


async def test_leaving_a_stream_closes_the_connection(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(OPENING, delta("a"), HANG))
    request = FORMAT.parse(b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}', no_headers)
    async with aclosing(upstream.adapter.stream(request, upstream.target, 10)) as batches:
        async for _ in batches:
            break
    await provider.wait_closed(1)


async def test_cancelling_a_waiting_stream_closes_the_connection(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(stream(OPENING, delta("a"), HANG))
    call = asyncio.create_task(upstream.stream())
    await provider.wait_requests(1)
    await asyncio.sleep(0.1)
    call.cancel()
    await provider.wait_closed(1)
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_slow_client_is_no_silence_of_the_provider(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(stream(OPENING, delta("a"), delta("b"), Pause(2.2), finish(), DONE))
    request = FORMAT.parse(b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}', no_headers)
    batches = upstream.adapter.stream(request, upstream.target, 10)
    async with aclosing(batches):
        await anext(batches)
        await asyncio.sleep(2.5)  # longer than the idle wait
        assert [type(event).__name__ for batch in [b async for b in batches] for event in batch][-1] == "Finish"


@pytest.mark.parametrize("leaves_at_finish", [False, True])
async def test_a_whole_stream_leaves_its_connection_for_the_next(
    provider: ScriptedProvider, upstream: Upstream, leaves_at_finish: bool
) -> None:
    provider.answers(stream(*ANSWER, Pause(0.05)))  # the end of the framing comes after the last event
    request = FORMAT.parse(b'{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}', no_headers)
    for _ in range(3):
        async with aclosing(upstream.adapter.stream(request, upstream.target, 10)) as batches:
            async for events in batches:
                if leaves_at_finish and isinstance(events[-1], Finish):
                    break
        await asyncio.sleep(0.1)
    assert provider.connections == 1


async def test_a_provider_that_holds_on_after_the_last_event_holds_up_nobody(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(stream(*ANSWER, HANG))
    began = time.monotonic()
    await upstream.stream()
    assert time.monotonic() - began < 0.4
    await provider.wait_closed(1)
