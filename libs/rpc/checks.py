"""Per-request questions on one long-lived stream: everything asked in one loop turn travels in one message.

CheckClient is used by the edge, CheckServer by limiter, router and ledger. Measured, this costs about a
twentieth of unary calls. Messages are the ``CheckBatch``/``CheckReplies`` of each service's proto: items with
an id, a time limit, a trace context and one question or answer. Answers come in any order. A broken stream
fails what waits on it as "unavailable", that is: outcome unknown, safe to ask again under the same request id.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc

from libs.core.errors import Transient
from libs.core.retry import backoff
from libs.ops.telemetry import Telemetry
from libs.rpc.telemetry import CHECK_BATCH, CHECK_STREAM_UP, CHECKS_ASKED, CHECKS_SERVED, CHECKS_WAITING

log = logging.getLogger("kenari.rpc")

MAX_WAITING = 10_000
# How often questions past their deadline are looked for: the most by which an answer to them can be late.
SWEEP_S = 0.02


class CheckFailedError(Transient):
    """No answer: ``reason`` is deadline, unavailable, overloaded or what the peer said."""


class _Waiting:
    __slots__ = ("answer", "started", "until")

    def __init__(self, answer: "asyncio.Future[Any]", started: float, until: float) -> None:
        self.answer = answer
        self.started = started
        self.until = until


class CheckClient:
    """Asks questions of one peer over one stream, which it keeps open and reopens with jitter."""

    def __init__(
        self, peer: str, method: Callable[..., Any], batch_type: Any, item_type: Any, telemetry: Telemetry
    ) -> None:
        self._peer = peer
        self._method = method
        self._batch_type = batch_type
        self._item_type = item_type
        self._ids = 0
        self._outbox: list[Any] = []
        self._wake = asyncio.Event()
        self._waiting: dict[int, _Waiting] = {}
        self._connected = False
        self._task: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        metrics = telemetry.metrics
        self._up = metrics.gauge(CHECK_STREAM_UP).labels(peer)
        metrics.gauge(CHECKS_WAITING).labels(peer).set_function(lambda: len(self._waiting))
        asked = metrics.histogram(CHECKS_ASKED)
        self._answered = asked.labels(peer, "answered")
        self._failed = asked.labels(peer, "failed")

    async def ask(self, kind: str, question: Any, timeout_s: float, traceparent: str = "") -> Any:
        """Return the answer message to ``question`` (the item's field ``kind``); raise CheckFailedError.

        A question is not sent later than its deadline; one that was sent may have had its effect all the same.
        """
        return getattr(await self.begin(kind, question, timeout_s, traceparent), kind)

    def begin(self, kind: str, question: Any, timeout_s: float, traceparent: str = "") -> "asyncio.Future[Any]":
        """Ask without waiting: a future of the reply item, for callers that must not tie the question to a task."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self._connected:
            future.set_exception(CheckFailedError(f"no connection to {self._peer}", reason="unavailable"))
            return future
        if len(self._waiting) >= MAX_WAITING:
            future.set_exception(CheckFailedError(f"too many questions wait for {self._peer}", reason="overloaded"))
            return future
        self._ids += 1
        item = self._item_type(id=self._ids, timeout_ms=int(timeout_s * 1000), **{kind: question})
        if traceparent:
            item.traceparent = traceparent
        now = time.monotonic()
        self._waiting[self._ids] = _Waiting(future, now, now + timeout_s)
        if not self._outbox:
            self._wake.set()
        self._outbox.append(item)
        return future

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep_open(), name=f"checks-{self._peer}")
        self._sweeper = asyncio.create_task(self._sweep(), name=f"checks-{self._peer}-sweep")

    async def stop(self) -> None:
        for task in (self._task, self._sweeper):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._fail_all("unavailable")

    def problem(self) -> str | None:
        return None if self._connected else f"no check stream to {self._peer}"

    async def _keep_open(self) -> None:
        waits = backoff(0.05, 1.0)
        while True:
            try:
                await self._run()
                waits = backoff(0.05, 1.0)
            except grpc.aio.AioRpcError as error:
                log.info("check stream lost", extra={"address": self._peer, "reason": error.code().name})
            finally:
                self._connected = False
                self._up.set(0)
                self._outbox.clear()
                self._fail_all("unavailable")
            await asyncio.sleep(next(waits))

    async def _run(self) -> None:
        call = self._method()
        # An empty message opens the stream at once; the server answers it with an empty one.
        await call.write(self._batch_type())
        if await call.read() is grpc.aio.EOF:
            return
        self._connected = True
        self._up.set(1)
        writer = asyncio.create_task(self._write(call))
        try:
            while True:
                replies = await call.read()
                if replies is grpc.aio.EOF:
                    return
                self._take(replies.items)
        finally:
            writer.cancel()
            call.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, call: Any) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            now = time.monotonic()
            items = [item for item in self._outbox if self._still_wanted(item.id, now)]
            self._outbox = []
            if items:
                await call.write(self._batch_type(items=items))

    def _still_wanted(self, number: int, now: float) -> bool:
        waiting = self._waiting.get(number)
        return waiting is not None and waiting.until > now

    def _take(self, replies: Iterable[Any]) -> None:
        now = time.monotonic()
        for reply in replies:
            waiting = self._waiting.pop(reply.id, None)
            if waiting is None or waiting.answer.done():
                continue
            if reply.failure:
                waiting.answer.set_exception(CheckFailedError(f"{self._peer}: {reply.failure}", reason=reply.failure))
                self._failed.observe(now - waiting.started)
            else:
                waiting.answer.set_result(reply)
                self._answered.observe(now - waiting.started)

    def _fail(self, number: int, message: str, reason: str) -> None:
        waiting = self._waiting.pop(number)
        if not waiting.answer.done():
            waiting.answer.set_exception(CheckFailedError(f"{self._peer} {message}", reason=reason))
            self._failed.observe(time.monotonic() - waiting.started)

    def _fail_all(self, reason: str) -> None:
        for number in list(self._waiting):
            self._fail(number, f"is {reason}", reason)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            # A cancelled asker leaves its question behind; it goes with the late ones.
            for number in [number for number, waiting in self._waiting.items() if waiting.until <= now]:
                self._fail(number, "did not answer in time", "deadline")


