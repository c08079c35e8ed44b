"""Writes an answer as the events of a Responses stream (contract: Streaming, Responses stream).

Called by the edge with what a provider adapter brought; pure, and the hot path of every stream.
"""

from typing import Any

from msgspec.json import encode

from libs.llm.canonical import (
    ChatRequest,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from libs.llm.failures import ApiError
from libs.llm.formats.openai_responses.answer import ended, response, sealed, status_of, wants_sealed
from libs.llm.formats.openai_responses.open_items import CallItem, Item, MessageItem, ReasoningItem
from libs.llm.identity import Identity


class EventWriter:
    """Turns stream events into the bytes one client receives; one writer per stream.

    One item is open at a time. Calls may overlap at a provider: what belongs to a later item waits until the
    arguments of the open call are whole. ``characters`` counts what was said of the answer (text, shown reasoning,
    names and arguments of calls).
    """

    def __init__(self, identity: Identity, request: ChatRequest) -> None:
        self.characters = 0
        self._identity = identity
        self._response = response(identity, request)
        self._with_seal = wants_sealed(request)
        self._number = 0
        self._items: list[Item] = []
        self._calls: dict[int, CallItem] = {}
        self._output: list[dict[str, Any]] = []
        # Where text goes on without further ado: the open message, while nothing has come after it.
        self._message: MessageItem | None = None

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events``, perhaps none; after ``Finish`` the stream is complete."""
        out: list[bytes] = []
        self._begin_response(out)
        for event in events:
            message = self._message
            if message is not None and type(event) is TextDelta:
                self.characters += len(event.text)
                message.pieces.append(event.text)
                out += (message.delta_head, event.json, b',"sequence_number":%d}\n\n' % self._number)
                self._number += 1
            else:
                self._write_other(event, out)
        return b"".join(out)

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that broke off: ``response.failed``, after the first event if there was none."""
        out: list[bytes] = []
        self._begin_response(out)
        failed = self._response | {"status": "failed", "error": {"code": error.code, "message": error.message}}
        self._put(out, "response.failed", {"response": failed})
        return b"".join(out)

    def _write_other(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case TextDelta(text, json):
                self._write_text(text, json, out)
            case ReasoningDelta(text, json):
                reasoning = self._reasoning(out)
                if reasoning is not None:
                    self._add(reasoning, text, json, out)
            case ReasoningEnd(signature) if self._with_seal and sealed(signature):
                reasoning = self._reasoning(out)
                if reasoning is not None:
                    reasoning.signature = signature
            case ToolCallStart(index, id, name):
                self.characters += len(name)
                call = self._calls[index] = CallItem(id, name)
                self._start(call, out)
            case ToolCallDelta(index, arguments):
                self._add(self._calls[index], arguments, encode(arguments), out)
                self._advance(out)
            case Finish():
                self._finish(event, out)

    def _write_text(self, text: str, json: bytes, out: list[bytes]) -> None:
        last = self._items[-1] if self._items else None
        message = last if isinstance(last, MessageItem) else MessageItem()
        if message is not last:
            self._start(message, out)
        self._add(message, text, json, out)
        if message.begun:
            self._message = message

    def _reasoning(self, out: list[bytes]) -> ReasoningItem | None:
        """The reasoning item; None when something came after it, since there is one at most and it is the first."""
        if not self._items:
            self._start(ReasoningItem(), out)
        last = self._items[-1]
        return last if isinstance(last, ReasoningItem) else None

    def _start(self, item: Item, out: list[bytes]) -> None:
        self._message = None
        self._items.append(item)
        self._advance(out)

    def _advance(self, out: list[bytes]) -> None:
        """Close what is whole and open what comes after it; the last item stays open."""
        while True:
            item = self._items[len(self._output)]
            if not item.begun:
                self._begin(item, out)
            if item is self._items[-1] or not item.is_whole():
                return
            self._end(item, "completed", out)

    def _finish(self, event: Finish, out: list[bytes]) -> None:
        status = status_of(event.finish_reason)
        while len(self._output) < len(self._items):
            item = self._items[len(self._output)]
            if not item.begun:
                self._begin(item, out)
            self._end(item, status if item is self._items[-1] else "completed", out)
        self._message = None
        whole = ended(self._response, self._output, event.finish_reason, event.usage)
        self._put(out, "response.completed", {"response": whole})

    def _begin(self, item: Item, out: list[bytes]) -> None:
        """Open the item and tell what was gathered for it while it waited."""
        for kind, members in item.begin(self._identity, len(self._output)):
            self._put(out, kind, members)
        if item.pieces:
            self._piece(item, encode("".join(item.pieces)), out)

    def _add(self, item: Item, text: str, json: bytes, out: list[bytes]) -> None:
        if item.ended:
            return
        if item.begun and not item.pieces:
            for kind, members in item.before_first_piece():
                self._put(out, kind, members)
        self.characters += len(text)
        item.pieces.append(text)
        if item.begun:
            self._piece(item, json, out)

    def _end(self, item: Item, status: str, out: list[bytes]) -> None:
        finished, events = item.end(status)
        self._output.append(finished)
        for kind, members in events:
            self._put(out, kind, members)

    def _begin_response(self, out: list[bytes]) -> None:
        if not self._number:
            self._put(out, "response.created", {"response": self._response})

    def _piece(self, item: Item, json: bytes, out: list[bytes]) -> None:
        out += (item.delta_head, json, b',"sequence_number":%d}\n\n' % self._number)
        self._number += 1

    def _put(self, out: list[bytes], kind: str, members: dict[str, Any]) -> None:
        frame = encode({"type": kind} | members)[:-1]
        out += (f"event: {kind}\ndata: ".encode(), frame, b',"sequence_number":%d}\n\n' % self._number)
        self._number += 1
