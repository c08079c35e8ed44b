"""The edge's producer: takes events in a few microseconds, hands them to the broker in batches, never refuses.

Made by ``Bus.producer``. The client costs per request and per future, not per byte, so batches made here every
fifth of a second are several times cheaper than its ``send``.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from libs.core.errors import ConfigError
from libs.core.retry import backoff
from libs.core.settings import KafkaSettings
from libs.events.topics import Keep, Topic
from libs.kafka import telemetry as metrics
from libs.kafka.connection import Connection
from libs.kafka.handover import Handover
from libs.kafka.journal import Journal
from libs.kafka.spool import Event, Segment, Spool, read
from libs.kafka.tasks import end
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.kafka")

# What an event costs in memory beyond its bytes.
_OVERHEAD = 300
_REPLAY_CHUNK = 2_000
# A service is stopped within seconds; what is not confirmed by then is spooled.
_STOP_S = 1.5


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes. A process that is killed loses what it took within ``flush_s`` and what was on its way."""

    # The broker's cost is per hand-over, not per event: at 20 ms it was three times that of 100 ms, and at 100 ms half
    # as much again as at 200.
    flush_s: float = 0.2
    confirm_s: float = 3.0
    queue_bytes: int = 64 * 1024 * 1024
    spool_bytes: int = 1024 * 1024 * 1024
    batch_bytes: int = 256 * 1024
    journal_bytes: int = 64 * 1024 * 1024
    # How long a run has to last until what it sent again counts as handled.
    handled_s: float = 60.0


