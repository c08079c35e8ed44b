"""The items of an output while they are streamed: which events open and close each kind, and what it holds so far.

Driven by the stream writer, which keeps them in order and numbers the events.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

from msgspec import DecodeError
from msgspec.json import encode

from libs.llm.canonical import ToolCall
from libs.llm.formats.body import decode_members
from libs.llm.formats.openai_responses.answer import call_item, item_id, message_item, reasoning_item
from libs.llm.identity import Identity

Event: TypeAlias = tuple[str, dict[str, Any]]
"""A type and the members besides it and the number."""


class Item(ABC):
    """One item. Until ``begin`` it only gathers ``pieces``; from then on ``delta_head`` starts the frame of a piece."""

    prefix: ClassVar[str]
    delta: ClassVar[str]

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.begun = False
        self.ended = False
        self.delta_head = b""
        self._id = ""
        self._index = 0

    def begin(self, identity: Identity, index: int) -> list[Event]:
        """Take the place ``index`` in the output; the events that say so."""
        self._id = item_id(self.prefix, identity, index)
        self._index = index
        self.begun = True
        members = encode({"type": self.delta} | self._place())
        self.delta_head = f"event: {self.delta}\ndata: ".encode() + members[:-1] + b',"delta":'
        return [("response.output_item.added", {"output_index": index, "item": self._empty()})]

    def before_first_piece(self) -> list[Event]:
        """What must be said before the first piece."""
        return []

    def end(self, status: str) -> tuple[dict[str, Any], list[Event]]:
        """The finished item and the events that close it."""
        self.ended = True
        item = self._full("".join(self.pieces)) | {"status": status}
        done = ("response.output_item.done", {"output_index": self._index, "item": item})
        return item, [*self._summary("".join(self.pieces)), done]

    def is_whole(self) -> bool:
        """Whether no more can follow once a later item has begun at the provider."""
        return True

    def _summary(self, text: str) -> list[Event]:
        return []

    def _place(self) -> dict[str, Any]:
        """Where a piece belongs."""
        return {"item_id": self._id, "output_index": self._index}

    @abstractmethod
    def _full(self, text: str) -> dict[str, Any]: ...

    def _empty(self) -> dict[str, Any]:
        return self._full("") | {"status": "in_progress"}


class MessageItem(Item):
    """A text of the answer. Clients put its pieces into the one empty part it starts with."""

    prefix = "msg"
    delta = "response.output_text.delta"

    def _full(self, text: str) -> dict[str, Any]:
        return message_item(self._id, text)

    def _place(self) -> dict[str, Any]:
        return super()._place() | {"content_index": 0}


class ReasoningItem(Item):
    """The reasoning; ``signature`` is set when the client is to hand it back. Without text it has no summary part."""

    prefix = "rs"
    delta = "response.reasoning_summary_text.delta"

    def __init__(self) -> None:
        super().__init__()
        self.signature = ""

    def before_first_piece(self) -> list[Event]:
        return [("response.reasoning_summary_part.added", self._place() | {"part": _summary_part("")})]

    def _summary(self, text: str) -> list[Event]:
        if not self.pieces:
            return []
        return [
            ("response.reasoning_summary_text.done", self._place() | {"text": text}),
            ("response.reasoning_summary_part.done", self._place() | {"part": _summary_part(text)}),
        ]

    def _full(self, text: str) -> dict[str, Any]:
        return reasoning_item(self._id, text, self.signature)

    def _place(self) -> dict[str, Any]:
        return super()._place() | {"summary_index": 0}


class CallItem(Item):
    """A function call."""

    prefix = "fc"
    delta = "response.function_call_arguments.delta"

    def __init__(self, call_id: str, name: str) -> None:
        super().__init__()
        self._call_id = call_id
        self._name = name

    def is_whole(self) -> bool:
        """No stream says that a call is over, but an object that is closed can get nothing more."""
        if not (self.pieces and self.pieces[-1].rstrip().endswith("}")):
            return False
        try:
            decode_members("".join(self.pieces))
        except (DecodeError, RecursionError):
            return False
        return True

    def _summary(self, text: str) -> list[Event]:
        done = {"name": self._name, "arguments": text}
        return [("response.function_call_arguments.done", self._place() | done)]

    def _full(self, text: str) -> dict[str, Any]:
        return call_item(self._id, ToolCall(self._call_id, self._name, text))


def _summary_part(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
