"""Folds a Messages stream into one message, strict about the order of its events (contract: Messages stream).
Used by tests of streams.
"""

import json
from typing import Any

from tests.support.frames import Frame, frames
from tests.support.joined import Call, Joined

_FITTING = {
    "text": {"text_delta", "citations_delta"},
    "server_tool_use": {"input_json_delta"},
    "mcp_tool_use": {"input_json_delta"},
    "tool_use": {"input_json_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
}
_OWN = ("server_tool_use", "mcp_tool_use")
"""Calls of the provider's own tools; besides them there are their results, which come whole."""


def join_messages(raw: bytes) -> Joined:
    """Fold the stream; raise AssertionError where it breaks a rule of the contract."""
    joined = Joined(frames(raw))
    for frame in joined.frames:
        assert frame.event == frame.json["type"], "the event's name is its type"
    told = [frame for frame in joined.frames if frame.event != "ping"]
    if told and told[-1].event == "error":
        failed = told.pop().json
        assert set(failed) == {"type", "error"}
        assert set(failed["error"]) == {"type", "message"}
        joined.error = failed["error"]
    elif told:
        assert told[-1].event == "message_stop"
        assert told.pop().json == {"type": "message_stop"}
    if told:
        _read_start(told[0].json["message"], joined)
    _Blocks(joined).read(told[1:])
    assert bool(joined.finish) != (joined.error is not None), "ends with a stop reason or an error, never both"
    return joined


def _read_start(message: dict[str, Any], joined: Joined) -> None:
    fixed = {name: message[name] for name in ("type", "role", "content", "stop_reason", "stop_sequence")}
    expected: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    assert fixed == expected
    assert message["usage"]["input_tokens"] >= 0
    assert message["usage"]["output_tokens"] == 0
    joined.id, joined.model = message["id"], message["model"]


class _Blocks:
    """The blocks so far; one at most is open."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._open: dict[str, Any] | None = None
        self._json = ""
        self._signed = False

    def read(self, told: list[Frame]) -> None:
        for frame in told:
            assert not self._joined.finish, f"{frame.event} after message_delta"
            match frame.event:
                case "content_block_start":
                    self._start(frame.json)
                case "content_block_delta":
                    self._delta(frame.json)
                case "content_block_stop":
                    self._stop(frame.json)
                case "message_delta":
                    self._end(frame.json)
                case other:
                    raise AssertionError(f"{other!r} in the middle of a message")
        assert self._open is None or self._joined.error is not None, "a block was left open"

    def _start(self, data: dict[str, Any]) -> None:
        assert self._open is None, "a block opens while another is open"
        assert data["index"] == len(self._joined.blocks)
        block = data["content_block"]
        kind = block["type"]
        if kind == "tool_use":
            assert set(block) == {"type", "id", "name", "input"}
            assert block["input"] == {}
            assert block["id"]
        elif kind == "thinking":
            assert block | {"signature": ""} == {"type": "thinking", "thinking": "", "signature": ""}
        elif kind == "text":
            assert block == {"type": "text", "text": ""}
        else:
            assert kind in (*_OWN, "redacted_thinking") or kind.endswith("_tool_result"), kind
        self._open, self._json, self._signed = block, "", False
        self._joined.blocks.append(block)

    def _delta(self, data: dict[str, Any]) -> None:
        block, delta = self._open, data["delta"]
        assert block is not None, "a delta outside a block"
        assert data["index"] == len(self._joined.blocks) - 1
        assert delta["type"] in _FITTING[block["type"]]
        assert not self._signed, "nothing follows the signature"
        match delta["type"]:
            case "text_delta":
                block["text"] += delta["text"]
            case "citations_delta":
                block.setdefault("citations", []).append(delta["citation"])
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
                self._signed = True
            case _:
                self._json += delta["partial_json"]

    def _stop(self, data: dict[str, Any]) -> None:
        block = self._open
        assert block is not None, "a stop outside a block"
        assert data == {"type": "content_block_stop", "index": len(self._joined.blocks) - 1}
        match block["type"]:
            case "text":
                self._joined.text += block["text"]
            case "thinking":
                assert self._signed, "a thinking block closes without its signature_delta"
                self._joined.reasoning += block["thinking"]
            case "tool_use":
                self._joined.calls.append(Call(block["id"], block["name"], self._json))
                block["input"] = json.loads(self._json)
            case kind if kind in _OWN and self._json:
                block["input"] = json.loads(self._json)
        self._open = None

    def _end(self, data: dict[str, Any]) -> None:
        assert self._open is None, "message_delta while a block is open"
        assert set(data) == {"type", "delta", "usage"}
        assert set(data["delta"]) == {"stop_reason", "stop_sequence"}
        assert data["delta"]["stop_sequence"] is None
        self._joined.finish = data["delta"]["stop_reason"]
        self._joined.usage = data["usage"]
