"""A Responses provider over real HTTP behind each client format."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.formats import anthropic_messages, openai_chat, openai_responses
from libs.llm.http_transport import HttpTransport
from tests.service.llm.provider_calls import Relay
from tests.support.provider import CUT, HANG, RESET, Step, error, json_answer, stream, text_answer
from tests.support.provider import ScriptedProvider as Provider
from tests.unit.llm.openai_responses_provider.events import (
    CREATED,
    added,
    arguments,
    call,
    closing,
    ended,
    message,
    reasoning,
    response,
    text,
    thought,
)

CHAT, MESSAGES, RESPONSES = openai_chat.FORMAT, anthropic_messages.FORMAT, openai_responses.FORMAT
HELLO: dict[str, Any] = {"model": "fx", "messages": [{"role": "user", "content": "Hi"}]}
ASKED_MESSAGES = HELLO | {"max_tokens": 500}
ASKED_RESPONSES: dict[str, Any] = {"model": "fx", "input": "Hi", "include": ["reasoning.encrypted_content"]}
ANSWER = (
    CREATED,
    thought("Why"),
    ended(reasoning("Why")),
    text("So ", 1),
    text("é", 1),
    added(call(2), 2),
    arguments('{"n":1}', 2),
    ended(call(2, '{"n":1}'), 2),
    closing(),
)
SAID = message({"type": "output_text", "text": "So é"})
WHOLE = json_answer(response(output=[reasoning("Why"), SAID, call(2, '{"n":1}')]))


@pytest.fixture
async def relay(provider: Provider) -> AsyncIterator[Relay]:
    transport = HttpTransport()
    await transport.start()
    yield Relay(transport, "openai_responses", provider.base_url, "gpt-real")
    await transport.stop()


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_call_itself(provider: Provider, relay: Relay, streamed: bool) -> None:
    provider.answers(stream(*ANSWER) if streamed else WHOLE)
    await (relay.stream if streamed else relay.complete)(CHAT, HELLO)
    request = provider.requests[0]
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert (request.json["model"], request.json["stream"], request.json["store"]) == ("gpt-real", streamed, False)


@pytest.mark.rule("STR-014", "STR-022", "STR-023", "RSN-050")
async def test_a_chat_client(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, stream(*ANSWER))
    choice = (await relay.complete(CHAT, HELLO))["choices"][0]
    told = choice["message"]
    assert (told["content"], told["reasoning"], choice["finish_reason"]) == ("So é", "Why", "tool_calls")
    assert told["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"n":1}'}
    deltas = [choice["delta"] for chunk in await relay.stream(CHAT, HELLO) for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "So é"
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == "Why"


def sent_items(provider: Provider) -> list[Any]:
    items: list[Any] = provider.requests[-1].json["input"]
    return items


OWN_REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Why"}],
    "encrypted_content": "sealed",
}


@pytest.mark.rule("STR-014", "STR-048", "TOOL-010", "TOOL-016")
async def test_a_messages_client_hands_encrypted_reasoning_back(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    content = (await relay.complete(MESSAGES, ASKED_MESSAGES))["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": content[2]["id"], "content": "1"}
    turns = [*HELLO["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    await relay.complete(MESSAGES, ASKED_MESSAGES | {"messages": turns})
    assert sent_items(provider)[1] == OWN_REASONING
    assert [item["call_id"] for item in sent_items(provider)[3:]] == ["call_2x", "call_2x"]


@pytest.mark.rule("STR-014", "RESP-037", "RESP-038", "TOOL-020")
async def test_a_responses_client_hands_encrypted_reasoning_back(provider: Provider, relay: Relay) -> None:
    provider.answers(stream(*ANSWER), WHOLE)
    last = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]
    assert last["type"] == "response.completed"
    output = last["response"]["output"]
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "1"}
    await relay.complete(RESPONSES, ASKED_RESPONSES | {"input": [{"role": "user", "content": "Hi"}, *output, result]})
    assert sent_items(provider)[1] == OWN_REASONING
    assert [item["type"] for item in sent_items(provider)[2:]] == ["message", "function_call", "function_call_output"]


async def test_another_credential_is_not_handed_it(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    content = (await relay.complete(MESSAGES, ASKED_MESSAGES))["content"][:2]
    relay.target = type(relay.target)(base_url=provider.base_url, model="gpt-real", upstream="prov:cred_2")
    turns = [*HELLO["messages"], {"role": "assistant", "content": content}, *HELLO["messages"]]
    await relay.complete(MESSAGES, ASKED_MESSAGES | {"messages": turns})
    assert [item["type"] for item in sent_items(provider)] == ["message"] * 3


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ((), FailureKind.INTERRUPTED),
        ((CUT,), FailureKind.INTERRUPTED),
        ((RESET,), FailureKind.INTERRUPTED),
        ((HANG,), FailureKind.TIMEOUT),
    ],
)
async def test_before_the_first_content_a_failure_is_raised(
    provider: Provider, relay: Relay, end: tuple[Step, ...], kind: FailureKind
) -> None:
    provider.answers(stream(CREATED, *end))
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is kind


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
async def test_a_break_in_the_middle_ends_each_clients_stream_in_an_error(provider: Provider, relay: Relay) -> None:
    provider.answers(stream(CREATED, text("So"), CUT))
    assert (await relay.stream(CHAT, HELLO))[-1]["error"]["code"] == "stream_interrupted"
    assert (await relay.stream(MESSAGES, ASKED_MESSAGES))[-1]["error"]["type"] == "api_error"
    failed = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "stream_interrupted")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(400, type="invalid_request_error"), FailureKind.REJECTED),
        (error(401), FailureKind.REFUSED),
        (error(429), FailureKind.RATE_LIMITED),
        (error(500), FailureKind.FAILED),
        (json_answer(response("failed", error={"code": "server_error", "message": "x"})), FailureKind.FAILED),
        (WHOLE, FailureKind.JUNK),
        (text_answer("<html>"), FailureKind.JUNK),
    ],
)
async def test_no_stream_at_all(provider: Provider, relay: Relay, answer: Any, kind: FailureKind) -> None:
    provider.answers(answer)
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is kind and "vendor text" not in str(caught.value)


async def test_the_connection_serves_on_after_a_stream(provider: Provider, relay: Relay) -> None:
    provider.answers(stream(*ANSWER))
    for _ in range(3):
        await relay.batches(CHAT, HELLO)
    assert provider.connections == 1
