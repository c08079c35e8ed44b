"""Parts of an answer in any order and any pieces: each client format tells the same, in its own order.

The kind of faults of C001, C003 and C035, without a system around: provider bytes through decoders and writers.
"""

import json
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import StreamEvent
from libs.llm.formats import anthropic_messages, openai_chat, openai_responses
from libs.llm.formats.base import ClientFormat
from libs.llm.identity import Identity
from libs.llm.providers.anthropic.stream import StreamDecoder as AnthropicDecoder
from libs.llm.providers.openai_chat.stream import StreamDecoder as OpenAIDecoder
from tests.support.anthropic_wire import end, flat, start, text_block, thinking_block, tool_block
from tests.support.joined import Joined, join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.support.provider import DONE, delta, finish, in_pieces, usage

HI = [{"role": "user", "content": "Hi"}]
CLIENTS: dict[str, tuple[ClientFormat, dict[str, Any], Callable[[bytes], Joined]]] = {
    "chat": (openai_chat.FORMAT, {"messages": HI}, join_chat),
    "messages": (anthropic_messages.FORMAT, {"messages": HI, "max_tokens": 50}, join_messages),
    "responses": (openai_responses.FORMAT, {"input": "Hi"}, join_responses),
}

PIECES = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), min_size=1, max_size=3)
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2).map(json.dumps)
Part = tuple[str, list[str]]


@st.composite
def calls(draw: st.DrawFn) -> Part:
    """Arguments in two pieces, or none at all."""
    if draw(st.booleans()):
        return ("call", [])
    arguments = draw(ARGUMENTS)
    cut = draw(st.integers(0, len(arguments)))
    return ("call", [piece for piece in (arguments[:cut], arguments[cut:]) if piece])


PARTS = st.lists(st.tuples(st.sampled_from(["text", "why"]), PIECES) | calls(), max_size=6)


class Decoder(Protocol):
    def feed(self, chunk: bytes) -> list[StreamEvent]: ...


def as_openai(parts: list[Part], late: bool) -> bytes:
    """``late``: the arguments of calls come after everything else, those of the last call first."""
    told = [delta("", role="assistant")]
    arguments: list[bytes] = []
    for place, (kind, pieces) in enumerate(parts):
        if kind == "text":
            told += [delta(piece) for piece in pieces]
        elif kind == "why":
            told += [delta(reasoning_content=piece) for piece in pieces]
        else:
            index = sum(kind == "call" for kind, _ in parts[:place])
            opened = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": ""}}
            told.append(delta(tool_calls=[opened]))
            given = [delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in pieces]
            arguments[:0] = given
            if not late:
                told += given
    called = any(kind == "call" for kind, _ in parts)
    return b"".join(
        [*told, *(arguments if late else []), finish("tool_calls" if called else "stop"), usage(1, 1), DONE]
    )


def as_anthropic(parts: list[Part], late: bool) -> bytes:
    blocks: list[tuple[bytes, ...]] = []
    for index, (kind, pieces) in enumerate(parts):
        if kind == "text":
            blocks.append(text_block(index, *pieces))
        elif kind == "why":
            blocks.append(thinking_block(index, *pieces))
        else:
            count = sum(kind == "call" for kind, _ in parts[:index])
            blocks.append(tool_block(index, f"c{count}", "f", *pieces))
    called = any(kind == "call" for kind, _ in parts)
    return b"".join(flat(start(1), *blocks, end("tool_use" if called else "end_turn", 1)))


def said(parts: list[Part], kind: str) -> str:
    return "".join(piece for found, pieces in parts if found == kind for piece in pieces)


WIRES: dict[str, tuple[Callable[[int], Decoder], Callable[[list[Part], bool], bytes]]] = {
    "openai": (OpenAIDecoder, as_openai),
    "anthropic": (AnthropicDecoder, as_anthropic),
}


@pytest.mark.rule("STR-014", "STR-026", "STR-040", "STR-042", "STR-058", "STR-060", "STR-064", "STR-076")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=40, deadline=None)
@given(parts=PARTS, late=st.booleans(), size=st.sampled_from([1, 5, 200, 100_000]))
def test_parts_in_any_order_are_told_whole(client: str, wire: str, parts: list[Part], late: bool, size: int) -> None:
    format, body, join = CLIENTS[client]
    request = format.parse(json.dumps({"model": "fx", "stream": True, **body}).encode(), lambda _: None)
    writer = format.writer(Identity("r", "fx", 1), request)
    decoder, written = WIRES[wire]
    reading = decoder(50)
    raw = b""
    for piece in in_pieces(written(parts, late), size):
        events = reading.feed(piece)
        raw += writer.write(events) if events else b""
    joined = join(raw)
    assert joined.error is None
    assert joined.text == said(parts, "text")
    given = [json.loads("".join(pieces) or "{}") for kind, pieces in parts if kind == "call"]
    assert [json.loads(call.arguments) for call in joined.calls] == given
    assert len({call.id for call in joined.calls}) == len(given)
    if client == "responses":
        # It has one place for reasoning, before all else.
        leading = next((place for place, (kind, _) in enumerate(parts) if kind != "why"), len(parts))
        assert said(parts, "why").startswith(joined.reasoning)
        assert joined.reasoning.startswith(said(parts[:leading], "why"))
    else:
        assert joined.reasoning == said(parts, "why")
