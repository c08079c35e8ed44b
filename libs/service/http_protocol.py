"""One HTTP/1.1 connection that a client cannot fill with headers or hold open with half a request, and that stays one.

Made by uvicorn for every connection of ``HttpServer``.
"""

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 256

_REQUEST_LINE = re.compile(rb"[A-Z]{3,8} [^\r\n ]+ HTTP/1\.1\r\n")
_UPGRADE = re.compile(rb"\r\nupgrade(?=[ \t]*:)", re.IGNORECASE)

# Called by name on the hot path: ``super()`` costs more than all that is added here.
_data_received = HttpToolsProtocol.data_received
_on_headers_complete = HttpToolsProtocol.on_headers_complete
_on_body = HttpToolsProtocol.on_body


class HeadTooLargeError(Exception):
    """Ends the parsing of a request; uvicorn answers 400 and closes the connection."""


class BoundedProtocol(HttpToolsProtocol):
    """Refuses a request line and headers of more than ``MOST_HEAD_BYTES`` or ``MOST_HEADERS``, trailers included.

    Bytes are counted between two points at which the parser got on: a complete head, a piece of a body. So a
    head that comes right behind another request in one read may be larger by that read.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pending = 0
        self._got_on = False
        self._heads = 0
        self._waiting_since = 0.0
        self._waiting_after = -1

    def data_received(self, data: bytes) -> None:
        if b"pgrade" in data[:MOST_HEAD_BYTES] and _REQUEST_LINE.match(data):
            data = _without_upgrade(data)
        self._pending += len(data)
        _data_received(self, data)
        if self._got_on:
            self._got_on = False
            self._pending = 0
        elif self._pending > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("Request headers too large.")

    def on_headers_complete(self) -> None:
        headers = self.headers
        if len(headers) > MOST_HEADERS or (self._pending > MOST_HEAD_BYTES and self._head_size() > MOST_HEAD_BYTES):
            raise HeadTooLargeError
        self._got_on = True
        self._heads += 1
        _on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        self._got_on = True
        _on_body(self, body)

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def has_waited(self, now: float) -> float:
        """Seconds since this was first asked while the same request was on its way; 0.0 when none is.

        A request is on its way on a new connection, and from its first byte on a used one: until then
        uvicorn's own timer for idle connections runs. A body still coming after its answer counts as well.
        """
        answered = self.cycle is None or self.cycle.response_complete
        if not answered or self.timeout_keep_alive_task is not None:
            self._waiting_after = -1
        elif self._waiting_after != self._heads:
            self._waiting_after = self._heads
            self._waiting_since = now
        else:
            return now - self._waiting_since
        return 0.0


def _without_upgrade(data: bytes) -> bytes:
    """A request whose offer to go on in another protocol is not seen: some clients make it with every request.

    The parser would stop at such a head and the body would be lost; to leave the offer unanswered is to decline it.
    """
    end = data.find(b"\r\n\r\n")
    head = data if end < 0 else data[: end + 2]
    return _UPGRADE.sub(b"\r\nx-grade", head) + data[len(head) :]
