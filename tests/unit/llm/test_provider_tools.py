"""What a provider's own tools bring: Messages clients get it in place and in order, all others the text alone."""

import json
from typing import Any

import pytest

from libs.llm.canonical import ChatRequest, Finish, FinishReason, StreamEvent, Usage
from libs.llm.formats import anthropic_messages, kyara_chat, openai_chat, openai_responses
from libs.llm.formats.base import ClientFormat
from libs.llm.identity import Identity
from libs.llm.providers.anthropic.answer import read_answer
from libs.llm.providers.anthropic.stream import StreamDecoder
from tests.support.anthropic_wire import flat, start
from tests.support.joined import Joined, join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.unit.llm.anthropic_provider.events import arguments, closed, last, opened, piece, sse, text

IDENTITY = Identity("0198f0c0a0b07000800000000000abcd", "fx", 1)
SOURCE = {"type": "web_search_result_location", "url": "https://x.example", "cited_text": "a\nb"}
CALL = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "é"}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"encrypted_content": "e=="}]}
CONTENT = [
    {"type": "text", "text": "Looking."},
    CALL,
    RESULT,
    {"type": "text", "text": "It is "},
    {"type": "text", "text": "so", "citations": [SOURCE]},
    {"type": "text", "text": "."},
]
COUNTS = {"input_tokens": 10, "output_tokens": 7, "server_tool_use": {"web_search_requests": 1}}
STREAM = flat(
    start(10),
    (opened(0, "text", text=""), text("Looking.", 0), closed(0)),
    (opened(1, "server_tool_use", id="srv_1", name="web_search", input={}), arguments('{"query":', 1)),
    (arguments('"\\u00e9"}', 1), closed(1)),
    (opened(2, "web_search_tool_result", tool_use_id="srv_1", content=RESULT["content"]), closed(2)),
    (opened(3, "text", text=""), text("It is ", 3), closed(3)),
    (opened(4, "text", text="", citations=[]), piece(4, "citations_delta", citation=SOURCE), text("so", 4), closed(4)),
    (opened(5, "text", text=""), text(".", 5), closed(5)),
    (last(delta={"stop_reason": "pause_turn", "stop_sequence": None}, usage=COUNTS), sse("message_stop")),
)


def request(format: ClientFormat) -> ChatRequest:
    turns = [{"role": "user", "content": "Hi"}]
    named = "input" if format is openai_responses.FORMAT else "messages"
    limit = {"max_tokens": 50} if named == "messages" else {}
    return format.parse(json.dumps({"model": "m", named: turns} | limit).encode(), _none)


def _none(name: bytes) -> str | None:
    return None


def events() -> list[StreamEvent]:
    decoder = StreamDecoder(1_000)
    told = [event for data in STREAM for event in decoder.feed(data)]
    assert decoder.done
    return told


def whole(format: ClientFormat) -> Any:
    message = {"type": "message", "content": CONTENT, "stop_reason": "pause_turn", "usage": COUNTS}
    answer = read_answer(json.dumps(message, indent=1).encode(), 1_000)
    assert answer.usage is not None
    return json.loads(format.render_answer(answer, answer.usage, IDENTITY, request(format)))


def streamed(format: ClientFormat) -> bytes:
    writer = format.writer(IDENTITY, request(format))
    return b"".join(writer.write([event]) for event in events())


def test_a_messages_client_gets_the_blocks_of_the_providers_tools_whole() -> None:
    body = whole(anthropic_messages.FORMAT)
    assert (body["content"], body["stop_reason"], body["usage"]) == (CONTENT, "pause_turn", COUNTS)


def test_a_messages_client_gets_the_blocks_of_the_providers_tools_in_a_stream() -> None:
    joined = join_messages(streamed(anthropic_messages.FORMAT))
    assert (joined.blocks, joined.finish, joined.usage) == (CONTENT, "pause_turn", COUNTS)


@pytest.mark.parametrize(
    ("format", "join", "finish"),
    [(openai_chat.FORMAT, join_chat, "length"), (openai_responses.FORMAT, join_responses, "incomplete")],
    ids=["chat", "responses"],
)
def test_other_clients_get_the_text_and_are_not_told_that_it_is_complete(
    format: ClientFormat, join: Any, finish: str
) -> None:
    joined: Joined = join(streamed(format))
    assert (joined.text, joined.finish, joined.calls) == ("Looking.It is so.", finish, [])
    for told in (json.dumps(whole(format)), streamed(format).decode()):
        assert "web_search" not in told and "x.example" not in told


def test_the_strict_dialect_gets_the_text_alone() -> None:
    assert whole(kyara_chat.FORMAT)["choices"][0]["message"]["content"] == "Looking.It is so."
    assert b"web_search" not in streamed(kyara_chat.FORMAT)


def test_the_edges_own_counts_leave_those_of_the_tools_in_place() -> None:
    writer = anthropic_messages.FORMAT.writer(IDENTITY, request(anthropic_messages.FORMAT))
    raw = writer.write(events()[:-1]) + writer.write([Finish(FinishReason.LENGTH, Usage(1, 2))])
    assert join_messages(raw).usage == COUNTS | {"input_tokens": 1, "output_tokens": 2}
