"""Whole answers of an OpenAI-format provider over real HTTP: what goes up, what comes down, what fails how."""

import asyncio

import pytest
from msgspec.structs import replace

from libs.llm.failures import FailureKind, ProviderFailure
from tests.service.llm.calls import HELLO, Upstream
from tests.support.provider import (
    CUT,
    HANG,
    RESET,
    Pause,
    Scripted,
    ScriptedProvider,
    completion,
    counts,
    error,
    json_answer,
    raw,
    text_answer,
)


async def failure(upstream: Upstream) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as caught:
        await upstream.complete()
    return caught.value


@pytest.mark.rule("CHAT-042", "CHAT-045", "CHAT-055")
async def test_the_answer_carries_our_id_and_model_and_nothing_of_the_provider(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(completion("Hello!", usage=(12, 9)))

    body = await upstream.complete()

    assert body == {
        "id": "0198f0c0a0b07000800000000000abcd",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "fx-oai",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello!"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 9,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


@pytest.mark.rule("CHAT-010", "CHAT-011", "CHAT-023", "CHAT-027", "CHAT-028")
async def test_the_provider_gets_the_clients_fields_but_our_model_and_limit(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    await upstream.complete(
        HELLO
        | {
            "max_tokens": 50,
            "max_completion_tokens": 900,
            "temperature": 0.25,
            "top_p": 0.5,
            "seed": 7,
            "frequency_penalty": 0.5,
            "provider": {"order": ["x"]},
            "models": ["x"],
            "route": "fallback",
            "plugins": [{"id": "file-parser"}],
            "stream_options": {"include_usage": True},
        },
        max_tokens=50,
    )

    request = provider.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.json == {
        "model": "vendor/real-model",
        "messages": HELLO["messages"],
        "max_tokens": 50,
        "stream": False,
        "temperature": 0.25,
        "top_p": 0.5,
        "seed": 7,
        "frequency_penalty": 0.5,
    }
    assert request.headers["authorization"] == "Bearer sk-test"
    assert "cookie" not in request.headers and "traceparent" not in request.headers


@pytest.mark.parametrize("stop", ["END", ["a", "b"]])
async def test_stop_reaches_the_provider_in_both_forms(
    provider: ScriptedProvider, upstream: Upstream, stop: object
) -> None:
    await upstream.complete(HELLO | {"stop": stop})
    assert provider.requests[0].json["stop"] == stop


@pytest.mark.rule("CHAT-038", "CHAT-039")
async def test_parts_of_unknown_type_never_reach_the_provider(provider: ScriptedProvider, upstream: Upstream) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "hologram", "text": 4}, {"type": "text", "text": "b"}]
    await upstream.complete({"model": "m", "messages": [{"role": "user", "content": parts, "name": "n"}]})
    assert provider.requests[0].json["messages"] == [{"role": "user", "content": [parts[0], parts[2]], "name": "n"}]


@pytest.mark.rule("CHAT-048", "CHAT-046")
async def test_a_called_function_ends_in_tool_calls(provider: ScriptedProvider, upstream: Upstream) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": ""}}
    provider.answers(completion(None, tool_calls=[call]))

    choice = (await upstream.complete())["choices"][0]

    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    ]


