"""Pieces of Responses streams as a provider sends them."""

import json
from typing import Any

from tests.support.provider import event

USAGE = {
    "input_tokens": 14,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 6,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 20,
}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}


def sse(kind: str, **members: Any) -> bytes:
    return event({"type": kind, "sequence_number": 7} | members, kind)


def text(delta: str, place: int = 0) -> bytes:
    return sse("response.output_text.delta", item_id="msg_1", output_index=place, content_index=0, delta=delta,
               logprobs=[], obfuscation="xyz")  # fmt: skip


def thought(delta: str, place: int = 0, part: int = 0) -> bytes:
    return sse(
        "response.reasoning_summary_text.delta", item_id="rs_1", output_index=place, summary_index=part, delta=delta
    )


def added(item: dict[str, Any], place: int = 0) -> bytes:
    return sse("response.output_item.added", output_index=place, item=item)


def ended(item: dict[str, Any], place: int = 0) -> bytes:
    return sse("response.output_item.done", output_index=place, item=item)


def arguments(delta: str, place: int = 0) -> bytes:
    return sse("response.function_call_arguments.delta", item_id=f"fc_{place}", output_index=place, delta=delta)


def call(place: int = 0, arguments: str = "", name: str = "look") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{place}",
        "call_id": f"call_{place}x",
        "name": name,
        "arguments": arguments,
    }


def reasoning(*summary: str, encrypted: str | None = "sealed") -> dict[str, Any]:
    pieces = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": pieces, "encrypted_content": encrypted}


def response(status: str = "completed", **members: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "model": "vendor/real",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": USAGE,
    }
    return whole | members


def closing(status: str = "completed", **members: Any) -> bytes:
    return sse(f"response.{status}", response=response(status, **members))


def message(*pieces: dict[str, Any]) -> dict[str, Any]:
    return MESSAGE | {"content": list(pieces), "status": "completed"}


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


CREATED = sse("response.created", response=response("in_progress", usage=None))
