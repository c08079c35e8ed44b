"""What every running request has in common: its client may leave, its body may stall, its stream may fall silent.

Used by services.edge.http and the endpoints. One ticker looks after all requests of the process, so that none
needs a task or a timer of its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Literal, Self

from libs.llm.failures import ApiError
from libs.ops.telemetry import Telemetry
from services.edge.exchange import JSON, STREAM_HEADERS, Exchange, Header
from services.edge.settings import Waits
from services.edge.telemetry import BODY_BYTES, LIVE

TICK_S = 0.2
COMMENT = b": keepalive\n\n"
SPACE = b" "

Ended = Literal["client_left", "body_stalled"]


class Live:
    """One running request. ``ended`` tells why the ticker cancelled its task, None if it did not."""

    __slots__ = (
        "_body_bytes",
        "_cycle",
        "_every_s",
        "_filler",
        "_head",
        "_requests",
        "_task",
        "body_due",
        "broken",
        "ended",
        "exchange",
        "filler_due",
        "write_began",
    )

    def __init__(self, requests: "LiveRequests", exchange: Exchange) -> None:
        self._requests = requests
        self._task = asyncio.current_task()
        # uvicorn's receive is a method of the object that knows whether the client is still there. Asking it
        # spares a task per request that would only wait for the disconnect message; a test watches over it.
        self._cycle = exchange.receive.__self__  # type: ignore[attr-defined]
        self._body_bytes = 0
        self._head: tuple[Header, ...] = ()
        self._filler = COMMENT
        self._every_s = 0.0
        self.exchange = exchange
        self.ended: Ended | None = None
        self.body_due = 0.0
        self.broken: Callable[[ApiError], bytes] | None = None
        self.filler_due = 0.0
        self.write_began = 0.0

    def __enter__(self) -> Self:
        self._requests.running.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.running.discard(self)
        self._requests.body_bytes -= self._body_bytes

    def hold_body(self, size: int, budget: int) -> bool:
        """Count this request's body as ``size`` bytes of the budget that all share; False if it has no room."""
        grown = size - self._body_bytes
        if grown > 0:
            if self._requests.body_bytes + grown > budget:
                return False
            self._requests.body_bytes += grown
            self._body_bytes = size
        return True

    @property
    def client_left(self) -> bool:
        """True once the client has closed its connection."""
        return bool(self._cycle.disconnected)

    def check(self, now: float, write_stall_s: float) -> None:
        """Cancel the request's task when nobody waits for it, reads what is sent, or sends the rest of its body."""
        if self.ended is not None or self._task is None:
            return
        if self.client_left:
            self.ended = "client_left"
            self._task.cancel()
        elif self.body_due and now >= self.body_due:
            self.ended = "body_stalled"
            self._task.cancel()
        elif self.write_began and now - self.write_began >= write_stall_s:
            # A client that is there but takes nothing would keep its hold and its provider for ever.
            self.ended = "client_left"
            self._task.cancel()
            self._cycle.transport.abort()

    def absorb_cancel(self) -> bool:
        """In an ``except CancelledError``: True if the ticker asked for it, and the task may go on to its end."""
        if self.ended is None:
            return False
        if self._task is not None:
            self._task.uncancel()
        return True

    def await_stream(self, headers: tuple[Header, ...], broken: Callable[[ApiError], bytes]) -> None:
        """From now on silence is filled with keepalive comments; the first of them opens the stream.

        ``broken`` writes the end of the stream for an error that comes after that.
        """
        self.broken = broken
        self._await((*STREAM_HEADERS, *headers), COMMENT, self._requests.keepalive_s, self._requests.keepalive_s)

    def await_whole(self, headers: tuple[Header, ...]) -> None:
        """From now on a long silence is filled with spaces before the JSON body; the first of them opens the answer."""
        self._await((JSON, *headers), SPACE, self._requests.long_wait_s, self._requests.space_every_s)

    def _await(self, head: tuple[Header, ...], filler: bytes, first_s: float, every_s: float) -> None:
        self._head, self._filler, self._every_s = head, filler, every_s
        self.filler_due = time.monotonic() + first_s

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body, opening the answer if need be; never between the halves of another piece."""
        await self.quiet()
        self.write_began = time.monotonic()
        try:
            if not self.exchange.status:
                await self.exchange.open(self._head)
            await self.exchange.write(chunk)
        finally:
            if self.filler_due:
                self.filler_due = time.monotonic() + self._every_s
            self.write_began = 0.0

    async def fill(self) -> None:
        """Send the filler."""
        await self.write(self._filler)

    async def quiet(self) -> None:
        """Wait until nothing is being sent."""
        while self.write_began:  # noqa: ASYNC110  # as good as never: a lock per request would cost every request
            await asyncio.sleep(0.005)

    async def finish(self, status: int, body: bytes, extra: tuple[Header, ...] = ()) -> None:
        """Send a whole JSON answer; behind spaces already sent, as the rest of their answer."""
        self.filler_due = 0.0
        await self.quiet()
        if self.exchange.status:
            await self.write(body)
            await self.exchange.end()
        else:
            await self.exchange.respond(status, body, extra=extra)


class LiveRequests:
    """All running requests of this process, and the ticker that looks after them."""

    def __init__(self, waits: Waits, telemetry: Telemetry) -> None:
        self._write_stall_s = waits.write_stall_s
        self.running: set[Live] = set()
        self.body_bytes = 0
        self.keepalive_s = waits.keepalive_s
        self.long_wait_s = waits.long_wait_s
        self.space_every_s = waits.space_every_s
        self._ticker: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        telemetry.metrics.gauge(LIVE, value=lambda: len(self.running))
        telemetry.metrics.gauge(BODY_BYTES, value=lambda: self.body_bytes)

    async def start(self) -> None:
        self._ticker = asyncio.create_task(self._tick(), name="live-requests")

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)

    def problem(self) -> str | None:
        return "the ticker has ended" if self._ticker is not None and self._ticker.done() else None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for live in list(self.running):
                live.check(now, self._write_stall_s)
                if live.filler_due and now >= live.filler_due and not live.write_began:
                    self._fill(live)

    def _fill(self, live: Live) -> None:
        # A client that does not read must not hold up the ticker.
        task = asyncio.create_task(live.fill())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
