"""Reads request bodies within limits of size, time and memory (contract: Errors, Plain-text responses).

Called by the endpoints before they parse anything.
"""

import time
from typing import Any

from libs.core.errors import KenariError
from services.edge.errors import PlainRefusedError
from services.edge.exchange import Exchange
from services.edge.live import Live
from services.edge.settings import BodyLimits


class ClientLeftError(KenariError):
    """The client closed its connection before its body was complete."""

    reason = "client_left"


class BodyReader:
    """Reads bodies. Large ones share a budget of memory, held until their request ends."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits

    async def read(self, exchange: Exchange, live: Live, most_bytes: int | None = None) -> bytes:
        """Return the whole body; raise PlainRefusedError (413, 503) or ClientLeftError.

        ``most_bytes`` is the endpoint's own limit where it is below the edge's.
        A body that stalls is noticed by the ticker, which cancels the task with ``live.ended`` set.
        """
        most = self._limits.max_bytes if most_bytes is None else min(most_bytes, self._limits.max_bytes)
        announced = exchange.header(b"content-length")
        if announced is not None and announced.isdigit():
            self._admit(live, int(announced), most)
        live.body_due = exchange.started + self._limits.stall_s
        message = await exchange.receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            self._admit(live, len(body), most)
        else:
            body = await self._read_on(exchange, live, message, most)
        live.body_due = 0.0
        return body

    async def _read_on(self, exchange: Exchange, live: Live, message: dict[str, Any], most: int) -> bytes:
        ends = exchange.started + self._limits.total_s
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] != "http.request":
                raise ClientLeftError
            part: bytes = message.get("body", b"")
            parts.append(part)
            size += len(part)
            self._admit(live, size, most)
            if not message.get("more_body", False):
                return b"".join(parts)
            live.body_due = min(ends, time.monotonic() + self._limits.stall_s)
            message = await exchange.receive()

    def _admit(self, live: Live, size: int, most: int) -> None:
        if size > most:
            raise PlainRefusedError(413, "request body too large")
        if size > self._limits.large_bytes and not live.hold_body(size, self._limits.large_budget_bytes):
            raise PlainRefusedError(503, "server busy, try again shortly")
