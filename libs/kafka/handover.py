"""Hands many events to the broker as ready-made batches, one per partition, and tells which were confirmed.

Called by producer.py with what it collected, and by publisher.py with rows that belong in order.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2
from prometheus_client import Counter

from libs.kafka.connection import Connection
from libs.kafka.errors import error_class
from libs.kafka.records import trace_headers

log = logging.getLogger("kenari.kafka")

# The hash is pure Python at several microseconds a key, and few keys make most of the traffic.
_KEYS_REMEMBERED = 100_000


class Keyed(Protocol):
    """What is sent: an event with its key. ``body`` None is a tombstone."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def body(self) -> bytes | None: ...
    @property
    def traceparent(self) -> str: ...
    @property
    def timestamp_ms(self) -> int: ...


E = TypeVar("E", bound=Keyed)


class Handover:
    """Batches by partition, chosen as all Kafka clients choose it: by the murmur2 hash of the key.

    ``failures`` counts what went wrong, by class of error, for callers that do not say it themselves.
    """

    def __init__(self, connection: Connection, failures: Counter | None = None) -> None:
        self._connection = connection
        self._failures = failures
        self._hashes: dict[str, int] = {}

    async def deliver(self, events: Sequence[E], within_s: float) -> list[E]:
        """Send events; return those not confirmed in time, in order. What timed out may still arrive."""
        client = self._connection.client
        if client is None:
            return list(events)
        until = time.monotonic() + within_s
        batches: list[tuple[list[E], asyncio.Future[Any]]] = []
        try:
            async with asyncio.timeout(within_s):
                for (topic, partition), group in (await self._by_partition(client, events)).items():
                    for builder, members in _batches(client, group):
                        batches.append((members, await client.send_batch(builder, topic, partition=partition)))
        except (TimeoutError, KafkaError) as error:
            self._note(error)
        return await self._unconfirmed(events, batches, until)

    async def _unconfirmed(
        self, events: Sequence[E], batches: "list[tuple[list[E], asyncio.Future[Any]]]", until: float
    ) -> list[E]:
        if batches:
            await asyncio.wait([future for _, future in batches], timeout=max(0.0, until - time.monotonic()))
        confirmed: set[int] = set()
        for members, future in batches:
            if not future.done():
                self._note(TimeoutError())
                future.add_done_callback(_forget_error)
            elif (error := future.exception()) is not None:
                self._note(error)
            else:
                confirmed.update(map(id, members))
        if len(confirmed) == len(events):
            return []
        return [event for event in events if id(event) not in confirmed]

    async def _by_partition(self, client: AIOKafkaProducer, events: Sequence[E]) -> dict[tuple[str, int], list[E]]:
        if len(self._hashes) > _KEYS_REMEMBERED:
            self._hashes.clear()
        counts: dict[str, int] = {}
        groups: dict[tuple[str, int], list[E]] = {}
        for event in events:
            count = counts.get(event.topic)
            if count is None:
                count = counts[event.topic] = len(await client.partitions_for(event.topic))
            hashed = self._hashes.get(event.key)
            if hashed is None:
                hashed = self._hashes[event.key] = murmur2(event.key.encode()) & 0x7FFFFFFF
            groups.setdefault((event.topic, hashed % count), []).append(event)
        return groups

    def _note(self, error: BaseException) -> None:
        if self._failures is not None:
            self._failures.labels(error_class(error)).inc()
        self._connection.failed(error)


def _batches(client: AIOKafkaProducer, events: list[E]) -> Iterator[tuple[Any, list[E]]]:
    """Fill batches in order; a batch that takes no more is followed by a new one."""
    builder, members = client.create_batch(), list[E]()
    for event in events:
        if not _append(builder, event):
            yield builder, members
            builder, members = client.create_batch(), []
            _append(builder, event)
        members.append(event)
    yield builder, members


def _append(builder: Any, event: Keyed) -> bool:
    added = builder.append(
        key=event.key.encode(),
        value=event.body,
        timestamp=event.timestamp_ms,
        headers=trace_headers(event.traceparent),
    )
    return added is not None


def _forget_error(future: "asyncio.Future[Any]") -> None:
    with contextlib.suppress(asyncio.CancelledError):
        future.exception()