@pytest.mark.rule("CHAT-049")
async def test_reasoning_comes_under_both_names(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(completion("a", reasoning_content="why"))
    message = (await upstream.complete())["choices"][0]["message"]
    assert message["reasoning"] == message["reasoning_content"] == "why"


async def test_without_reported_usage_the_caller_estimates(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(completion("12345678", usage=None))
    assert (await upstream.complete())["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("answer", "kind", "code", "status"),
    [
        (error(400, type="invalid_request_error"), FailureKind.REJECTED, "invalid_request_error", 400),
        (error(422), FailureKind.REJECTED, "upstream_rejected", 422),
        (error(413, "maximum context length"), FailureKind.REJECTED, "context_length_exceeded", 413),
        (error(400, code="context_length_exceeded"), FailureKind.REJECTED, "context_length_exceeded", 400),
        (error(404, "The model `x` does not exist"), FailureKind.REJECTED, "model_not_found", 404),
        (error(403, code="content_policy_violation"), FailureKind.REJECTED, "content_policy_violation", 403),
        (error(400, "prefill is not possible"), FailureKind.REJECTED, "prefill_unsupported", 400),
        (text_answer("<html>", 400), FailureKind.REJECTED, "upstream_error", 400),
        (error(418), FailureKind.REJECTED, "upstream_error", 400),
        (error(401, "key sk-live is wrong"), FailureKind.REFUSED, "upstream_error", 503),
        (error(403), FailureKind.REFUSED, "upstream_error", 503),
        (error(402), FailureKind.REFUSED, "upstream_error", 503),
        (error(429), FailureKind.RATE_LIMITED, "upstream_error", 429),
        (error(429, code="insufficient_quota"), FailureKind.REFUSED, "upstream_error", 503),
        (error(408), FailureKind.TIMEOUT, "upstream_error", 503),
        (error(500), FailureKind.FAILED, "upstream_error", 503),
        (text_answer("<html>busy</html>", 502), FailureKind.FAILED, "upstream_error", 503),
        (json_answer({}, 302, {"location": "http://127.0.0.1:9/"}), FailureKind.FAILED, "upstream_error", 503),
        (text_answer("<html>login</html>"), FailureKind.JUNK, "upstream_error", 503),
        (text_answer(""), FailureKind.JUNK, "upstream_error", 503),
        (json_answer({"choices": []}), FailureKind.JUNK, "upstream_error", 503),
        (json_answer([1]), FailureKind.JUNK, "upstream_error", 503),
        (json_answer({"choices": [{"message": {"content": 4}}]}), FailureKind.JUNK, "upstream_error", 503),
        (json_answer({"error": {"message": "overloaded", "code": 503}}), FailureKind.FAILED, "upstream_error", 503),
        (json_answer({"error": "overloaded"}), FailureKind.FAILED, "upstream_error", 503),
        (completion("half", "error"), FailureKind.INTERRUPTED, "upstream_error", 503),
        (raw(b"SSH-2.0-OpenSSH\r\n"), FailureKind.JUNK, "upstream_error", 503),
        (raw(CUT), FailureKind.REFUSED, "upstream_error", 503),
        (raw(RESET), FailureKind.REFUSED, "upstream_error", 503),
        (Scripted((b'{"choices"', CUT)), FailureKind.INTERRUPTED, "upstream_error", 503),
        (Scripted((b'{"choices"', RESET)), FailureKind.INTERRUPTED, "upstream_error", 503),
    ],
)  # fmt: skip
async def test_each_failure_has_its_kind_and_what_the_client_may_see_of_it(
    provider: ScriptedProvider, upstream: Upstream, answer: Scripted, kind: FailureKind, code: str, status: int
) -> None:
    provider.answers(answer)

    found = await failure(upstream)

    told = found.api_error()
    assert (found.kind, found.code, told.status, told.code) == (kind, code, status, code)
    if kind is FailureKind.REJECTED and code != "upstream_error":
        assert told.type == "invalid_request_error"
    assert told.param is None
    assert not any(word in f"{told} {found}" for word in ("vendor", "sk-", "127.0.0.1"))
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "999999999"}, 86_400_000),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({}, None),
    ],
)
async def test_the_wait_a_provider_names_is_understood_in_all_forms(
    provider: ScriptedProvider, upstream: Upstream, headers: dict[str, str], expected: int | None
) -> None:
    provider.answers(error(429, headers=headers))
    assert (await failure(upstream)).retry_after_ms == expected


async def test_nobody_listening_is_refused(provider: ScriptedProvider, upstream: Upstream) -> None:
    await provider.refuse()
    assert (await failure(upstream)).kind is FailureKind.REFUSED


@pytest.mark.parametrize("answer", [raw(HANG), Scripted((HANG,)), Scripted((b'{"a"', HANG))])
async def test_silence_is_a_timeout_and_the_connection_is_closed(
    provider: ScriptedProvider, upstream: Upstream, answer: Scripted
) -> None:
    provider.answers(answer)
    assert (await failure(upstream)).kind is FailureKind.TIMEOUT
    await provider.wait_closed(1)


async def test_a_slow_answer_within_the_waits_is_an_answer(provider: ScriptedProvider, upstream: Upstream) -> None:
    whole = completion("ok").steps[0]
    assert isinstance(whole, bytes)
    steps = (Pause(0.6), whole[:20], Pause(0.6), whole[20:])
    provider.answers(Scripted(steps, headers={"content-type": "application/json"}))
    assert (await upstream.complete())["choices"][0]["message"]["content"] == "ok"


async def test_a_body_without_end_is_junk_and_bounded(
    provider: ScriptedProvider, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.llm.providers.replies._MAX_ANSWER_BYTES", 1_000_000)
    provider.answers(Scripted((b" " * 65_536,) * 200, chunked=True))
    assert (await failure(upstream)).kind is FailureKind.JUNK


async def test_connections_are_kept_and_cookies_are_not(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(
        json_answer({"choices": [{"message": {"content": "a"}}], "usage": counts(1, 1)}, headers={"set-cookie": "v=1"})
    )
    for _ in range(3):
        await upstream.complete()
    assert provider.connections == 1
    assert not any("cookie" in request.headers for request in provider.requests)


async def test_a_pooled_connection_found_closed_costs_nobody_an_answer(
    provider: ScriptedProvider, upstream: Upstream
) -> None:
    provider.answers(completion("a"), raw(CUT), completion("b"))
    await upstream.complete()
    assert (await upstream.complete())["choices"][0]["message"]["content"] == "b"
    assert provider.connections == 2


async def test_many_calls_at_once_do_not_wait_for_each_other(provider: ScriptedProvider, upstream: Upstream) -> None:
    whole = completion("ok").steps[0]
    provider.answers(Scripted((Pause(0.3), whole)))
    upstream.target = replace(upstream.target, connect_s=10, first_byte_s=10)  # it is the number that counts
    async with asyncio.timeout(15):
        await asyncio.gather(*(upstream.complete() for _ in range(300)))
    assert provider.connections == 300


async def test_a_cancelled_call_closes_the_connection(provider: ScriptedProvider, upstream: Upstream) -> None:
    provider.answers(raw(HANG))
    call = asyncio.create_task(upstream.complete())
    await provider.wait_requests(1)
    call.cancel()
    await provider.wait_closed(1)
    with pytest.raises(asyncio.CancelledError):
        await call
