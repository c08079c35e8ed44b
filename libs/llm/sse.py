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
        if not tail and chunk.startswith(b"data: ") and chunk.find(b"\n") == len(chunk) - 2 and chunk[-1] == 10:
            self._at_start = False
            return [(b"", chunk[6:-2])]
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
            if frame.startswith(b"data: ") and b"\n" not in frame:
                events.append((b"", frame[6:]))
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
