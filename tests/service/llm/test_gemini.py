"""Gemini over real HTTP behind each client format."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.formats import anthropic_messages, openai_chat, openai_responses
from libs.llm.http_transport import HttpTransport
from tests.service.llm.provider_calls import Relay
from tests.support.provider import CUT, HANG, RESET, Step, json_answer, stream, text_answer
from tests.support.provider import ScriptedProvider as Provider
from tests.unit.llm.gemini.chunks import answer, call, chunk, error, last, text, thought

CHAT, MESSAGES, RESPONSES = openai_chat.FORMAT, anthropic_messages.FORMAT, openai_responses.FORMAT
HELLO: dict[str, Any] = {"model": "fx", "messages": [{"role": "user", "content": "Hi"}]}
ASKED_MESSAGES = HELLO | {"max_tokens": 500}
ASKED_RESPONSES: dict[str, Any] = {"model": "fx", "input": "Hi", "include": ["reasoning.encrypted_content"]}
ANSWER = (chunk(thought("Why")), chunk(text("So ")), chunk(text("é")), chunk(call(proof="proof", n=1)), last())
WHOLE = json_answer(answer(thought("Why"), text("So é"), call(proof="proof", n=1)))


@pytest.fixture
async def relay(provider: Provider) -> AsyncIterator[Relay]:
    transport = HttpTransport()
    await transport.start()
    yield Relay(transport, "gemini", provider.base_url, "gemini-3-flash")
    await transport.stop()


@pytest.mark.parametrize(("streamed", "verb"), [(False, ":generateContent"), (True, ":streamGenerateContent?alt=sse")])
async def test_the_call_itself(provider: Provider, relay: Relay, streamed: bool, verb: str) -> None:
    provider.answers(stream(*ANSWER) if streamed else WHOLE)
    await (relay.stream if streamed else relay.complete)(CHAT, HELLO)
    request = provider.requests[0]
    assert request.path == f"/v1/models/gemini-3-flash{verb}"
    assert request.headers["x-goog-api-key"] == "sk-test" and "authorization" not in request.headers
    assert request.json["contents"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


async def test_a_model_name_cannot_leave_its_place_in_the_path(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    relay.target = type(relay.target)(base_url=provider.base_url, model="../x?y#z/é")
    await relay.complete(CHAT, HELLO)
    assert provider.requests[0].path == "/v1/models/..%2Fx%3Fy%23z%2F%C3%A9:generateContent"


@pytest.mark.rule("STR-014", "STR-022", "STR-023", "RSN-050")
async def test_a_chat_client(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, stream(*ANSWER))
    choice = (await relay.complete(CHAT, HELLO))["choices"][0]
    told = choice["message"]
    assert (told["content"], told["reasoning"], choice["finish_reason"]) == ("So é", "Why", "tool_calls")
    assert told["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"n":1}'}
    deltas = [choice["delta"] for frame in await relay.stream(CHAT, HELLO) for choice in frame["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "So é"
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == "Why"


def sent_contents(provider: Provider) -> list[Any]:
    contents: list[Any] = provider.requests[-1].json["contents"]
    return contents


def check_handed_back(contents: list[Any]) -> None:
    """The call has its proof, and its result the call's id and name."""
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    part = contents[1]["parts"][-1]
    assert part["thoughtSignature"] == "proof" and part["functionCall"]["args"] == {"n": 1}
    assert contents[2]["parts"] == [
        {"functionResponse": {"id": part["functionCall"]["id"], "name": "look", "response": {"output": "1"}}}
    ]


@pytest.mark.rule("STR-014", "STR-048", "TOOL-010", "TOOL-016")
async def test_a_messages_client_hands_the_proof_of_a_call_back(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE)
    content = (await relay.complete(MESSAGES, ASKED_MESSAGES))["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "1"}
    turns = [*HELLO["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    await relay.complete(MESSAGES, ASKED_MESSAGES | {"messages": turns})
    check_handed_back(sent_contents(provider))


@pytest.mark.rule("STR-014", "RESP-037", "RESP-038", "TOOL-020")
async def test_a_responses_client_hands_the_proof_of_a_call_back(provider: Provider, relay: Relay) -> None:
    # Its one reasoning item stands before everything else, so a proof that comes after text has no place there.
    provider.answers(stream(chunk(thought("Why")), chunk(call(proof="proof", n=1)), last()), WHOLE)
    output = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]["response"]["output"]
    result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "1"}
    await relay.complete(RESPONSES, ASKED_RESPONSES | {"input": [{"role": "user", "content": "Hi"}, *output, result]})
    check_handed_back(sent_contents(provider))


@pytest.mark.rule("TOOL-007", "TOOL-009", "TOOL-010")
async def test_a_chat_client_has_no_proof_to_hand_back(provider: Provider, relay: Relay) -> None:
    provider.answers(WHOLE, json_answer(answer(text("One."))))
    told = (await relay.complete(CHAT, HELLO))["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "1"}
    done = await relay.complete(CHAT, HELLO | {"messages": [*HELLO["messages"], told, result]})
    assert done["choices"][0]["finish_reason"] == "stop"
    call_sent, result_sent = (content["parts"][-1] for content in sent_contents(provider)[1:])
    assert call_sent["thoughtSignature"] == "skip_thought_signature_validator"
    assert call_sent["functionCall"]["id"] == result_sent["functionResponse"]["id"]


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
    provider.answers(stream(chunk(text("")), *end))
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is kind


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
@pytest.mark.parametrize("end", [(), (CUT,), (last(), CUT)])
async def test_a_break_in_the_middle_ends_each_clients_stream_in_an_error(
    provider: Provider, relay: Relay, end: tuple[Step, ...]
) -> None:
    provider.answers(stream(chunk(text("So")), *end))
    assert (await relay.stream(CHAT, HELLO))[-1]["error"]["code"] == "stream_interrupted"
    assert (await relay.stream(MESSAGES, ASKED_MESSAGES))[-1]["error"]["type"] == "api_error"
    failed = (await relay.stream(RESPONSES, ASKED_RESPONSES))[-1]
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "stream_interrupted")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (json_answer([error(400, "INVALID_ARGUMENT")], 400), FailureKind.REJECTED),
        (json_answer([error(400, "INVALID_ARGUMENT", "API key not valid.")], 400), FailureKind.REFUSED),
        (json_answer(error(429, "RESOURCE_EXHAUSTED"), 429), FailureKind.RATE_LIMITED),
        (json_answer([error(503, "UNAVAILABLE")], 503), FailureKind.FAILED),
        (json_answer([error(503, "UNAVAILABLE")]), FailureKind.FAILED),
        (json_answer({"promptFeedback": {"blockReason": "SAFETY"}}), FailureKind.REJECTED),
        (WHOLE, FailureKind.JUNK),
        (text_answer("<html>"), FailureKind.JUNK),
    ],
)
async def test_no_stream_at_all(provider: Provider, relay: Relay, reply: Any, kind: FailureKind) -> None:
    provider.answers(reply)
    with pytest.raises(ProviderFailure) as caught:
        await relay.batches(CHAT, HELLO)
    assert caught.value.kind is kind and "vendor text" not in str(caught.value)


async def test_the_connection_serves_on_after_a_stream(provider: Provider, relay: Relay) -> None:
    provider.answers(stream(*ANSWER))
    for _ in range(3):
        await relay.batches(CHAT, HELLO)
    assert provider.connections == 1
