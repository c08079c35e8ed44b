"""Sends that are over only when the broker has confirmed them: dead letters, outbox rows, heartbeats, replays.

Used inside libs.kafka. The edge's stream of events goes through producer.py instead, which never waits.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from libs.core.errors import Transient
from libs.core.settings import KafkaSettings
from libs.kafka.connection import Connection
from libs.kafka.handover import Handover
from libs.kafka.records import Headers


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to send. ``value`` None is a tombstone and needs a key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One row's event to send in its order. ``body`` None is a tombstone."""

    topic: str
    key: str
    body: bytes | None
    traceparent: str
    timestamp_ms: int


class Publisher:
    """Confirmed by all replicas or not sent, as far as the caller is concerned."""

    def __init__(self, settings: KafkaSettings, *, confirm_s: float = 5.0) -> None:
        self._confirm_s = confirm_s
        self._connection = Connection(settings, confirm_s=confirm_s, batch_bytes=256 * 1024)
        # Batches made here cost a sixth of the client's own.
        self._handover = Handover(self._connection)

    async def start(self) -> None:
        await self._connection.start()

    async def stop(self) -> None:
        await self._connection.stop()

    async def connected(self) -> None:
        """Wait until the broker was reached."""
        await self._connection.connected.wait()

    def problem(self) -> str | None:
        return self._connection.problem()

    async def publish(self, record: Outgoing) -> RecordMetadata:
        """Send one record and return where it lies; raise Transient when that is not certain in time."""
        client = self._connection.client
        if client is None:
            raise Transient(self._connection.problem() or "", reason="broker_away")
        try:
            async with asyncio.timeout(self._confirm_s):
                return await client.send_and_wait(record.topic, record.value, record.key, headers=list(record.headers))
        except (TimeoutError, KafkaError) as error:
            self._connection.failed(error)
            raise Transient(f"not confirmed: {type(error).__name__}", reason="broker_away") from error

    async def publish_in_order(self, rows: Sequence[Row]) -> int:
        """Send rows and return how many from the front are confirmed.

        Counting stops at the first that is not: sending again from there keeps every key's order and at worst
        repeats rows, while skipping it would let a later row of the same key overtake.
        """
        unconfirmed = set(map(id, await self._handover.deliver(rows, self._confirm_s)))
        return next((count for count, row in enumerate(rows) if id(row) in unconfirmed), len(rows))
