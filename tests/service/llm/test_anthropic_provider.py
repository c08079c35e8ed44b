"""An Anthropic-format provider over real HTTP behind each client format."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.formats import anthropic_messages, openai_chat, openai_responses
from libs.llm.http_transport import HttpTransport
from tests.service.llm.provider_calls import Relay, no_headers
from tests.support.anthropic_wire import (
    PING,
    STOP,
    blocks_of,
    end,
    events,
    failure,
    message,
    start,
    text,
    text_block,
    thinking_block,
    tool_block,
    tool_use,
)
from tests.support.provider import CUT, HANG, RESET, Scripted, Step, event, stream, text_answer
from tests.support.provider import ScriptedProvider as Provider

CHAT, MESSAGES, RESPONSES = openai_chat.FORMAT, anthropic_messages.FORMAT, openai_responses.FORMAT
HELLO: dict[str, Any] = {"model": "fx", "messages": [{"role": "user", "content": "Hi"}]}
ASKED_MESSAGES = HELLO | {"max_tokens": 500}
ASKED_RESPONSES: dict[str, Any] = {"model": "fx", "input": "Hi", "include": ["reasoning.encrypted_content"]}
BODY = json.dumps(HELLO).encode()
THOUGHT = {"type": "thinking", "thinking": "Why", "signature": "sig-vendor"}
CALL = tool_use("toolu_1", "look", n=1)
WHOLE = message(THOUGHT, text("So é"), CALL, stop_reason="tool_use")
ANSWER = events(
    start(10),
    PING,
    thinking_block(0, "W", "hy"),
    text_block(1, "So ", "é"),
    tool_block(2, "toolu_1", "look", '{"n"', ": 1}"),
    end("tool_use", 2),
)
OVERLOADED = event({"type": "error", "error": {"type": "overloaded_error", "message": "vendor text"}}, "error")
TOO_LONG, BLOCKED = "prompt is too long: 2 tokens > 1 maximum", "Output blocked by content filtering policy"
REJECTED = FailureKind.REJECTED


@pytest.fixture
async def relay(provider: Provider) -> AsyncIterator[Relay]:
    transport = HttpTransport()
    await transport.start()
    yield Relay(transport, "anthropic", provider.base_url, "claude-real")
    await transport.stop()


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_call_itself(provider: Provider, relay: Relay, streamed: bool) -> None:
    provider.answers(ANSWER if streamed else WHOLE)
    await (relay.stream if streamed else relay.complete)(CHAT, HELLO)
    request = provider.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == "sk-test" and "authorization" not in request.headers
    assert request.headers["anthropic-version"] == "2023-06-01" and "anthropic-beta" not in request.headers
    assert request.json == {
        "model": "claude-real",
        "max_tokens": 500,
        "stream": streamed,
        "messages": [{"role": "user", "content": [text("Hi")]}],
    }


async def test_without_a_credential_no_empty_one_is_sent(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    relay.target = type(relay.target)(base_url=provider.base_url, model="claude-real")
    await relay.complete(CHAT, HELLO)
    assert "x-api-key" not in provider.requests[0].headers


@pytest.mark.rule("MSG-022")
async def test_the_betas_of_a_messages_client_are_handed_on(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    request = MESSAGES.parse(BODY, {b"anthropic-beta": "a-2025-01-01, b-2"}.get)
    await relay.adapter.complete(request, relay.target, 500)
    assert provider.requests[0].headers["anthropic-beta"] == "a-2025-01-01,b-2"


@pytest.mark.rule("STR-014", "STR-022", "STR-023", "RSN-050", "TOOL-006")
async def test_a_chat_client(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, ANSWER)
    choice = (await relay.complete(CHAT, HELLO))["choices"][0]
    told = choice["message"]
    assert (told["content"], told["reasoning"], choice["finish_reason"]) == ("So é", "Why", "tool_calls")
    assert told["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"n": 1}'}
    deltas = [choice["delta"] for chunk in await relay.stream(CHAT, HELLO) for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "So é"
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == "Why"


@pytest.mark.rule("TOOL-007", "TOOL-009", "TOOL-010")
async def test_a_chat_client_hands_a_call_and_its_result_back(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, message(text("One.")))
    told = (await relay.complete(CHAT, HELLO))["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "1"}
    done = await relay.complete(CHAT, HELLO | {"messages": [*HELLO["messages"], told, result]})
    assert (done["choices"][0]["message"]["content"], done["choices"][0]["finish_reason"]) == ("One.", "stop")
    assert blocks_of(provider.requests[1].json)[-2:] == [
        CALL,
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
    ]


@pytest.mark.rule("STR-014", "STR-046", "STR-048", "MSG-039", "TOOL-014", "TOOL-016")
async def test_a_messages_client_hands_signed_thinking_back(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, ANSWER)
    content = (await relay.complete(MESSAGES, ASKED_MESSAGES))["content"]
    assert content == [THOUGHT, text("So é"), CALL]
    frames = await relay.stream(MESSAGES, ASKED_MESSAGES)
    signed = [frame["delta"] for frame in frames if frame.get("delta", {}).get("type") == "signature_delta"]
    assert signed == [{"type": "signature_delta", "signature": "sig-vendor"}]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
    turns = [*HELLO["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    provider.answers(WHOLE)
    await relay.complete(MESSAGES, ASKED_MESSAGES | {"messages": turns})
    assert provider.requests[2].json["messages"] == turns


@pytest.mark.rule("STR-014", "TOOL-019", "TOOL-020")
async def test_a_responses_client_hands_a_call_and_its_result_back(provider: Provider, relay: Relay) -> None:
    provider.answers(ANSWER, WHOLE)
    last = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]
    assert last["type"] == "response.completed"
    output = last["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "1"}
    await relay.complete(RESPONSES, ASKED_RESPONSES | {"input": [{"role": "user", "content": "Hi"}, *output, result]})
    # Its one reasoning item has no place for the proofs of single blocks, so none comes back.
    assert blocks_of(provider.requests[1].json)[1:] == [
        text("So é"),
        CALL,
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"},
    ]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ((), FailureKind.INTERRUPTED),
        ((STOP,), FailureKind.INTERRUPTED),
        ((CUT,), FailureKind.INTERRUPTED),
        ((RESET,), FailureKind.INTERRUPTED),
        ((HANG,), FailureKind.TIMEOUT),
        ((OVERLOADED,), FailureKind.FAILED),
    ],
)
async def test_before_the_first_content_a_failure_is_raised(
    provider: Provider, relay: Relay, ending: tuple[Step, ...], kind: FailureKind
) -> None:
    provider.answers(stream(start(10), PING, *ending))
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is kind


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
@pytest.mark.parametrize("ending", [(), (CUT,), (end("end_turn", 1)[0], CUT)])
async def test_a_break_in_the_middle_ends_each_clients_stream_in_an_error(
    provider: Provider, relay: Relay, ending: tuple[Step, ...]
) -> None:
    provider.answers(stream(start(10), *text_block(0, "So"), *ending))
    assert (await relay.stream(CHAT, HELLO))[-1]["error"]["code"] == "stream_interrupted"
    assert (await relay.stream(MESSAGES, ASKED_MESSAGES))[-1]["error"]["type"] == "api_error"
    failed = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "stream_interrupted")


@pytest.mark.rule("ERR-050", "ERR-051", "ERR-052", "ERR-053", "ERR-061", "ERR-062")
@pytest.mark.parametrize(
    ("answer", "kind", "status", "code"),
    [
        (failure(400, "invalid_request_error"), REJECTED, 400, "invalid_request_error"),
        (failure(400, "invalid_request_error", TOO_LONG), REJECTED, 400, "context_length_exceeded"),
        (failure(400, "invalid_request_error", BLOCKED), REJECTED, 400, "content_policy_violation"),
        (failure(413, "request_too_large"), REJECTED, 413, "invalid_request_error"),
        (failure(404, "not_found_error", "model: claude-x"), REJECTED, 404, "model_not_found"),
        (failure(401, "authentication_error"), FailureKind.REFUSED, 503, "upstream_error"),
        (failure(403, "permission_error"), FailureKind.REFUSED, 503, "upstream_error"),
        (failure(429, "rate_limit_error"), FailureKind.RATE_LIMITED, 429, "upstream_error"),
        (failure(500, "api_error"), FailureKind.FAILED, 503, "upstream_error"),
        (failure(504, "timeout_error"), FailureKind.TIMEOUT, 503, "upstream_error"),
        (failure(529, "overloaded_error"), FailureKind.FAILED, 503, "upstream_error"),
        (failure(200, "overloaded_error"), FailureKind.FAILED, 503, "upstream_error"),
        (text_answer("<html>"), FailureKind.JUNK, 503, "upstream_error"),
    ],
)
async def test_errors_are_told_under_the_contracts_codes(
    provider: Provider, relay: Relay, answer: Scripted, kind: FailureKind, status: int, code: str
) -> None:
    provider.answers(answer)
    for ask in (relay.batches, relay.complete):
        with pytest.raises(ProviderFailure) as caught:
            await ask(CHAT, HELLO)
        error = caught.value.api_error()
        assert (caught.value.kind, error.status, error.code) == (kind, status, code)
        assert "vendor" not in f"{caught.value} {caught.value.detail} {error.message}"


@pytest.mark.rule("VIS-010", "VIS-013")
@pytest.mark.parametrize(
    "words",
    [
        "Unable to download the file. Please verify the URL and try again.",
        "This URL is disallowed by the website's robots.txt file.",
    ],
)
async def test_a_picture_that_the_provider_does_not_fetch(provider: Provider, relay: Relay, words: str) -> None:
    provider.answers(failure(400, "invalid_request_error", words))
    with pytest.raises(ProviderFailure) as caught:
        await relay.complete(CHAT, HELLO)
    error = caught.value.api_error()
    assert (error.status, error.code) == (400, "bad_request")
    assert error.message == "remote image URL not supported by upstream"


async def test_a_whole_answer_in_place_of_a_stream(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is FailureKind.JUNK


async def test_a_wait_that_the_provider_names(provider: Provider, relay: Relay) -> None:
    provider.answers(failure(429, "rate_limit_error", retry_after="3"))
    with pytest.raises(ProviderFailure) as caught:
        await relay.complete(CHAT, HELLO)
    assert caught.value.retry_after_ms == 3_000


@pytest.mark.rule("STR-075")
async def test_events_go_on_as_they_come(provider: Provider, relay: Relay) -> None:
    provider.answers(stream(start(10), *text_block(0, "So"), HANG))
    batches = relay.adapter.stream(CHAT.parse(BODY, no_headers), relay.target, 500)
    assert await anext(batches)
    await batches.aclose()
    await provider.wait_closed()


async def test_the_connection_serves_on_after_a_stream(provider: Provider, relay: Relay) -> None:
    provider.answers(ANSWER)
    for _ in range(3):
        await relay.batches(CHAT, HELLO)
    assert provider.connections == 1
