"""The asking end of a check stream.

Called by the edge, through admission and settlement.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

import grpc

from libs.core.errors import Transient
from libs.core.retry import backoff
from libs.ops.telemetry import Telemetry
from libs.rpc.checks.limits import MOST_ITEM_BYTES, MOST_ITEMS
from libs.rpc.telemetry import CHECK_STREAM_UP, CHECKS_ASKED, CHECKS_WAITING

log = logging.getLogger("kenari.rpc")

MAX_WAITING = 10_000
# How often questions past their deadline are looked for: the most by which their failure can be late.
SWEEP_S = 0.01
# While a message is on its way that nothing has come back for, what is asked waits up to this long to go together:
# under load a message costs more than all that is in it. Nobody waits when nothing is on its way.
GATHER_S = 0.005
# How long a question that nobody waits for may wait for company.
LAZY_S = 0.005
# How long a peer that takes the connection may leave it without a word.
OPEN_S = 5.0


class CheckFailedError(Transient):
    """No answer: ``reason`` is deadline, unavailable, overloaded, too_large or what the peer said."""


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
        # Set unless a message is on its way that nothing has come back for.
        self._heard = asyncio.Event()
        self._lazy: asyncio.TimerHandle | None = None
        self._waiting: dict[int, _Waiting] = {}
        # No deadline of a waiting question is earlier than this.
        self._soonest = math.inf
        self._connected = False
        self._task: asyncio.Task[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        metrics = telemetry.metrics
        self._up = metrics.gauge(CHECK_STREAM_UP).labels(peer)
        metrics.gauge(CHECKS_WAITING).labels(peer).set_function(lambda: len(self._waiting))
        asked = metrics.histogram(CHECKS_ASKED)
        self._answered = asked.labels(peer, "answered")
        self._failed = asked.labels(peer, "failed")

    async def ask(self, kind: str, question: Any, timeout_s: float, traceparent: str = "") -> Any:
        """Return the answer message to ``question`` (the item's field ``kind``); raise CheckFailedError.

        A question is not sent later than its deadline, nor once its asker is cancelled; one that was sent may
        have had its effect all the same.
        """
        return getattr(await self.begin(kind, question, timeout_s, traceparent), kind)

    def begin(
        self, kind: str, question: Any, timeout_s: float, traceparent: str = "", *, lazy: bool = False
    ) -> "asyncio.Future[Any]":
        """Ask without waiting: a future of the reply item, for callers that must not tie the question to a task.

        It fails with CheckFailedError; nobody need look at that. A ``lazy`` question leaves with the next that is
        not, or after LAZY_S.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._connected:
            return self._refused(future, "unavailable")
        if len(self._waiting) >= MAX_WAITING:
            return self._refused(future, "overloaded")
        if timeout_s <= 0:
            return self._refused(future, "deadline")
        number = self._ids = self._ids + 1
        item = self._item_type(id=number, timeout_ms=_whole_ms(timeout_s), traceparent=traceparent, **{kind: question})
        if item.ByteSize() > MOST_ITEM_BYTES:
            return self._refused(future, "too_large")
        now = time.monotonic()
        until = now + timeout_s
        self._waiting[number] = _Waiting(future, now, until)
        if until < self._soonest:
            self._soonest = until
        if self._sweeping is None:
            self._sweeping = loop.call_later(SWEEP_S, self._sweep)
        self._outbox.append(item)
        if not lazy:
            self._wake.set()
        elif self._lazy is None:
            self._lazy = loop.call_later(LAZY_S, self._send_lazy)
        return future

    def _send_lazy(self) -> None:
        self._lazy = None
        if self._outbox:
            self._wake.set()

    async def start(self) -> None:
        """Begin to connect; ``problem`` tells when that has succeeded."""
        self._task = asyncio.create_task(self._keep_open(), name=f"checks-{self._peer}")

    async def stop(self) -> None:
        """Close the stream; what waits fails as unavailable."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._lose_all()
        for timer in (self._sweeping, self._lazy):
            if timer is not None:
                timer.cancel()
        self._sweeping = self._lazy = None

    def problem(self) -> str | None:
        return None if self._connected else f"no check stream to {self._peer}"

    async def _keep_open(self) -> None:
        waits = backoff(0.05, 1.0)
        while True:
            reason = await self._run()
            if self._connected:
                log.warning("check stream lost", extra={"address": self._peer, "reason": reason})
                waits = backoff(0.05, 1.0)
            self._lose_all()
            await asyncio.sleep(next(waits))

    async def _run(self) -> str:
        """Open a stream and use it until either direction ends; return why it did."""
        call = self._method()
        work = [asyncio.create_task(self._read(call)), asyncio.create_task(self._write(call))]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            return _why(done.pop())
        finally:
            for task in work:
                task.cancel()
            call.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _read(self, call: Any) -> None:
        async with asyncio.timeout(OPEN_S):
            opened = await call.read()
        if opened is grpc.aio.EOF:
            return
        self._connected = True
        self._up.set(1)
        log.info("check stream open", extra={"address": self._peer})
        while (replies := await call.read()) is not grpc.aio.EOF:
            self._take(replies.items)

    async def _write(self, call: Any) -> None:
        loop = asyncio.get_running_loop()
        self._heard.set()
        gathered: asyncio.TimerHandle | None = None
        while True:
            await self._wake.wait()
            await self._heard.wait()
            self._wake.clear()
            asked, self._outbox = self._outbox, []
            for start in range(0, len(asked), MOST_ITEMS):
                items = self._still_wanted(asked[start : start + MOST_ITEMS])
                if items:
                    if gathered is not None:
                        gathered.cancel()
                    self._heard.clear()
                    gathered = loop.call_later(GATHER_S, self._heard.set)
                    await call.write(self._batch_type(items=items))

    def _still_wanted(self, asked: list[Any]) -> list[Any]:
        """Without what nobody waits for any more, and with the time that is left for the rest."""
        now = time.monotonic()
        items = []
        for item in asked:
            waiting = self._waiting.get(item.id)
            if waiting is None or waiting.until <= now or waiting.answer.cancelled():
                continue
            if now - waiting.started > 0.001:
                item.timeout_ms = _whole_ms(waiting.until - now)
            items.append(item)
        return items

    def _take(self, replies: Iterable[Any]) -> None:
        self._heard.set()
        now = time.monotonic()
        for reply in replies:
            waiting = self._waiting.pop(reply.id, None)
            if waiting is None or waiting.answer.done():
                continue
            if reply.failure:
                self._fail(waiting, reply.failure, now)
            else:
                waiting.answer.set_result(reply)
                self._answered.observe(now - waiting.started)

    def _refused(self, answer: "asyncio.Future[Any]", reason: str) -> "asyncio.Future[Any]":
        now = time.monotonic()
        self._fail(_Waiting(answer, now, now), reason, now)
        return answer

    def _fail(self, waiting: _Waiting, reason: str, now: float) -> None:
        if not waiting.answer.done():
            waiting.answer.set_exception(CheckFailedError(f"{self._peer} gave no answer: {reason}", reason=reason))
            # Looked at here, so that a caller who does not care about the answer causes no warning.
            waiting.answer.exception()
            self._failed.observe(now - waiting.started)

    def _lose_all(self) -> None:
        self._connected = False
        self._up.set(0)
        self._outbox.clear()
        lost, self._waiting = self._waiting, {}
        self._soonest = math.inf
        now = time.monotonic()
        for waiting in lost.values():
            self._fail(waiting, "unavailable", now)

    def _sweep(self) -> None:
        now = time.monotonic()
        if now >= self._soonest:
            # A cancelled asker leaves its question behind; it goes with the late ones.
            for number in [number for number, waiting in self._waiting.items() if waiting.until <= now]:
                self._fail(self._waiting.pop(number), "deadline", now)
            # While the peer takes nothing, what ran out must not pile up here.
            self._outbox = [item for item in self._outbox if item.id in self._waiting]
            self._soonest = min((waiting.until for waiting in self._waiting.values()), default=math.inf)
        waits = bool(self._waiting)
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep) if waits else None


def _whole_ms(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))


def _why(task: "asyncio.Task[None]") -> str:
    if task.cancelled():
        return "cancelled"
    match task.exception():
        case None:
            return "closed by the peer"
        case grpc.aio.AioRpcError() as error:
            return str(error.code().name)
        case error:
            return f"{type(error).__name__}: {error}"
