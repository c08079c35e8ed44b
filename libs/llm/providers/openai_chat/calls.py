"""Follows the function calls of one stream: pieces in, one start per call and its arguments out.

Called by the stream decoder for deltas with ``tool_calls``.
"""

from libs.llm.canonical import StreamEvent, ToolCallDelta, ToolCallStart
from libs.llm.providers.openai_chat.wire import Call, arguments_text, new_call_id
from libs.llm.providers.replies import junk


class _Open:
    __slots__ = ("has_arguments", "id", "index")

    def __init__(self, index: int, id: str | None, custom: bool) -> None:
        self.index = index
        self.id = id
        # Any text is fine for a custom tool, none too.
        self.has_arguments = custom


class CallTracker:
    """Numbers calls from 0 in order of appearance, whatever indexes (or none) the provider uses."""

    def __init__(self) -> None:
        self._by_place: dict[int, _Open] = {}
        self._count = 0

    @property
    def called(self) -> bool:
        return self._count > 0

    def add(self, pieces: list[Call], events: list[StreamEvent]) -> None:
        """Append what ``pieces`` say; raises ``ProviderFailure`` junk for arguments of no known call."""
        for piece in pieces:
            if piece.function is None and piece.custom is None and piece.type not in (None, "function"):
                continue  # of a type nobody knows: tools of any type are passed on, and what they answer is no fault
            place = piece.index or 0
            call = self._by_place.get(place)
            custom = piece.custom
            name = custom.name if custom else piece.function.name if piece.function else None
            if call is None or (name and _is_another(piece, call)):
                call = self._open(place, piece.id, name, events, custom=custom is not None)
            if custom is not None:
                arguments = custom.input or ""
            else:
                arguments = arguments_text(piece.function.arguments) if piece.function else ""
            if arguments:
                call.has_arguments = True
                events.append(ToolCallDelta(call.index, arguments))

    def finish(self, events: list[StreamEvent]) -> None:
        """A call without parameters still needs arguments that are JSON."""
        for call in self._by_place.values():
            if not call.has_arguments:
                events.append(ToolCallDelta(call.index, "{}"))

    def _open(self, place: int, id: str | None, name: str | None, events: list[StreamEvent], *, custom: bool) -> _Open:
        if not name:
            raise junk("tool call without a name")
        before = self._by_place.pop(place, None)
        if before is not None and not before.has_arguments:
            events.append(ToolCallDelta(before.index, "{}"))
        call = self._by_place[place] = _Open(self._count, id, custom)
        self._count += 1
        events.append(ToolCallStart(call.index, id or new_call_id(), name, custom))
        return call


def _is_another(piece: Call, call: _Open) -> bool:
    """Whether a named piece opens a call beside the one in its place.

    Some servers number every call 0 and tell them apart by id, others send whole calls with neither number nor id.
    """
    return piece.id != call.id if piece.id else piece.index is None
