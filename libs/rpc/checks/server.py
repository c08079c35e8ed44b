"""The answering end of check streams.

Called by the rpc.py of limiter, router and ledger.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from libs.ops.telemetry import Telemetry
from libs.rpc.checks.limits import MOST_ITEMS
from libs.rpc.telemetry import CHECK_BATCH, CHECKS_SERVED

log = logging.getLogger("kenari.rpc")

# What is being answered when a stream ends may go on this long; within the server's own grace.
DRAIN_S = 3.0


class Ask:
    """One question as the server sees it: answer it or fail it, whenever ready. Only the first of these counts."""

    __slots__ = ("_id", "_replies", "_until", "done", "kind", "question", "traceparent")

    def __init__(self, replies: "_Replies", number: int, kind: str, question: Any, until: float, trace: str) -> None:
        self._replies = replies
        self._id = number
        self._until = until
        self.done = False
        self.kind = kind
        self.question = question
        self.traceparent = trace

    def expired(self) -> bool:
        """True when nobody waits for the answer any more."""
        return time.monotonic() >= self._until

    def answer(self, message: Any) -> None:
        """Send the answer of this kind."""
        if not self.done:
            self.done = True
            self._replies.add(id=self._id, **{self.kind: message})

    def fail(self, reason: str) -> None:
        """Say why there is no answer."""
        if not self.done:
            self.done = True
            self._replies.add(id=self._id, failure=reason)


class _Replies:
    """Collects the answers of one stream; the writer takes what a loop turn brought."""

    def __init__(self, reply_type: Any) -> None:
        self._reply_type = reply_type
        self._items: list[Any] = []
        self._wake = asyncio.Event()
        self._complete = False

    def add(self, **fields: Any) -> None:
        if not self._items:
            self._wake.set()
        self._items.append(self._reply_type(**fields))

    def complete(self) -> None:
        """No more will be added."""
        self._complete = True
        self._wake.set()

    async def take(self) -> list[Any]:
        """What is there, as soon as there is something; nothing once all is taken."""
        if not self._items and not self._complete:
            await self._wake.wait()
        self._wake.clear()
        items, self._items = self._items, []
        return items


def _cancel(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()


Handle = Callable[[list[Ask]], Awaitable[None]]


class CheckServer:
    """Serves check streams: ``handle`` gets all questions of one received message and answers each when it can.

    At most ``max_in_flight`` messages of one stream are being handled; then reading pauses, which slows the
    asker. An exception in ``handle`` fails the questions of its message that have no answer yet as "internal".
    When a stream ends, what is being handled is finished all the same, and sent if there is still an asker.
    """

    def __init__(
        self, replies_type: Any, reply_type: Any, handle: Handle, telemetry: Telemetry, *, max_in_flight: int = 256
    ) -> None:
        self._replies_type = replies_type
        self._reply_type = reply_type
        self._handle = handle
        self._max_in_flight = max_in_flight
        self._served = telemetry.metrics.counter(CHECKS_SERVED)
        self._batch = telemetry.metrics.histogram(CHECK_BATCH)

    async def serve(self, requests: AsyncIterator[Any], context: Any) -> None:
        """Body of a servicer's ``CheckStream``."""
        del requests  # read() costs less per message than iterating
        replies = _Replies(self._reply_type)
        handling: set[asyncio.Task[None]] = set()
        reading = asyncio.create_task(self._read(context, replies, handling))
        writing = asyncio.create_task(self._write(context, replies))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            # A vanished asker ends the stream twice: by its silence, then by a cancellation, which must not reach them.
            too_long = asyncio.get_running_loop().call_later(DRAIN_S, _cancel, handling)
            try:
                if handling:
                    await asyncio.wait(handling)
                too_long.cancel()
                replies.complete()
                await asyncio.wait({writing}, timeout=1.0)
            finally:
                writing.cancel()
                ended = await asyncio.gather(reading, writing, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _read(self, context: Any, replies: _Replies, handling: "set[asyncio.Task[None]]") -> None:
        room = asyncio.Semaphore(self._max_in_flight)

        def handled(task: "asyncio.Task[None]") -> None:
            handling.discard(task)
            room.release()

        while (batch := await context.read()) is not grpc.aio.EOF:
            await room.acquire()
            task = asyncio.create_task(self._guarded(self._asks(batch, replies)))
            handling.add(task)
            task.add_done_callback(handled)

    def _asks(self, batch: Any, replies: _Replies) -> list[Ask]:
        now = time.monotonic()
        asks = []
        kinds: dict[str, int] = {}
        for item in batch.items:
            kind = item.WhichOneof("question")
            if kind is None:
                replies.add(id=item.id, failure="unknown_question")
                continue
            until = now + item.timeout_ms / 1000
            asks.append(Ask(replies, item.id, kind, getattr(item, kind), until, item.traceparent))
            kinds[kind] = kinds.get(kind, 0) + 1
        self._batch.observe(len(batch.items))
        for kind, count in kinds.items():
            self._served.labels(kind).inc(count)
        return asks

    async def _guarded(self, asks: list[Ask]) -> None:
        try:
            await self._handle(asks)
        except Exception:
            # The outermost guard of this message: the stream and its other questions go on.
            log.exception("questions failed", extra={"count": len(asks)})
            for ask in asks:
                ask.fail("internal")

    async def _write(self, context: Any, replies: _Replies) -> None:
        # Tells the asker at once that it is being heard.
        await context.write(self._replies_type())
        while items := await replies.take():
            for start in range(0, len(items), MOST_ITEMS):
                await context.write(self._replies_type(items=items[start : start + MOST_ITEMS]))
