"""Events of Anthropic streams, and what the decoder makes of them.

Used by the tests of streams beside this module.
"""

import json
from typing import Any

from libs.llm.canonical import (
    Finish,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from libs.llm.providers.anthropic.stream import StreamDecoder
from tests.support.anthropic_wire import flat
from tests.support.provider import event


def sse(kind: str, **members: Any) -> bytes:
    return event({"type": kind} | members, kind)


def opened(index: int, kind: str, **members: Any) -> bytes:
    return sse("content_block_start", index=index, content_block={"type": kind} | members)


def piece(index: int, kind: str, **members: Any) -> bytes:
    return sse("content_block_delta", index=index, delta={"type": kind} | members)


def text(words: str, index: int = 0) -> bytes:
    return piece(index, "text_delta", text=words)


def thought(words: str, index: int = 0) -> bytes:
    return piece(index, "thinking_delta", thinking=words)


def arguments(words: str, index: int = 0) -> bytes:
    return piece(index, "input_json_delta", partial_json=words)


def closed(index: int = 0) -> bytes:
    return sse("content_block_stop", index=index)


def last(**members: Any) -> bytes:
    return sse("message_delta", **members)


def read(*reads: bytes | tuple[bytes, ...], max_tokens: int = 1_000) -> tuple[list[StreamEvent], StreamDecoder]:
    """All events of a body that arrives in these reads and then ends."""
    decoder = StreamDecoder(max_tokens)
    events: list[StreamEvent] = []
    for data in flat(*reads):
        events += decoder.feed(data)
        if decoder.failure or decoder.done:
            return events, decoder
    return events + decoder.end(), decoder


def said(events: list[StreamEvent]) -> str:
    for each in events:
        if isinstance(each, TextDelta | ReasoningDelta):
            assert json.loads(each.json) == each.text
    return "".join(each.text for each in events if isinstance(each, TextDelta))


def thoughts(events: list[StreamEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, ReasoningDelta))


def starts_and_arguments(events: list[StreamEvent]) -> tuple[list[tuple[int, str, str]], dict[int, str]]:
    starts = [(each.index, each.id, each.name) for each in events if isinstance(each, ToolCallStart)]
    pieces: dict[int, str] = {}
    for each in events:
        if isinstance(each, ToolCallDelta):
            assert each.arguments
            pieces[each.index] = pieces.get(each.index, "") + each.arguments
    return starts, pieces


def finish(*reads: bytes | tuple[bytes, ...], max_tokens: int = 1_000) -> Finish:
    events, decoder = read(*reads, max_tokens=max_tokens)
    assert decoder.done and isinstance(events[-1], Finish)
    return events[-1]
