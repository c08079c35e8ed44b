"""A compacted topic as a dict: what a service knows of another's state without asking, and how old that is.

Made by ``Bus.table``. Reads by partition assignment without a group, so nothing is left behind on the broker, and
with the client itself: FastStream's subscriber has no place for "reached the end that was there at the start".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import ConsumerRecord as Record
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from libs.core.retry import backoff
from libs.core.settings import KafkaSettings
from libs.events.base import EventData, Heartbeat, decode
from libs.events.topics import Topic
from libs.kafka import telemetry as metrics
from libs.kafka.tasks import end, within
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.kafka")

_POLL_MS = 1_000
# A broker answers a waiting request as soon as there is a record; without one, asking again and again is all that a
# table costs.
_PATIENT_MS = 5_000
_CLOSE_S = 1.0

T = TypeVar("T", bound=EventData)
Change = Callable[[str, T | None], None]


class Table(Generic[T]):
    """The latest value per key. An older ``version`` never replaces a newer one, whatever order records come in.

    ``problem`` is None once everything that was on the topic at start has been read, and, where the broker keeps no
    records, a heartbeat: its owner sends the first when all rows are there. While the broker is away the table keeps
    its values and its age grows: how old is too old is for the reader to say.
    """

    def __init__(
        self, topic: Topic, model: type[T], key: Callable[[T], str], settings: KafkaSettings, telemetry: Telemetry
    ) -> None:
        if topic.partitions != 1:
            raise ValueError(f"{topic.name}: a table needs one partition, so that its records have one order")
        self._topic = topic
        self._model = model
        self._key = key
        self._settings = settings
        self._rows: dict[str, T] = {}
        # Tombstones carry the record's key only, which need not be the key rows are looked up by.
        self._row_of: dict[bytes, str] = {}
        self._versions: dict[bytes, int] = {}
        self._callbacks: list[Change[T]] = []
        self._newest_ms = 0
        self._next = 0
        self._target: int | None = None
        # Where the broker forgets, a topic may be short because its owner has not filled it yet.
        self._whole = settings.keeps_records
        self._caught_up = False
        self._why = "connecting"
        self._task: asyncio.Task[None] | None = None
        self._counted = telemetry.metrics.counter(metrics.TABLE_RECORDS)
        telemetry.metrics.gauge(metrics.TABLE_AGE).labels(topic.name).set_function(self.age_s)
        telemetry.metrics.gauge(metrics.TABLE_ROWS).labels(topic.name).set_function(lambda: len(self._rows))

    def get(self, key: str) -> T | None:
        return self._rows.get(key)

    def values(self) -> Iterable[T]:
        """All rows; a view that is valid until the next await."""
        return self._rows.values()

    def __len__(self) -> int:
        return len(self._rows)

    def age_s(self) -> float:
        """Seconds since the newest record or heartbeat was written, by its producer's clock; infinite before any."""
        return max(0.0, time.time() - self._newest_ms / 1000) if self._newest_ms else float("inf")

    def on_change(self, callback: Change[T]) -> None:
        """Call with (key, value) after a row changed and (key, None) after it was removed; must not raise."""
        self._callbacks.append(callback)

    async def start(self) -> None:
        """Begin to read; returns at once, also when the broker is away."""
        self._task = asyncio.create_task(self._run(), name=f"kafka-table-{self._topic.name}")

    async def stop(self) -> None:
        await end(self._task)

    def problem(self) -> str | None:
        if self._task is not None and self._task.done():
            return f"{self._topic.name}: the table's task has ended"
        return None if self._caught_up else f"{self._topic.name}: {self._why}"

    async def _run(self) -> None:
        for wait_s in backoff(0.2, 5.0):
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._settings.bootstrap,
                client_id="kenari-table",
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                metadata_max_age_ms=60_000,
                request_timeout_ms=self._settings.request_timeout_ms,
                fetch_max_wait_ms=_wait_ms(self._settings),
            )
            try:
                await self._read(consumer)
            except (KafkaError, OSError) as error:
                self._why = f"cannot read: {type(error).__name__}"
                log.warning("table cannot read", extra={"topic": self._topic.name, "reason": str(error)})
            finally:
                await within(_CLOSE_S, consumer.stop())
            await asyncio.sleep(wait_s)

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        """Read on from where an earlier connection ended, for ever; raises when the client gives up."""
        await consumer.start()
        partition = TopicPartition(self._topic.name, 0)
        consumer.assign([partition])
        begin = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        # A topic that is shorter than what was read of it has been made anew.
        consumer.seek(partition, self._next if begin <= self._next <= end else begin)
        if self._target is None:
            self._target = end
        self._why = f"reading up to offset {self._target}" if self._target else "waiting for its owner"
        while True:
            # Before the poll, since the position can pass the end of a compacted topic without a record.
            if not self._caught_up and self._whole and await consumer.position(partition) >= self._target:
                self._caught_up = True
                log.info("table is complete", extra={"topic": self._topic.name, "count": len(self._rows)})
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    self._next = record.offset + 1
                    self._counted.labels(self._topic.name, self._apply(record)).inc()

    def _apply(self, record: Record) -> str:
        """Take one record in; return what it was, for the metric."""
        key = record.key or b""
        if record.value is None:
            self._newest_ms = max(self._newest_ms, record.timestamp)
            return self._remove(key)
        try:
            event = decode(record.value)
            beat = event.type == Heartbeat.TYPE
            data = None if beat else self._model.model_validate(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, ValidationError):
            # Each reader would dead-letter it again at each start; the owner's fault is counted and said.
            log.error("undecodable", extra={"topic": self._topic.name, "offset": record.offset})
            return "undecodable"
        self._newest_ms = max(self._newest_ms, record.timestamp)
        if data is None:
            self._whole = True
            return "heartbeat"
        return self._put(key, data)

    def _put(self, record_key: bytes, data: T) -> str:
        version = int(getattr(data, "version", 0))
        if version < self._versions.get(record_key, 0):
            return "stale"
        self._versions[record_key] = version
        key = self._key(data)
        before = self._row_of.get(record_key)
        if before is not None and before != key:
            self._rows.pop(before, None)
            self._tell(before, None)
        self._row_of[record_key] = key
        self._rows[key] = data
        self._tell(key, data)
        return "applied"

    def _remove(self, record_key: bytes) -> str:
        # The version stays: a repeated older record must not bring back what was removed.
        key = self._row_of.pop(record_key, None)
        if key is not None:
            self._versions[record_key] += 1
            self._rows.pop(key, None)
            self._tell(key, None)
        return "removed"

    def _tell(self, key: str, value: T | None) -> None:
        for callback in self._callbacks:
            callback(key, value)


def _wait_ms(settings: KafkaSettings) -> int:
    # The broker that keeps no records notices a new one only after half of the wait.
    if not settings.keeps_records:
        return settings.fetch_max_wait_ms
    return max(settings.fetch_max_wait_ms, min(_PATIENT_MS, settings.request_timeout_ms // 2))
