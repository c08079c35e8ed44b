"""What happens to a record between the client and a handler: decode, trace, retry, dead letter, limit.

Called by subscription.py with what FastStream hands over; the same for all handlers of a service.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from aiokafka import ConsumerRecord as Record
from aiokafka import TopicPartition

from libs.core.clock import Clock, SystemClock
from libs.core.errors import Permanent, Transient
from libs.core.retry import backoff
from libs.events.base import EventData, Heartbeat
from libs.events.topics import Topic
from libs.kafka import telemetry as metrics
from libs.kafka.dead_letter import DEAD_SUFFIX, RETRY_SUFFIX, DeadLetters, Limit, origin_of
from libs.kafka.errors import error_class, is_transient, safe_text
from libs.kafka.records import Received, partition_of, read
from libs.kafka.tasks import at_most
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent

log = logging.getLogger("kenari.kafka")

One = Callable[[Received], Awaitable[None]]
Many = Callable[[list[Received]], Awaitable[None]]


@dataclass(frozen=True)
class Retry:
    """How patient a consumer is, in seconds. ``tries`` counts all tries of a record that fails by itself."""

    tries: int = 3
    first_s: float = 0.1
    cap_s: float = 5.0
    # A dependency that is away is waited for in place this long; then the partition rests and others go on.
    patience_s: float = 30.0
    pause_s: float = 5.0
    # What takes longer than this is taken for dead: the group gives its partitions to another.
    longest_s: float = 300.0


@dataclass(frozen=True)
class Handling:
    """One registered handler. With ``types`` others are counted and passed over, and data is checked before."""

    topic: Topic
    handler: Many
    types: Mapping[str, type[EventData]]


@dataclass
class Round:
    """What a round left undone: where each partition has to go on and why; and why to stop, if so."""

    again: dict[TopicPartition, int] = field(default_factory=dict)
    why: str = ""
    stop: str | None = None


@dataclass
class _Item:
    record: Record
    received: Received | None = None
    error: Permanent | None = None
    done: bool = False


class Chain:
    """Runs rounds of records. One instance per consumer: it keeps that consumer's count of dead letters."""

    def __init__(
        self,
        handlings: Mapping[str, Handling],
        dead: DeadLetters,
        retry: Retry,
        telemetry: Telemetry,
        stopping: asyncio.Event,
        clock: Clock | None = None,
    ) -> None:
        self._handlings = handlings
        self._dead = dead
        self._retry = retry
        self._tracing = telemetry.tracing
        self._stopping = stopping
        self._clock = clock or SystemClock()
        self._limit = Limit()
        self._round = Round()
        self._consumed = telemetry.metrics.counter(metrics.CONSUMED)
        for topic in handlings:
            # The first dead letter of a topic must be seen as a rise.
            for outcome in ("handled", "ignored", "dead", "held", "dropped"):
                self._consumed.labels(topic, outcome)
        self._failed = telemetry.metrics.counter(metrics.FAILED)
        self._retried = telemetry.metrics.counter(metrics.RETRIED)
        self._buried = telemetry.metrics.counter(metrics.DEAD)
        self._seconds = telemetry.metrics.histogram(metrics.HANDLER_SECONDS)
        self._batch = telemetry.metrics.histogram(metrics.BATCH)

    async def run(self, records: Sequence[Record]) -> Round:
        """Take records in order and say what has to be read again. Raises nothing but cancellation."""
        self._round = Round()
        items = [self._prepare(record) for record in records]
        good = [item for item in items if item.received is not None]
        for topic, group in itertools.groupby(good, key=lambda item: origin_of(item.record)[0]):
            if not await self._handle(self._handlings[topic], list(group)):
                break
        # Only now, since a good record that waits is read again with everything after it: what was buried
        # before it would be buried once more in each such round.
        await self._bury_bad(items)
        for item in items:
            if not item.done:
                where = partition_of(item.record)
                self._round.again[where] = min(item.record.offset, self._round.again.get(where, item.record.offset))
                self._count(item.record, "held")
        return self._round

    def _prepare(self, record: Record) -> _Item:
        topic = origin_of(record)[0]
        handling = self._handlings.get(topic)
        if record.value is None:
            # A tombstone is for compaction and for tables.
            return self._ignored(record)
        if handling is None:
            return _Item(record, error=Permanent(f"nothing here handles {topic}", reason="no_handler"))
        try:
            received = read(record)
            if received.event_type == Heartbeat.TYPE or (handling.types and received.event_type not in handling.types):
                return self._ignored(record)
            if handling.types:
                received.data(handling.types[received.event_type])
        except Permanent as error:
            return _Item(record, error=error)
        return _Item(record, received)

    def _ignored(self, record: Record) -> _Item:
        self._count(record, "ignored")
        return _Item(record, done=True)

    async def _handle(self, handling: Handling, items: list[_Item]) -> bool:
        """Handle a group in one call, and if that fails for any reason of its own, one by one."""
        if len(items) > 1:
            try:
                await self._patiently(handling.topic.name, lambda: self._call(handling, items))
            except Exception as error:
                if is_transient(error):
                    return self._hold(error)
            else:
                for item in items:
                    self._handled(item)
                return True
        for item in items:
            if not await self._handle_one(handling, item):
                return False
        return True

    async def _handle_one(self, handling: Handling, item: _Item) -> bool:
        first_failed_ms = 0
        waits = backoff(self._retry.first_s, self._retry.cap_s)
        for attempt in itertools.count(1):
            try:
                await self._patiently(handling.topic.name, lambda: self._call(handling, [item]))
            except Exception as error:
                first_failed_ms = first_failed_ms or self._clock.now_ms()
                if is_transient(error):
                    return self._hold(error)
                self._failed.labels(handling.topic.name, error_class(error)).inc()
                if isinstance(error, Permanent) or attempt >= self._retry.tries:
                    return await self._bury(item, error, attempt, first_failed_ms)
                self._retried.labels(handling.topic.name).inc()
                if not await self._sleep(next(waits)):
                    return self._hold(error)
            else:
                self._handled(item)
                return True
        raise AssertionError("unreachable")

    async def _call(self, handling: Handling, items: list[_Item]) -> None:
        received = [item.received for item in items if item.received is not None]
        topic = handling.topic.name
        self._batch.labels(topic).observe(len(received))
        started = time.perf_counter()
        with ExitStack() as spans:
            for one in received:
                if one.traceparent:
                    opened = self._tracing.span(f"{topic} process", parent=one.traceparent, kind="consumer")
                    if spans.enter_context(opened) is not None:
                        one.trace = current_traceparent()
            await handling.handler(received)
        self._seconds.labels(topic).observe(time.perf_counter() - started)

    async def _patiently(self, topic: str, call: Callable[[], Awaitable[None]]) -> None:
        """Call; while a dependency is away, wait and call again for as long as patience lasts. Raises the last."""
        until = time.monotonic() + self._retry.patience_s
        waits = backoff(self._retry.first_s, self._retry.cap_s)
        while True:
            try:
                return await call()
            except Exception as error:
                wait_s = next(waits)
                if is_transient(error) and time.monotonic() + wait_s <= until:
                    self._failed.labels(topic, error_class(error)).inc()
                    if await self._sleep(wait_s):
                        self._retried.labels(topic).inc()
                        continue
                raise

    async def _bury_bad(self, items: list[_Item]) -> None:
        waiting = {partition_of(item.record) for item in items if item.received is not None and not item.done}
        for item in items:
            if item.error is not None and partition_of(item.record) not in waiting and self._round.stop is None:
                self._failed.labels(origin_of(item.record)[0], error_class(item.error)).inc()
                if not await self._bury(item, item.error, 1, self._clock.now_ms()):
                    return

    async def _bury(self, item: _Item, error: Exception, attempts: int, first_failed_ms: int) -> bool:
        """Dead-letter a record; False when the round has to end here."""
        record = item.record
        topic, partition, offset = origin_of(record)
        about = {"topic": topic, "partition": partition, "offset": offset, "attempt": attempts}
        if record.topic.endswith(DEAD_SUFFIX):
            # A dead letter of a dead letter would come back for ever; the record itself stays where it lies.
            log.error("record given up", extra={**about, "reason": safe_text(error)})
            item.done = True
            self._count(record, "dropped")
            return True
        try:
            await self._patiently(topic, lambda: self._dead.bury(record, error, attempts, first_failed_ms))
        except Transient as failure:
            return self._hold(failure)
        item.done = True
        self._count(record, "dead")
        self._buried.labels(topic, error_class(error)).inc()
        log.error("dead letter", extra={**about, "reason": f"{error_class(error)}: {safe_text(error)}"})
        if not record.topic.endswith(RETRY_SUFFIX):
            # What people replay by hand says nothing about the stream.
            self._round.stop = self._limit.dead(partition_of(record))
        return self._round.stop is None

    def _handled(self, item: _Item) -> None:
        item.done = True
        self._limit.good(partition_of(item.record))
        self._count(item.record, "handled")

    def _hold(self, error: BaseException) -> bool:
        self._round.why = f"{error_class(error)}: {safe_text(error)}"
        return False

    def _count(self, record: Record, outcome: str) -> None:
        self._consumed.labels(origin_of(record)[0], outcome).inc()

    async def _sleep(self, seconds: float) -> bool:
        """Wait; False when the service is stopping, so that nothing waits out its patience then."""
        async with at_most(seconds):
            await self._stopping.wait()
        return not self._stopping.is_set()
