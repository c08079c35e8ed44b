"""Folds a Responses stream into one message, strict about the order of its events (contract: Responses stream).
Used by tests of streams.
"""

from typing import Any

from tests.support.frames import frames
from tests.support.joined import Call, Joined

_ENDS = ("response.completed", "response.failed")


def join_responses(raw: bytes) -> Joined:
    """Fold the stream; raise AssertionError where it breaks a rule of the contract. ``finish`` is the status."""
    joined = Joined(frames(raw))
    told = []
    for number, frame in enumerate(joined.frames):
        data = frame.json
        assert frame.event == data["type"], "the event's name is its type"
        assert data["sequence_number"] == number, "numbers count up from 0"
        told.append(data)
    assert [event["type"] in _ENDS for event in told] == [False] * (len(told) - 1) + [True]
    end = told.pop()
    if told:
        _read_start(told[0], joined)
    items = _Items(joined)
    for event in told[1:]:
        items.read(event)
    _read_end(end["type"], end["response"], joined, items)
    return joined


def _read_start(event: dict[str, Any], joined: Joined) -> None:
    assert event["type"] == "response.created"
    response = event["response"]
    assert response["status"] == "in_progress"
    joined.id, joined.model = response["id"], response["model"]


def _read_end(kind: str, response: dict[str, Any], joined: Joined, items: "_Items") -> None:
    if joined.id:
        assert (response["id"], response["model"]) == (joined.id, joined.model)
    joined.id, joined.model = response["id"], response["model"]
    if kind == "response.failed":
        assert response["status"] == "failed"
        assert response["error"]["code"]
        assert response["error"]["message"]
        joined.error = response["error"]
        return
    assert items.open is None, "an item was left open"
    assert response["status"] in ("completed", "incomplete")
    assert response["output"] == joined.blocks, "the whole output is what was streamed"
    joined.finish, joined.usage = response["status"], response["usage"]


class _Items:
    """The output items so far; one at most is open, and its pieces are gathered in ``_pieces``."""

    def __init__(self, joined: Joined) -> None:
        self._joined = joined
        self._pieces = ""
        self._steps: list[str] = []
        self.open: dict[str, Any] | None = None

    def read(self, event: dict[str, Any]) -> None:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            self._start(event)
            return
        assert self.open is not None, f"{kind} outside an item"
        assert event["output_index"] == len(self._joined.blocks)
        if kind == "output_item.done":
            self._stop(event["item"])
            return
        assert event["item_id"] == self.open["id"]
        if not self._steps or self._steps[-1] != kind:
            self._steps.append(kind)
        match kind:
            case "output_text.delta" | "function_call_arguments.delta" | "reasoning_summary_text.delta":
                self._pieces += event["delta"]
            case "function_call_arguments.done":
                assert event["arguments"] == self._pieces
            case "reasoning_summary_text.done":
                assert event["text"] == self._pieces
            case "reasoning_summary_part.added":
                assert event["part"] == {"type": "summary_text", "text": ""}
            case "reasoning_summary_part.done":
                assert event["part"] == {"type": "summary_text", "text": self._pieces}
            case other:
                raise AssertionError(f"response.{other} is not sent")

    def _start(self, event: dict[str, Any]) -> None:
        assert self.open is None, "an item starts while another is open"
        assert event["output_index"] == len(self._joined.blocks)
        item = event["item"]
        match item["type"]:
            case "message":
                # SDKs put the text into this part, since no event of its own opens it.
                assert item["content"] == [{"type": "output_text", "text": "", "annotations": []}]
            case "function_call":
                assert item["arguments"] == ""
            case "reasoning":
                assert item["summary"] == []
                assert not self._joined.blocks, "reasoning comes first"
            case other:
                raise AssertionError(f"an item of type {other!r}")
        self.open, self._pieces, self._steps = item, "", []

    def _stop(self, item: dict[str, Any]) -> None:
        opened = self.open
        assert opened is not None
        assert (item["type"], item["id"]) == (opened["type"], opened["id"])
        joined = self._joined
        match item["type"]:
            case "message":
                assert self._steps == ["output_text.delta"]
                assert item["content"] == [{"type": "output_text", "text": self._pieces, "annotations": []}]
                joined.text += self._pieces
            case "function_call":
                assert self._steps == ["function_call_arguments.delta", "function_call_arguments.done"]
                assert item["arguments"] == self._pieces
                assert (item["name"], item["call_id"]) == (opened["name"], opened["call_id"])
                joined.calls.append(Call(item["call_id"], item["name"], self._pieces))
            case _:
                assert self._steps == [
                    "reasoning_summary_part.added",
                    "reasoning_summary_text.delta",
                    "reasoning_summary_text.done",
                    "reasoning_summary_part.done",
                ]
                assert item["summary"] == [{"type": "summary_text", "text": self._pieces}]
                joined.reasoning += self._pieces
        joined.blocks.append(item)
        self.open = None