class Ask:
    """One question as the server sees it: answer it or fail it, at most once, whenever ready."""

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
        self.done = True
        self._replies.add(id=self._id, **{self.kind: message})

    def fail(self, reason: str) -> None:
        """Say why there is no answer."""
        self.done = True
        self._replies.add(id=self._id, failure=reason)


class _Replies:
    """Collects the answers of one stream; the writer takes what a loop turn brought."""

    def __init__(self, reply_type: Any) -> None:
        self._reply_type = reply_type
        self._items: list[Any] = []
        self.wake = asyncio.Event()

    def add(self, **fields: Any) -> None:
        if not self._items:
            self.wake.set()
        self._items.append(self._reply_type(**fields))

    def take(self) -> list[Any]:
        self.wake.clear()
        items, self._items = self._items, []
        return items


Handle = Callable[[list[Ask]], Awaitable[None]]


class CheckServer:
    """Serves check streams: ``handle`` gets all questions of one received message and answers each when it can.

    At most ``max_in_flight`` messages of one stream are being handled; then reading pauses, which slows the
    asker. An exception in ``handle`` fails the questions of its message that have no answer yet as "internal".
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
        writer = asyncio.create_task(self._write(replies, context))
        tasks: set[asyncio.Task[None]] = set()
        room = asyncio.Semaphore(self._max_in_flight)
        try:
            while True:
                batch = await context.read()
                if batch is grpc.aio.EOF:
                    return
                if not batch.items:
                    await context.write(self._replies_type())
                    continue
                await room.acquire()
                task = asyncio.create_task(self._guarded(self._asks(batch, replies)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda _: room.release())
        finally:
            writer.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(writer, *tasks, return_exceptions=True)

    def _asks(self, batch: Any, replies: _Replies) -> list[Ask]:
        now = time.monotonic()
        self._batch.observe(len(batch.items))
        asks = []
        for item in batch.items:
            kind = item.WhichOneof("question")
            until = now + item.timeout_ms / 1000
            if kind is None:
                replies.add(id=item.id, failure="unknown_question")
                continue
            asks.append(Ask(replies, item.id, kind, getattr(item, kind), until, item.traceparent))
            self._served.labels(kind).inc()
        return asks

    async def _guarded(self, asks: list[Ask]) -> None:
        try:
            await self._handle(asks)
        except Exception:
            # The outermost guard of this message: the stream and its other questions go on.
            log.exception("questions failed", extra={"count": len(asks)})
            for ask in asks:
                if not ask.done:
                    ask.fail("internal")

    async def _write(self, replies: _Replies, context: Any) -> None:
        while True:
            await replies.wake.wait()
            items = replies.take()
            if items:
                await context.write(self._replies_type(items=items))
