"""One consumer: a FastStream subscriber, what it is assigned, what it holds back, and whether it is well.

Made by broker.py for each registered handler; runs the chain on what FastStream hands over.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import ConsumerRecord as Record
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from libs.core.clock import Clock, SystemClock
from libs.core.retry import backoff
from libs.core.settings import KafkaSettings
from libs.kafka import telemetry as metrics
from libs.kafka.chain import Chain, Retry, Round
from libs.kafka.progress import Progress
from libs.kafka.records import partition_of, whole_message
from libs.kafka.tasks import end, within
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.kafka")

_REBALANCE_GRACE_S = 60.0
# An empty poll of a batch costs this wait twice in FastStream, so it bounds the delay of a lone record.
_BATCH_WAIT_MS = 50
# Of this much a gathering consumer gets at once, without waiting for more.
_GATHERED_BYTES = 256 * 1024
_RESTARTS = 10


class Subscription(ConsumerRebalanceListener):  # type: ignore[misc]
    """Consumes ``topics`` as one member of ``group``. Offsets move only past what the chain has done with."""

    def __init__(
        self,
        broker: KafkaBroker,
        topics: Sequence[str],
        group: str,
        chain: Chain,
        settings: KafkaSettings,
        telemetry: Telemetry,
        *,
        retry: Retry,
        max_records: int | None,
        gather_ms: int = 0,
        max_age_s: float,
        stop_s: float,
        clock: Clock | None = None,
    ) -> None:
        self.topic = topics[0]
        self._chain = chain
        self._retry = retry
        self._max_age_s = max_age_s
        self._stop_s = stop_s
        self._clock = clock or SystemClock()
        self._progress = Progress()
        self._held: dict[TopicPartition, str] = {}
        self._stopped: str | None = None
        self._why = "connecting"
        self._assigned = False
        self._unassigned_at = time.monotonic()
        self._starting: asyncio.Task[None] | None = None
        self._lag = telemetry.metrics.gauge(metrics.LAG)
        self._oldest = telemetry.metrics.gauge(metrics.OLDEST).labels(self.topic)
        self._stopped_gauge = telemetry.metrics.gauge(metrics.STOPPED).labels(self.topic)
        self._stopped_gauge.set(0)
        self._subscriber = broker.subscriber(
            *topics,
            group_id=group,
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.NACK_ON_ERROR,
            batch=max_records is not None,
            max_records=max_records,
            batch_timeout_ms=max(_BATCH_WAIT_MS, gather_ms // 4),
            session_timeout_ms=settings.session_timeout_ms,
            fetch_max_wait_ms=gather_ms or settings.fetch_max_wait_ms,
            fetch_min_bytes=_GATHERED_BYTES if gather_ms else 1,
            max_poll_interval_ms=int(retry.longest_s * 1000),
            heartbeat_interval_ms=min(1_000, settings.session_timeout_ms // 3),
            listener=self,
            no_reply=True,
            decoder=whole_message,
        )
        self._subscriber(self._on_message)

    async def start(self) -> None:
        """Begin to join the group; returns at once, also when the broker is away."""
        self._starting = asyncio.create_task(self._join(), name=f"kafka-join-{self.topic}")

    async def stop(self) -> None:
        """Finish the record or batch in hand, commit, leave the group."""
        await end(self._starting)
        await self._close()

    def problem(self) -> str | None:
        """Why this consumer is not ready, with its topic; None when it is."""
        if (why := self._problem()) is not None:
            return f"{self.topic}: {why}"
        return None

    async def measure(self) -> None:
        """Bring lag and age up to date; called every second."""
        consumer = self._consumer
        if consumer is None:
            return
        if self._stopped is None and (restarts := len(self._subscriber.tasks) - 1) >= _RESTARTS:
            # What the client itself cannot read (a header's name that is no text) fails before any guard of ours,
            # and FastStream starts its loop again at once, for ever.
            self._stop(f"its consume task failed {restarts} times")
        for partition in consumer.assignment():
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(0.2):
                    position = await consumer.position(partition)
                highwater = consumer.highwater(partition) if partition in consumer.assignment() else None
                if highwater is not None:
                    self._progress.measured(partition, max(0, highwater - position), self._clock.now_ms())
        for partition, lag in self._progress.lags().items():
            self._lag.labels(partition.topic, str(partition.partition)).set(lag)
        self._oldest.set(self._progress.oldest_s(self._clock.now_ms()))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._assigned = False
        self._unassigned_at = time.monotonic()
        self._held.clear()
        for partition in revoked:
            with contextlib.suppress(KeyError):
                self._lag.remove(partition.topic, str(partition.partition))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        # An empty assignment counts: with more processes than partitions some stand by, and are well.
        self._assigned = True
        self._progress.assigned(set(assigned), self._clock.now_ms())
        if self._stopped is not None:
            self._rest(set(assigned))

    @property
    def _consumer(self) -> AIOKafkaConsumer | None:
        return self._subscriber.consumer

    async def _join(self) -> None:
        for wait_s in backoff(0.2, 5.0):
            try:
                await self._subscriber.start()
            except (KafkaError, OSError) as error:
                self._why = f"cannot join: {type(error).__name__}"
                log.warning("consumer cannot start", extra={"topic": self.topic, "reason": str(error)})
                await self._close()
                await asyncio.sleep(wait_s)
            else:
                return

    async def _close(self) -> None:
        # Leaving the group needs the broker; without it the session runs out by itself.
        await within(self._stop_s, self._subscriber.stop())

    async def _on_message(self, message: KafkaMessage) -> None:
        raw = message.raw_message
        records: Sequence[Record] = raw if isinstance(raw, tuple) else (raw,)
        if self._stopped is not None:
            self._settle(records, Round(_firsts(records), self._stopped, self._stopped))
            return
        for record in records:
            self._progress.taken(partition_of(record), record.timestamp)
        try:
            done = await self._chain.run(records)
        except Exception as error:
            # A fault of the chain itself would be read again at once, for ever: it rests like any other.
            log.exception("consumer failed", extra={"topic": self.topic})
            done = Round(_firsts(records), type(error).__name__)
        self._settle(records, done)

    def _settle(self, records: Sequence[Record], done: Round) -> None:
        """Move each partition to where it goes on. FastStream commits these positions when we return."""
        consumer = self._consumer
        assignment = consumer.assignment() if consumer is not None else frozenset()
        for record in records:
            partition = partition_of(record)
            if partition not in done.again:
                self._held.pop(partition, None)
                self._progress.finished(partition, record.timestamp)
        resting = {partition for partition in done.again if partition in assignment}
        if consumer is not None:
            for partition in resting:
                consumer.seek(partition, done.again[partition])
        if done.stop is not None:
            self._stop(done.stop)
        elif resting:
            log.warning("waiting", extra={"topic": self.topic, "count": len(resting), "reason": done.why})
            self._held.update(dict.fromkeys(resting, done.why))
            self._rest(resting)
            asyncio.get_running_loop().call_later(self._retry.pause_s, self._resume, resting)

    def _stop(self, why: str) -> None:
        """Touch nothing more until people have looked and started the service again."""
        if self._stopped is None:
            log.critical("consumer stopped", extra={"topic": self.topic, "reason": why})
        self._stopped = why
        self._stopped_gauge.set(1)
        if self._consumer is not None:
            self._rest(set(self._consumer.assignment()))

    def _rest(self, partitions: set[TopicPartition]) -> None:
        if self._consumer is not None:
            self._consumer.pause(*partitions)

    def _resume(self, partitions: set[TopicPartition]) -> None:
        if self._consumer is not None and self._stopped is None:
            self._consumer.resume(*(partitions & set(self._consumer.assignment())))

    def _problem(self) -> str | None:
        if self._stopped is not None:
            return f"stopped after {self._stopped}"
        if self._starting is None or not self._starting.done():
            return self._why
        if all(task.done() for task in self._subscriber.tasks):
            return "its consume task has ended"
        if self._held:
            return f"waiting: {next(iter(self._held.values()))}"
        if not self._assigned and (away_s := time.monotonic() - self._unassigned_at) > _REBALANCE_GRACE_S:
            return f"no partitions assigned for {away_s:.0f} s"
        if (oldest_s := self._progress.oldest_s(self._clock.now_ms())) > self._max_age_s:
            return f"the oldest record waits for {oldest_s:.0f} s"
        return None


def _firsts(records: Sequence[Record]) -> dict[TopicPartition, int]:
    """The first offset of each partition among the records."""
    firsts: dict[TopicPartition, int] = {}
    for record in records:
        firsts.setdefault(partition_of(record), record.offset)
    return firsts