class Producer:
    """Events in, batches out; what the broker does not confirm is spooled and goes out when it is back.

    While anything is spooled, new events queue up behind it there, so each key keeps its order. A batch that
    timed out may still have arrived: events can come twice, with the same id. Topics whose ``shed`` is 0 are
    never given up; others are, the highest first, when memory or spool are full.

    Where the broker keeps no records, what may not be lost is journalled besides, and what the run before this one
    had sent is sent again.
    """

    def __init__(
        self, settings: KafkaSettings, service: str, telemetry: Telemetry, limits: Limits | None = None
    ) -> None:
        self._limits = limits or Limits()
        self._connection = Connection(settings, confirm_s=self._limits.confirm_s, batch_bytes=self._limits.batch_bytes)
        self._spool = Spool(settings.spool_dir / service)
        journal = Journal(settings.spool_dir / f"{service}.journal", limit_bytes=self._limits.journal_bytes)
        self._journal = None if settings.keeps_records else journal
        self._journalled: set[str] = set()
        self._queues: dict[str, list[Event]] = {}
        self._shed: dict[str, int] = {}
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._spooled = asyncio.Event()
        self._flushing: asyncio.Task[None] | None = None
        self._replaying: asyncio.Task[None] | None = None
        self._repeating: asyncio.Task[None] | None = None
        self._stopping = False
        self._fault: str | None = None
        self._counted = telemetry.metrics.counter(metrics.PRODUCED)
        self._handover = Handover(self._connection, telemetry.metrics.counter(metrics.PRODUCE_FAILURES))
        telemetry.metrics.gauge(metrics.QUEUED, lambda: self._queued_bytes)
        telemetry.metrics.gauge(metrics.SPOOL_BYTES, lambda: self._spool.size_bytes)

    def send(self, topic: Topic, key: str, body: bytes, traceparent: str = "") -> None:
        """Take an event. Never waits, and never fails because broker, disk or memory are short."""
        size = len(body) + _OVERHEAD
        if self._queued_bytes + size > self._limits.queue_bytes and not self._make_room(topic, size):
            self._counted.labels(topic.name, "shed").inc()
            return
        queue = self._queues.get(topic.name)
        if queue is None:
            queue = self._queues[topic.name] = []
            self._shed[topic.name] = topic.shed
            # An old state that came again would hide the present one: tables are filled by their owners.
            if topic.shed == 0 and topic.keep is Keep.TIME:
                self._journalled.add(topic.name)
        queue.append(Event(topic.name, key, body, traceparent, time.time_ns() // 1_000_000))
        self._queued_bytes += size
        if not self._wake.is_set():
            self._wake.set()

    async def start(self) -> None:
        """Take over what earlier runs spooled and begin to connect; raise ConfigError when the spool is unusable."""
        try:
            self._spool.open()
            if self._journal is not None:
                self._journal.open()
        except OSError as error:
            raise ConfigError(f"spool directory: {error}") from error
        if not self._spool.empty:
            self._spooled.set()
        await self._connection.start()
        self._flushing = asyncio.create_task(self._flush_loop(), name="kafka-flush")
        self._replaying = asyncio.create_task(self._replay_loop(), name="kafka-replay")
        if self._journal is not None:
            self._repeating = asyncio.create_task(self._repeat(self._journal), name="kafka-repeat")

    async def stop(self) -> None:
        """Send what is queued, or spool it."""
        self._stopping = True
        self._wake.set()
        if self._flushing is not None:
            await self._flushing
        await end(self._replaying)
        await end(self._repeating)
        await self._connection.stop()
        self._spool.close()
        if self._journal is not None:
            self._journal.close()

    def problem(self) -> str | None:
        """A broker that went away is no reason to refuse requests, since the spool takes over: it is not said here."""
        if any(task is not None and task.done() for task in (self._flushing, self._replaying)):
            return "the producer's task has ended"
        if self._fault is not None:
            return f"events cannot be spooled: {self._fault}"
        return None if self._connection.connected.is_set() else self._connection.problem()

    def _make_room(self, topic: Topic, size: int) -> bool:
        """Give up what is worth less than an event of ``topic``; False when that is the event itself."""
        while self._queued_bytes + size > self._limits.queue_bytes:
            worth_less = [name for name, queue in self._queues.items() if queue and self._shed[name] > topic.shed]
            if not worth_less:
                break
            name = max(worth_less, key=self._shed.__getitem__)
            dropped = self._queues[name][:100]
            del self._queues[name][:100]
            self._queued_bytes -= _size(dropped)
            self._counted.labels(name, "shed").inc(len(dropped))
        if self._queued_bytes + size <= self._limits.queue_bytes:
            return True
        if topic.shed > 0:
            return False
        # Memory is full of what may not be lost, so it goes to the file here and now; when the disk fails too, it
        # stays, and ``problem`` keeps new requests away.
        if self._fault is None:
            taken = self._take()
            self._note_down(taken)
            self._store(taken)
        return True

    def _take(self) -> list[Event]:
        events = [event for queue in self._queues.values() for event in queue]
        for queue in self._queues.values():
            queue.clear()
        self._queued_bytes = 0
        return events

    async def _flush_loop(self) -> None:
        while not self._stopping or self._queued_bytes:
            await self._wake.wait()
            if not self._stopping:
                await asyncio.sleep(self._limits.flush_s)
                self._wake.clear()
            if events := self._take():
                self._note_down(events)
                await self._pass_on(events)
            if self._fault is not None:
                if self._stopping:
                    log.critical("events lost", extra={"reason": self._fault, "count": len(self._take())})
                    return
                await asyncio.sleep(1.0)
                self._wake.set()

    def _note_down(self, events: list[Event]) -> None:
        """Before the broker has them: it may end, and all else with it, between its answer and the next step."""
        if self._journal is not None and (kept := [event for event in events if event.topic in self._journalled]):
            try:
                self._journal.append(kept)
            except OSError as error:
                log.error("journal fails", extra={"reason": str(error)})

    async def _pass_on(self, events: list[Event]) -> None:
        left = events
        try:
            if self._spool.empty:
                within_s = min(_STOP_S, self._limits.confirm_s) if self._stopping else self._limits.confirm_s
                left = await self._handover.deliver(events, within_s)
        except asyncio.CancelledError:
            self._store(events)
            raise
        if len(left) < len(events):
            unsent = set(map(id, left))
            self._count((event for event in events if id(event) not in unsent), "sent")
        if left:
            self._store(left)
            await asyncio.to_thread(self._spool.syncing())

    def _store(self, events: list[Event]) -> None:
        """Append to the spool; when the disk refuses, keep in memory and say so."""
        kept = events
        if self._spool.size_bytes > self._limits.spool_bytes:
            kept = [event for event in events if self._shed[event.topic] == 0]
            self._count([event for event in events if self._shed[event.topic] > 0], "shed")
        try:
            self._spool.append(kept)
        except OSError as error:
            self._fault = str(error)
            log.critical("spool fails", extra={"reason": self._fault})
            for topic, queue in self._queues.items():
                queue[:0] = [event for event in kept if event.topic == topic]
            self._queued_bytes += _size(kept)
        else:
            self._fault = None
            self._count(kept, "spooled")
            self._spooled.set()

    async def _replay_loop(self) -> None:
        waits = backoff(0.2, 2.0)
        while True:
            await self._spooled.wait()
            segment = self._spool.oldest()
            if segment is None:
                self._spooled.clear()
                waits = backoff(0.2, 2.0)
            elif not await self._replay(segment):
                await asyncio.sleep(next(waits))

    async def _replay(self, segment: Segment) -> bool:
        if not await self._send_again(segment):
            return False
        self._spool.discard(segment)
        return True

    async def _repeat(self, journal: Journal) -> None:
        """Send what earlier runs sent; forget it once this run has lasted long enough for its readers."""
        segments = journal.earlier()
        for segment in segments:
            try:
                for wait_s in backoff(0.2, 2.0):
                    if await self._send_again(segment):
                        break
                    await asyncio.sleep(wait_s)
            except OSError as error:
                # Dropped while it waited, because the journal was full.
                log.warning("journal cannot be read", extra={"reason": str(error)})
        await asyncio.sleep(self._limits.handled_s)
        for segment in segments:
            journal.forget(segment)

    async def _send_again(self, segment: Segment) -> bool:
        """Send the events of a file; False when the broker did not confirm all of them."""
        events = await asyncio.to_thread(lambda: list(read(segment)))
        for start in range(0, len(events), _REPLAY_CHUNK):
            chunk = events[start : start + _REPLAY_CHUNK]
            if await self._handover.deliver(chunk, self._limits.confirm_s):
                return False
            self._count(chunk, "replayed")
        return True

    def _count(self, events: Iterable[Event], outcome: str) -> None:
        for topic, number in Counter(event.topic for event in events).items():
            self._counted.labels(topic, outcome).inc(number)


def _size(events: Sequence[Event]) -> int:
    return sum(len(event.body) + _OVERHEAD for event in events)
