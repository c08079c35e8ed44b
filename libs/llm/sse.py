"""Cuts a byte stream into server-sent events, however the network cut it.

Called by the stream decoders of provider formats. Bytes in, bytes out: text is decoded only in whole events.
"""

MAX_FRAME_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class FrameTooLong(ValueError):
    """An event longer than ``MAX_FRAME_BYTES``: not a stream that can be read."""


class SseSplitter:
    """Incremental: ``feed`` what arrived, get the events that became whole.

    An event is ``(name, data)``, ``name`` being ``b""`` without an ``event:`` line. Comments, ``id:`` and
    ``retry:`` lines and events without a ``data:`` line vanish. Lines may end in LF, CRLF or CR.
    """

    __slots__ = ("_after_cr", "_at_start", "_max", "_tail")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._tail = bytearray()
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """The events completed by ``chunk``; raises ``FrameTooLong``."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # A CR at the very end counts as a line's end at once; should LF follow, it belongs to it.
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        tail = self._tail
        if not tail and chunk.endswith(b"\n\n") and (event := _plain_event(chunk, len(chunk) - 2)):
            self._at_start = False
            return [event]
        if tail:
            if b"\n\n" not in tail[-1:] + chunk:
                return self._keep(chunk)
            chunk = bytes(tail) + chunk
            tail.clear()
        frames = chunk.split(b"\n\n")
        events: list[tuple[bytes, bytes]] = []
        rest = frames.pop()
        if frames and self._at_start:
            self._at_start = False
            frames[0] = frames[0].removeprefix(_BOM)
        for frame in frames:
            if event := _plain_event(frame, len(frame)):
                events.append(event)
            elif frame:
                _read_lines(frame, events)
        if rest:
            self._keep(rest)
        return events

    def rest(self) -> list[tuple[bytes, bytes]]:
        """The event left without its blank line when the stream ended, if one is there."""
        events: list[tuple[bytes, bytes]] = []
        _read_lines(bytes(self._tail), events)
        return events

    def _keep(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        if len(self._tail) + len(chunk) > self._max:
            raise FrameTooLong
        self._tail += chunk
        return []


def _plain_event(frame: bytes, end: int) -> tuple[bytes, bytes] | None:
    """The event up to ``end`` if it is written as nearly all are: one data line, before it perhaps the name's."""
    if frame.startswith(b"data: "):
        return (b"", frame[6:end]) if frame.find(b"\n", 6, end) < 0 else None
    if frame.startswith(b"event: "):
        line = frame.find(b"\n", 7, end)
        if frame.startswith(b"data: ", line + 1) and frame.find(b"\n", line + 1, end) < 0:
            return frame[7:line], frame[line + 7 : end]
    return None


def _read_lines(frame: bytes, events: list[tuple[bytes, bytes]]) -> None:
    """One event by the letter of the format; added only when it has a data line."""
    name = b""
    data: list[bytes] = []
    for line in frame.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if data:
        events.append((name, b"\n".join(data)))
