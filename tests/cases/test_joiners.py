"""The joiners themselves: a good stream is folded, and each way in which a stream can be out of order is noticed."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.joined import Call, Joined, join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.support.provider import DONE, event

Mutation = Callable[[list[dict[str, Any]]], Any]

FAILED = {"message": "broke off", "type": "upstream_error", "param": None, "code": "stream_interrupted"}


def chat_chunks() -> list[dict[str, Any]]:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ping", "arguments": ""}}
    deltas = [
        {"role": "assistant", "content": ""},
        {"reasoning": "why", "reasoning_content": "why"},
        {"content": "So"},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
    ]
    head = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    return [*chunks, {**head, "choices": [last], "usage": {"total_tokens": 3}}]


def as_chat(chunks: list[dict[str, Any]], end: bytes = DONE) -> bytes:
    return b"".join(event(chunk) for chunk in chunks) + end


def test_a_good_chat_stream_is_folded() -> None:
    joined = join_chat(b": keepalive\n\n" + as_chat(chat_chunks()))
    assert (joined.id, joined.model, joined.reasoning, joined.text) == ("r", "m", "why", "So")
    assert joined.calls == [Call("c1", "ping", "{}")]
    assert (joined.finish, joined.usage, joined.error) == ("tool_calls", {"total_tokens": 3}, None)


def test_a_broken_chat_stream_keeps_its_error() -> None:
    for before in (chat_chunks()[:3], []):
        joined = join_chat(as_chat([*before, {"error": FAILED}]))
        assert (joined.finish, joined.error) == ("", FAILED)


def _delta(chunks: list[dict[str, Any]], place: int) -> dict[str, Any]:
    found: dict[str, Any] = chunks[place]["choices"][0]["delta"]
    return found


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda c: c.pop(0), id="no-role"),
        pytest.param(lambda c: _delta(c, 2).update(role="assistant"), id="role-twice"),
        pytest.param(lambda c: c.pop(), id="no-finish"),
        pytest.param(lambda c: c.append(c[2]), id="text-after-finish"),
        pytest.param(lambda c: c.append({"error": FAILED}), id="error-after-finish"),
        pytest.param(lambda c: c[2].update(usage={}), id="usage-twice"),
        pytest.param(lambda c: c[2].update(id="other"), id="another-id"),
        pytest.param(lambda c: c[2].update(choices=[]), id="no-choices"),
        pytest.param(lambda c: c[2].update(provider="v"), id="unknown-member"),
        pytest.param(lambda c: _delta(c, 5).update(content=""), id="finish-with-content"),
        pytest.param(lambda c: _delta(c, 1).pop("reasoning"), id="reasoning-under-one-name"),
        pytest.param(lambda c: _delta(c, 3)["tool_calls"][0].update(index=1), id="index-from-1"),
        pytest.param(lambda c: _delta(c, 3)["tool_calls"][0].pop("id"), id="call-without-id"),
        pytest.param(lambda c: _delta(c, 4)["tool_calls"][0].update(id="c1"), id="id-twice"),
    ],
)
def test_a_chat_stream_out_of_order_is_noticed(spoil: Mutation) -> None:
    chunks = chat_chunks()
    spoil(chunks)
    with pytest.raises((AssertionError, KeyError)):
        join_chat(as_chat(chunks))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(as_chat(chat_chunks(), b""), id="no-done"),
        pytest.param(as_chat(chat_chunks(), DONE + DONE), id="done-twice"),
        pytest.param(as_chat(chat_chunks(), b"data: [DONE]\n"), id="open-frame"),
        pytest.param(b": other\n\n" + as_chat(chat_chunks()), id="strange-comment"),
        pytest.param(b"data: \n\n" + as_chat(chat_chunks()), id="empty-data"),
        pytest.param(b"id: 1\n" + as_chat(chat_chunks()), id="id-line"),
        pytest.param(b"event: x\n" + as_chat(chat_chunks()), id="event-line"),
        pytest.param(as_chat(chat_chunks()).replace(b"\n", b"\r\n"), id="crlf"),
        pytest.param(as_chat(chat_chunks()).replace(b"\n\n", b"\n\n\n"), id="two-blank-lines"),
    ],
)
def test_a_frame_that_is_none_is_noticed(raw: bytes) -> None:
    with pytest.raises((AssertionError, ValueError)):
        join_chat(raw)


def message_events() -> list[dict[str, Any]]:
    start: dict[str, Any] = {
        "id": "r",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 0},
    }
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [{"type": "thinking_delta", "thinking": "why"}, {"type": "signature_delta", "signature": "s"}],
        ),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "So"}]),
        (
            {"type": "tool_use", "id": "c1", "name": "ping", "input": {}},
            [{"type": "input_json_delta", "partial_json": "{}"}],
        ),
    ]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": "tool_use", "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def named(events: list[dict[str, Any]]) -> bytes:
    return b"".join(event(data, data["type"]) for data in events)


def test_a_good_messages_stream_is_folded() -> None:
    joined = join_messages(named(message_events()))
    assert (joined.id, joined.model, joined.reasoning, joined.text) == ("r", "m", "why", "So")
    assert joined.calls == [Call("c1", "ping", "{}")]
    assert [block["type"] for block in joined.blocks] == ["thinking", "text", "tool_use"]
    assert (joined.finish, joined.usage, joined.error) == ("tool_use", {"output_tokens": 2}, None)


def test_a_broken_messages_stream_keeps_its_error() -> None:
    failed = {"type": "error", "error": {"type": "api_error", "message": "broke off"}}
    for before in (message_events()[:6], []):
        joined = join_messages(named([*before, failed]))
        assert (joined.finish, joined.error) == ("", failed["error"])


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda e: e.pop(0), id="no-start"),
        pytest.param(lambda e: e.insert(0, e[0]), id="start-twice"),
        pytest.param(lambda e: e.insert(0, e.pop(1)), id="block-before-start"),
        pytest.param(lambda e: e.pop(), id="no-stop"),
        pytest.param(lambda e: e.append(e[-1]), id="stop-twice"),
        pytest.param(lambda e: e.pop(-2), id="no-message-delta"),
        pytest.param(lambda e: e.append({"type": "error", "error": {"type": "t", "message": "m"}}), id="error-at-end"),
        pytest.param(lambda e: e.insert(-1, e[5]), id="block-after-message-delta"),
        pytest.param(lambda e: e.pop(4), id="block-left-open"),
        pytest.param(lambda e: e.pop(3), id="no-signature"),
        pytest.param(lambda e: e[5].update(index=5), id="index-with-a-gap"),
        pytest.param(lambda e: e[6]["delta"].update(type="thinking_delta"), id="delta-of-another-type"),
        pytest.param(lambda e: e[8]["content_block"].update(input={"a": 1}), id="input-at-start"),
        pytest.param(lambda e: e[9]["delta"].update(partial_json=""), id="arguments-not-json"),
        pytest.param(lambda e: e[0]["message"].update(content=[1]), id="content-at-start"),
    ],
)
def test_a_messages_stream_out_of_order_is_noticed(spoil: Mutation) -> None:
    events = message_events()
    spoil(events)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        join_messages(named(events))


def response_events() -> list[dict[str, Any]]:
    head = {"id": "resp_r", "model": "m"}
    items: list[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "reasoning", "id": "i0", "summary": []},
            {"type": "reasoning", "id": "i0", "summary": [{"type": "summary_text", "text": "why"}]},
            [
                {"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}},
                {"type": "response.reasoning_summary_text.delta", "delta": "why"},
                {"type": "response.reasoning_summary_text.done", "text": "why"},
                {"type": "response.reasoning_summary_part.done", "part": {"type": "summary_text", "text": "why"}},
            ],
        ),
        (
            {"type": "message", "id": "i1", "content": [{"type": "output_text", "text": "", "annotations": []}]},
            {"type": "message", "id": "i1", "content": [{"type": "output_text", "text": "So", "annotations": []}]},
            [{"type": "response.output_text.delta", "delta": "So"}],
        ),
        (
            {"type": "function_call", "id": "i2", "call_id": "c1", "name": "ping", "arguments": ""},
            {"type": "function_call", "id": "i2", "call_id": "c1", "name": "ping", "arguments": "{}"},
            [
                {"type": "response.function_call_arguments.delta", "delta": "{}"},
                {"type": "response.function_call_arguments.done", "arguments": "{}"},
            ],
        ),
    ]
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**head, "status": "in_progress"}}]
    for place, (opened, done, pieces) in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": place, "item": opened})
        events += [{"output_index": place, "item_id": opened["id"], **piece} for piece in pieces]
        events.append({"type": "response.output_item.done", "output_index": place, "item": done})
    output = [done for _, done, _ in items]
    ended = {**head, "status": "completed", "output": output, "usage": {"total_tokens": 3}}
    return [*events, {"type": "response.completed", "response": ended}]


def numbered(events: list[dict[str, Any]]) -> bytes:
    return named([{**data, "sequence_number": number} for number, data in enumerate(events)])


def test_a_good_responses_stream_is_folded() -> None:
    joined: Joined = join_responses(numbered(response_events()))
    assert (joined.id, joined.model, joined.reasoning, joined.text) == ("resp_r", "m", "why", "So")
    assert joined.calls == [Call("c1", "ping", "{}")]
    assert [item["type"] for item in joined.blocks] == ["reasoning", "message", "function_call"]
    assert (joined.finish, joined.usage, joined.error) == ("completed", {"total_tokens": 3}, None)


def test_a_broken_responses_stream_keeps_its_error() -> None:
    error = {"code": "stream_interrupted", "message": "broke off"}
    failed = {"type": "response.failed", "response": {"id": "resp_r", "model": "m", "status": "failed", "error": error}}
    for before in (response_events()[:8], []):
        joined = join_responses(numbered([*before, failed]))
        assert (joined.finish, joined.error) == ("", error)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda e: e.pop(0), id="no-created"),
        pytest.param(lambda e: e.insert(1, e[0]), id="created-twice"),
        pytest.param(lambda e: e.pop(), id="no-end"),
        pytest.param(lambda e: e.append(e[-1]), id="end-twice"),
        pytest.param(lambda e: e.pop(6), id="item-left-open"),
        pytest.param(lambda e: e.insert(1, e.pop(7)), id="message-before-reasoning"),
        pytest.param(lambda e: e.pop(4), id="no-summary-text-done"),
        pytest.param(lambda e: e.pop(12), id="no-arguments-done"),
        pytest.param(lambda e: e[8].update(item_id="other"), id="another-item-id"),
        pytest.param(lambda e: e[8].update(delta="Sx"), id="text-differs-from-item"),
        pytest.param(lambda e: e[-1]["response"].update(output=[]), id="output-left-out"),
        pytest.param(lambda e: e.insert(7, {"type": "response.in_progress"}), id="event-that-is-not-sent"),
    ],
)
def test_a_responses_stream_out_of_order_is_noticed(spoil: Mutation) -> None:
    events = response_events()
    spoil(events)
    with pytest.raises((AssertionError, KeyError)):
        join_responses(numbered(events))


def test_a_gap_in_the_numbers_is_noticed() -> None:
    raw = numbered(response_events()).replace(b'"sequence_number": 5', b'"sequence_number": 6')
    with pytest.raises(AssertionError, match="count up"):
        join_responses(raw)
