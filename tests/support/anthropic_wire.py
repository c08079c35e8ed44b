"""Answers of a scripted provider that speaks Anthropic's Messages: whole, as events of a stream, as errors.
Used by tests beside the OpenAI builders of ``tests.support.provider``.
"""

import json
from typing import Any

from tests.support.provider import Scripted, event, json_answer, stream

PING = event({"type": "ping"}, "ping")
STOP = event({"type": "message_stop"}, "message_stop")


def message(
    *content: dict[str, Any], stop_reason: str = "end_turn", usage: tuple[int, int] = (10, 2), **counts: int
) -> Scripted:
    """A whole answer of these blocks; ``counts`` are further members of its usage."""
    return json_answer(
        {
            "id": "msg_vendor",
            "type": "message",
            "role": "assistant",
            "model": "vendor/real-model",
            "content": list(content),
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": usage[0], "output_tokens": usage[1], **counts},
        }
    )


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def tool_use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A call as a block."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def failure(status: int, kind: str = "api_error", words: str = "vendor text", **headers: str) -> Scripted:
    """An error answer in Anthropic's envelope."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return json_answer({"type": "error", "error": {"type": kind, "message": words}}, status, named)


def events(*parts: bytes | tuple[bytes, ...]) -> Scripted:
    """A stream of these events, one write each."""
    return stream(*flat(*parts))


def flat(*parts: bytes | tuple[bytes, ...]) -> list[bytes]:
    """Single events and whole blocks as one list of events."""
    return [piece for part in parts for piece in ([part] if isinstance(part, bytes) else part)]


def start(input_tokens: int, output_tokens: int = 1, **counts: int) -> bytes:
    """The opening event; ``counts`` are further members of its usage."""
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens, **counts}
    opened = {"id": "msg_vendor", "type": "message", "role": "assistant", "model": "vendor/real-model", "content": []}
    return event({"type": "message_start", "message": {**opened, "usage": usage}}, "message_start")


def end(stop_reason: str, output_tokens: int, **counts: int) -> tuple[bytes, ...]:
    """The two closing events."""
    usage = {"output_tokens": output_tokens, **counts}
    delta = {"stop_reason": stop_reason, "stop_sequence": None}
    return (event({"type": "message_delta", "delta": delta, "usage": usage}, "message_delta"), STOP)


def text_block(index: int, *pieces: str) -> tuple[bytes, ...]:
    """A text block in pieces."""
    return _block(index, text(""), [{"type": "text_delta", "text": piece} for piece in pieces])


def tool_block(index: int, id: str, name: str, *pieces: str) -> tuple[bytes, ...]:
    """A call whose arguments come in pieces of JSON."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return _block(index, tool_use(id, name), deltas)


def thinking_block(index: int, *pieces: str, signature: str = "sig-vendor") -> tuple[bytes, ...]:
    """Reasoning in pieces, signed."""
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = {"type": "signature_delta", "signature": signature}
    return _block(index, {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed])


def _block(index: int, opened: dict[str, Any], deltas: list[dict[str, Any]]) -> tuple[bytes, ...]:
    return (
        event({"type": "content_block_start", "index": index, "content_block": opened}, "content_block_start"),
        *(
            event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            for delta in deltas
        ),
        event({"type": "content_block_stop", "index": index}, "content_block_stop"),
    )


def blocks_of(body: Any) -> list[dict[str, Any]]:
    """Every block a request's messages hold, a string counting as one text block."""
    found: list[Any] = []
    for turn in body["messages"]:
        content = turn["content"]
        found += [text(content)] if isinstance(content, str) else content
    return found


def marks_of(body: Any) -> int:
    """How many cache marks a request carries."""
    return json.dumps(body).count('"cache_control"')
