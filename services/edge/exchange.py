"""One HTTP request and its answer, on plain ASGI: ids, headers, bytes out.

Made by services.edge.http for each hot request; used by the endpoints.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry.trace import Span

from libs.core.ids import uuid7_hex

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")
# Any page may call /v1: keys travel in headers, cookies play no part (contract: Call from a browser).
CORS: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"x-request-id, request-id"),
)
# The dashboard's own: no page of others may read it.
_CLOSED = "/api/"
STREAM_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    # Proxies would otherwise collect or compress the pieces.
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


def _id_headers(path: str, request_id: str, served_id: str) -> tuple[Header, ...]:
    """What every answer carries: its own id, and the one under which what it holds was run and charged."""
    value = request_id.encode()
    ids = ((b"x-request-id", value), (b"request-id", value), (b"x-kenari-request-id", served_id.encode()))
    return ids if path.startswith(_CLOSED) else (*ids, *CORS)


class Exchange:
    """A request being answered. ``status`` is what went out, 0 before that; ``sender`` takes what goes out."""

    __slots__ = ("id_headers", "receive", "request_id", "scope", "sender", "started", "started_ms", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.sender = send
        self.started = time.monotonic()
        self.started_ms = time.time_ns() // 1_000_000
        self.request_id = uuid7_hex()
        self.status = 0
        self.id_headers = _id_headers(scope["path"], self.request_id, self.request_id)

    def header(self, name: bytes) -> str | None:
        """The first value of a header (lower-case name), or None."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return None

    def answers_for(self, request_id: str) -> None:
        """What goes out is the answer to an earlier request."""
        self.id_headers = _id_headers(self.scope["path"], self.request_id, request_id)

    def describe(self, span: Span | None) -> None:
        """Say on the request's span, if it has one, which request this was and what the client was told."""
        if span is not None:
            span.set_attribute("kenari.request_id", self.request_id)
            span.set_attribute("http.response.status_code", self.status)

    async def respond(self, status: int, body: bytes, kind: Header = JSON, extra: tuple[Header, ...] = ()) -> None:
        """Send a whole answer."""
        self.status = status
        headers = (kind, (b"content-length", b"%d" % len(body)), *self.id_headers, *extra)
        await self.sender({"type": "http.response.start", "status": status, "headers": headers})
        await self.sender({"type": "http.response.body", "body": body})

    async def open(self, headers: tuple[Header, ...]) -> None:
        """Send the head of an answer whose body comes in pieces."""
        self.status = 200
        await self.sender({"type": "http.response.start", "status": 200, "headers": (*headers, *self.id_headers)})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body; waits while the client does not read."""
        await self.sender({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """Send the end of the body."""
        await self.sender({"type": "http.response.body", "body": b""})
