"""A private corner of the broker for each Kafka test: topics, service name, bus, and eyes to look with.

Used by every test in this folder.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from libs.core.settings import KafkaSettings, TelemetrySettings
from libs.events.base import EventData, decode, encode, envelope
from libs.events.topics import Keep, Topic, dead_topic, retry_topic
from libs.kafka import Bus, Retry
from libs.kafka.topics import apply
from libs.ops.telemetry import Telemetry


class Happened(EventData):
    """The event the tests send."""

    TYPE: ClassVar[str] = "test.happened.v1"

    number: int
    version: int = 0


def event(number: int, *, version: int = 0, type_: str = Happened.TYPE) -> bytes:
    """A valid event's bytes."""
    made = envelope(Happened(number=number, version=version), source="test", subject="s", now_ms=1_700_000_000_000)
    return encode(type(made)(made.id, type_, made.source, made.subject, made.time, made.data))


def number_of(record: ConsumerRecord) -> int:
    """The number in a record made by ``event``."""
    return int(decode(record.value).data["number"])


async def until(true: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait until something holds; fail when it does not in time."""
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up, "did not happen in time"
        await asyncio.sleep(0.01)


@dataclass
class Corner:
    """One test's own service name and topics on a broker."""

    bootstrap: str
    service: str
    settings: KafkaSettings
    telemetry: Telemetry
    topic: Topic
    table: Topic
    retry: Retry = field(default_factory=lambda: Retry(first_s=0.02, cap_s=0.1, patience_s=0.3, pause_s=0.2))

    def bus(self, **options: Any) -> Bus:
        return Bus(self.settings, self.service, self.telemetry, retry=options.pop("retry", self.retry), **options)

    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = b"k",
        partition: int | None = None,
        topic: str = "",
        headers: Any = (),
    ) -> int:
        """Put a record on the topic as any program might; return its offset."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        try:
            placed = await producer.send_and_wait(
                topic or self.topic.name, value, key, partition=partition, headers=list(headers)
            )
            return int(placed.offset)
        finally:
            await producer.stop()

    async def send_many(
        self, values: Sequence[bytes | None], *, topic: str = "", key: bytes = b"k", partition: int = 0
    ) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await producer.start()
        try:
            for value in values:
                await producer.send(topic or self.topic.name, value, key, partition=partition)
            await producer.flush()
        finally:
            await producer.stop()

    async def records(self, topic: str, *, partitions: int = 1) -> list[ConsumerRecord]:
        """Everything on a topic now."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None, fetch_max_wait_ms=50)
        await consumer.start()
        try:
            wanted = [TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(wanted)
            await consumer.seek_to_beginning(*wanted)
            ends = await consumer.end_offsets(wanted)
            found: list[ConsumerRecord] = []
            while any([await consumer.position(place) < ends[place] for place in wanted]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found.extend(records)
            return found
        finally:
            await consumer.stop()

    async def dead(self) -> list[ConsumerRecord]:
        return await self.records(dead_topic(self.service).name)

    async def committed(self, partition: int = 0, topic: str = "") -> int | None:
        """Where the service's group goes on."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.service, enable_auto_commit=False)
        await consumer.start()
        try:
            place = TopicPartition(topic or self.topic.name, partition)
            consumer.assign([place])
            offset: int | None = await consumer.committed(place)
            return offset
        finally:
            await consumer.stop()

    def lag(self, partition: int = 0) -> float:
        return self.metric("kenari_kafka_consumer_lag", topic=self.topic.name, partition=str(partition))

    def buried(self, error: str) -> float:
        return self.metric("kenari_kafka_consumer_dead_letters_total", topic=self.topic.name, error=error)

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value now; 0 when it was never touched."""
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


async def make_corner(bootstrap: str, directory: Path) -> Corner:
    service = f"t{secrets.token_hex(4)}"
    topic = Topic(f"{service}.things.v1", service, "key", 3, Keep.TIME, 3_600_000, "of a test")
    table = replace(topic, name=f"{service}.table.v1", partitions=1, keep=Keep.LATEST_PER_KEY, retention_ms=-1)
    await apply(bootstrap, [topic, table, dead_topic(service), retry_topic(service)])
    settings = KafkaSettings(
        bootstrap=bootstrap, session_timeout_ms=2_000, fetch_max_wait_ms=100, spool_dir=directory / "spool"
    )
    return Corner(bootstrap, service, settings, Telemetry(service, TelemetrySettings()), topic, table)


@pytest.fixture
async def corner(kafka: str, tmp_path: Path) -> Corner:
    return await make_corner(kafka, tmp_path)


Started = Callable[[Bus], Awaitable[Bus]]


@pytest.fixture
async def started() -> AsyncIterator[Started]:
    """Start a bus and wait until it is ready; stopped after the test."""
    running: list[Bus] = []

    async def start(bus: Bus) -> Bus:
        running.append(bus)
        await bus.start()
        await until(lambda: bus.problem() is None)
        return bus

    yield start
    for bus in running:
        await bus.stop()
