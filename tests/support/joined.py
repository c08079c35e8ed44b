"""Folds a client's stream into one message, strict about order: one start, ordered parts, one end, nothing after it.
Used by tests of streams; Chat completions here, the other formats beside it.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.frames import Frame, frames


@dataclass
class Call:
    """A function the model called."""

    id: str
    name: str
    arguments: str = ""


@dataclass
class Joined:
    """What a stream said in all. ``blocks`` are the parts in the client's format (empty for Chat).

    ``finish`` is finish_reason, stop_reason or status; ``error`` the error a broken stream ended with, ``finish``
    then being "".
    """

    frames: list[Frame]
    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    finish: str = ""
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


def join_chat(raw: bytes) -> Joined:
    """Fold a Chat completions stream; raise AssertionError where it breaks a rule of the contract."""
    joined = Joined(frames(raw))
    assert all(frame.event == "" for frame in joined.frames), "a Chat frame has no event line"
    assert [frame.data for frame in joined.frames].count("[DONE]") == 1
    assert joined.frames[-1].data == "[DONE]"
    chunks = [frame.json for frame in joined.frames[:-1]]
    if chunks and "error" in chunks[-1]:
        failed = chunks.pop()
        assert set(failed) == {"error"}
        assert set(failed["error"]) == {"message", "type", "param", "code"}
        joined.error = failed["error"]
    _check_heads(chunks, joined)
    for chunk in chunks:
        _join_chunk(chunk, joined)
    # A failure before any content leaves no chunk at all.
    assert bool(joined.finish) != (joined.error is not None), "ends with a finish reason or an error, never both"
    return joined


def _check_heads(chunks: list[dict[str, Any]], joined: Joined) -> None:
    if not chunks:
        return
    same = {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}
    assert len(same) == 1, f"chunks differ in their heads: {same}"
    joined.id, kind, _, joined.model = same.pop()
    assert kind == "chat.completion.chunk"
    opening = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    assert chunks[0]["choices"] == [opening], "the first chunk names the role alone"
    for chunk in chunks:
        assert set(chunk) <= {"id", "object", "created", "model", "choices", "usage"}
        assert len(chunk["choices"]) == 1
        assert chunk["choices"][0]["index"] == 0
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    assert all("usage" not in chunk for chunk in chunks[:-1])


def _join_chunk(chunk: dict[str, Any], joined: Joined) -> None:
    choice = chunk["choices"][0]
    delta = choice["delta"]
    assert not joined.finish, "nothing follows the finish reason"
    if choice["finish_reason"] is not None:
        assert delta == {}, "the finish reason comes alone"
        joined.finish = choice["finish_reason"]
        joined.usage = chunk.get("usage")
        return
    assert delta, "an empty delta without a finish reason"
    joined.text += delta.get("content") or ""
    assert delta.get("reasoning") == delta.get("reasoning_content"), "reasoning under both names is the same"
    joined.reasoning += delta.get("reasoning") or ""
    for piece in delta.get("tool_calls", []):
        _join_call(piece, joined.calls)


def _join_call(piece: dict[str, Any], calls: list[Call]) -> None:
    if piece["index"] == len(calls):
        assert set(piece) == {"index", "id", "type", "function"}
        assert piece["type"] == "function"
        assert piece["id"]
        assert set(piece["function"]) == {"name", "arguments"}
        assert piece["function"]["arguments"] == "", "a call opens without arguments"
        calls.append(Call(piece["id"], piece["function"]["name"]))
        return
    assert piece["index"] < len(calls), "indexes count from 0"
    assert set(piece) == {"index", "function"}, "a later piece has arguments only"
    assert set(piece["function"]) == {"arguments"}
    calls[piece["index"]].arguments += piece["function"]["arguments"]
