"""A service's connection to Kafka: its handlers, tables and producer as one component.

Made by services/*/app.py, which registers everything before start (no decorators: one screen shows who reads what).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from faststream.kafka import KafkaBroker

from libs.core.settings import KafkaSettings
from libs.events.asyncapi import document
from libs.events.base import EventData, Heartbeat
from libs.events.catalogue import CARRIED
from libs.events.topics import Topic, retry_topic
from libs.kafka import quiet
from libs.kafka.chain import Chain, Handling, Retry
from libs.kafka.dead_letter import DeadLetters
from libs.kafka.producer import Producer
from libs.kafka.publisher import Publisher
from libs.kafka.records import Received, tolerant_parser
from libs.kafka.subscription import Subscription
from libs.kafka.table import Table
from libs.kafka.tasks import end
from libs.ops.telemetry import Telemetry

# FastStream's own logger prints past ours. Its notes repeat what the chain says; a refused commit is worth a line.
_faststream_log = logging.getLogger("kenari.kafka.faststream")
_faststream_log.setLevel(logging.WARNING)

_MEASURE_S = 1.0
# Together with the producer's last flush within a service's grace of ten seconds.
_STOP_S = 5.0

T = TypeVar("T", bound=EventData)


class Bus:
    """All of one service's use of Kafka but its outbox.

    The consumer group is the service's name and reads from the earliest record. A handler says how it failed by
    what it raises: ``Transient`` waits and never loses the record, ``Permanent`` is a dead letter at once,
    anything else is tried three times before. Records can come twice (see inbox.py); per key they come in order.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        service: str,
        telemetry: Telemetry,
        *,
        retry: Retry | None = None,
        max_age_s: float = 600.0,
    ) -> None:
        quiet.install()
        self.settings = settings
        self._service = service
        self._telemetry = telemetry
        self._retry = retry or Retry()
        self._max_age_s = max_age_s
        self._stopping = asyncio.Event()
        self.publisher = Publisher(settings)
        self._producer: Producer | None = None
        self._handlings: dict[str, Handling] = {}
        self._batches: dict[str, int] = {}
        self._gather_ms: dict[str, int] = {}
        self._subscriptions: list[Subscription] = []
        self._tables: list[Table[EventData]] = []
        self._reads: dict[Topic, tuple[type[EventData], ...]] = {}
        self._measuring: asyncio.Task[None] | None = None
        self._broker = KafkaBroker(
            settings.bootstrap,
            client_id=f"kenari-{service}",
            consumer_only=True,
            apply_types=False,
            allow_auto_create_topics=False,
            graceful_timeout=_STOP_S,
            parser=tolerant_parser,
            request_timeout_ms=settings.request_timeout_ms,
            metadata_max_age_ms=60_000,
            logger=_faststream_log,
            log_level=logging.DEBUG,
        )

    def each(
        self, topic: Topic, handler: Callable[[Received], Awaitable[None]], *, types: Sequence[type[EventData]] = ()
    ) -> None:
        """Give the handler one event at a time; its offset is committed before the next.

        ``types`` names the events it knows: others are counted and passed over, and data that does not fit its
        model is a dead letter before the handler sees it.
        """

        async def one(received: list[Received]) -> None:
            (single,) = received
            await handler(single)

        self._register(topic, one, types, max_records=0)

    def batch(
        self,
        topic: Topic,
        handler: Callable[[list[Received]], Awaitable[None]],
        *,
        max_records: int = 500,
        gather_s: float = 0.0,
        types: Sequence[type[EventData]] = (),
    ) -> None:
        """Give the handler what has arrived, up to ``max_records``, possibly of several partitions.

        With ``gather_s`` the broker lets records collect for up to that long: at a low rate each call would
        otherwise bring one record and cost a fetch and a commit.

        Records that cannot be read never reach it. When a call fails by something other than ``Transient``, its
        records are handled one by one, so a single bad one cannot take the others with it.
        """
        self._register(topic, handler, types, max_records=max_records)
        self._gather_ms[topic.name] = int(gather_s * 1000)

    def table(self, topic: Topic, model: type[T], key: Callable[[T], str]) -> Table[T]:
        """Keep the latest event per key of a compacted topic in memory, under ``key(data)``."""
        table = Table(topic, model, key, self.settings, self._telemetry)
        self._tables.append(table)  # type: ignore[arg-type]
        self._reads[topic] = (model, Heartbeat)
        return table

    @property
    def producer(self) -> Producer:
        """The producer that never waits; made when first asked for, so before start."""
        if self._producer is None:
            self._producer = Producer(self.settings, self._service, self._telemetry)
        return self._producer

    def asyncapi(self) -> dict[str, Any]:
        """The AsyncAPI document of this service: what it reads here, and the topics it owns."""
        return document(self._service, self._reads)

    async def start(self) -> None:
        """Start everything registered. Returns at once; ``problem`` says what is still on its way."""
        self._stopping.clear()
        await self.publisher.start()
        if self._producer is not None:
            await self._producer.start()
        for table in self._tables:
            await table.start()
        if self._handlings:
            await self._broker.connect()
            for subscription in self._make_subscriptions():
                await subscription.start()
            self._measuring = asyncio.create_task(self._measure(), name="kafka-measure")

    async def stop(self) -> None:
        """Let handlers finish, commit, leave; then send what is queued or spool it."""
        self._stopping.set()
        await end(self._measuring)
        readers: list[Subscription | Table[EventData]] = [*self._subscriptions, *self._tables]
        try:
            await asyncio.gather(*(reader.stop() for reader in readers))
        finally:
            # Also when there was no time left for the above: here lies what exists nowhere else.
            senders: list[Publisher | Producer] = [self.publisher, *([self._producer] if self._producer else ())]
            await asyncio.gather(*(sender.stop() for sender in senders))

    def problem(self) -> str | None:
        """The first reason not to be ready, with the topic it is about."""
        parts = [*self._subscriptions, *self._tables, *([self._producer] if self._producer else ())]
        if not parts:
            return self.publisher.problem()
        return next((problem for part in parts if (problem := part.problem()) is not None), None)

    def _register(
        self,
        topic: Topic,
        handler: Callable[[list[Received]], Awaitable[None]],
        types: Sequence[type[EventData]],
        *,
        max_records: int,
    ) -> None:
        if topic.name in self._handlings:
            raise ValueError(f"{topic.name} has a handler already")
        self._handlings[topic.name] = Handling(topic, handler, {model.TYPE: model for model in types})
        self._batches[topic.name] = max_records
        self._reads[topic] = tuple(types) or CARRIED.get(topic, ())

    def _make_subscriptions(self) -> list[Subscription]:
        # Dead letters that come back are read beside the first topic: the chain finds their handler by origin.
        extra = [retry_topic(self._service).name]
        dead = DeadLetters(self._service, self.publisher)
        for name in self._handlings:
            chain = Chain(self._handlings, dead, self._retry, self._telemetry, self._stopping)
            self._subscriptions.append(
                Subscription(
                    self._broker,
                    [name, *extra],
                    self._service,
                    chain,
                    self.settings,
                    self._telemetry,
                    retry=self._retry,
                    max_records=self._batches[name] or None,
                    gather_ms=self._gather_ms.get(name, 0),
                    max_age_s=self._max_age_s,
                    stop_s=_STOP_S + 1,
                )
            )
            extra = []
        return self._subscriptions

    async def _measure(self) -> None:
        while True:
            await asyncio.gather(*(subscription.measure() for subscription in self._subscriptions))
            await asyncio.sleep(_MEASURE_S)
