"""Follows the output items of one stream: which pieces came, and what the whole item still has to add.

Called by the stream decoder; servers differ in which of the events they send.
"""

from libs.llm.canonical import (
    ReasoningDelta,
    ReasoningEnd,
    StreamEvent,
    ToolCallDelta,
    ToolCallStart,
    reasoning_delta,
    text_delta,
)
from libs.llm.providers.openai_responses.wire import Item, arguments_text, call_id, call_name


class Output:
    """One item. ``call`` is the number of the call it is, None for any other item or before its start."""

    __slots__ = ("_argued", "_missed", "_place", "_thought", "call", "said")

    def __init__(self) -> None:
        self.call: int | None = None
        self.said = False
        self._argued = False
        self._missed = False
        self._thought = ""
        self._place = 0

    @property
    def thought(self) -> bool:
        """Whether reasoning of this item is out."""
        return bool(self._thought)

    def reason(self, kind: str, place: int, text: str, json: bytes, events: list[StreamEvent]) -> None:
        """A piece of reasoning; of a server that tells it in two kinds the one that came first."""
        if not text or (self._thought and kind != self._thought):
            return
        if self._thought and place != self._place:
            events.append(reasoning_delta("\n\n"))
        self._thought, self._place = kind, place
        events.append(ReasoningDelta(text, json))

    def argue(self, arguments: str, events: list[StreamEvent]) -> None:
        """A piece of arguments; what comes before the call's name waits for the whole item."""
        if self.call is None:
            self._missed = True
        elif arguments and not self._missed:
            self._argued = True
            events.append(ToolCallDelta(self.call, arguments))

    def complete(self, arguments: str, events: list[StreamEvent]) -> None:
        """The whole arguments, given out unless their pieces were; "" leaves the call open."""
        if self.call is not None and arguments and not self._argued:
            self._argued = True
            events.append(ToolCallDelta(self.call, arguments))


class Outputs:
    """All items of a stream, by their place in the output or by their id where a server leaves places out."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._by_key: dict[int | str | None, Output] = {}
        self._calls = 0

    @property
    def called(self) -> bool:
        return self._calls > 0

    @property
    def said(self) -> bool:
        """Whether the answer holds text or a call."""
        return self._calls > 0 or any(output.said for output in self._by_key.values())

    def at(self, place: int | None, item_id: str | None) -> Output:
        """The item an event speaks of."""
        key = item_id if place is None else place
        found = self._by_key.get(key)
        if found is None:
            found = self._by_key[key] = Output()
        return found

    def take(self, place: int | None, item: Item, events: list[StreamEvent], *, whole: bool) -> None:
        """An item at its start or, with ``whole``, at its end."""
        output = self.at(place, item.id)
        if item.type == "function_call":
            self._take_call(output, item, events, whole=whole)
        elif not whole:
            return
        elif item.type == "message":
            text = item.text()
            if text and not output.said:
                output.said = True
                events.append(text_delta(text))
        else:
            self._end_reasoning(output, item, events)

    def finish(self, events: list[StreamEvent]) -> None:
        """A call without parameters still needs arguments that are JSON."""
        for output in self._by_key.values():
            output.complete("{}", events)

    def _take_call(self, output: Output, item: Item, events: list[StreamEvent], *, whole: bool) -> None:
        if output.call is None:
            name = call_name(item)
            output.call = self._calls
            self._calls += 1
            events.append(ToolCallStart(output.call, call_id(item, output.call), name))
        if whole:
            output.complete(arguments_text(item.arguments) or "{}", events)

    def _end_reasoning(self, output: Output, item: Item, events: list[StreamEvent]) -> None:
        text, signature = item.reasoning(), item.signature(self._upstream)
        if text and not output.thought:
            events.append(reasoning_delta(text))
        if signature:
            events.append(ReasoningEnd(signature))
