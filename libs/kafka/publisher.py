"""Sends that are over only when the broker has confirmed them: dead letters, outbox rows, heartbeats, replays.

Used inside libs.kafka. The edge's stream of events goes through producer.py instead, which never waits.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata

from libs.core.errors import Transient
from libs.core.settings import KafkaSettings
from libs.kafka.connection import Connection
from libs.kafka.records import Headers


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to send. ``value`` None is a tombstone and needs a key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Publisher:
    """Confirmed by all replicas or not sent, as far as the caller is concerned."""

    def __init__(self, settings: KafkaSettings, *, confirm_s: float = 5.0) -> None:
        self._confirm_s = confirm_s
        self._connection = Connection(settings, confirm_s=confirm_s, batch_bytes=256 * 1024)

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
        sent = await self._hand_over(record)
        try:
            async with asyncio.timeout(self._confirm_s):
                return await sent
        except (TimeoutError, KafkaError) as error:
            raise self._failed(error) from error

    async def publish_in_order(self, records: Sequence[Outgoing]) -> int:
        """Send records and return how many from the front are confirmed.

        Counting stops at the first that is not: sending again from there keeps every key's order and at worst
        repeats records, while skipping it would let a later record of the same key overtake.
        """
        futures: list[asyncio.Future[RecordMetadata]] = []
        with contextlib.suppress(Transient):
            for record in records:
                futures.append(await self._hand_over(record))
        if futures:
            await asyncio.wait(futures, timeout=self._confirm_s)
        confirmed = 0
        for future in futures:
            if not future.done() or future.exception() is not None:
                break
            confirmed += 1
        for future in futures[confirmed:]:
            future.add_done_callback(self._note_failure)
        return confirmed

    async def _hand_over(self, record: Outgoing) -> "asyncio.Future[RecordMetadata]":
        client = self._connection.client
        if client is None:
            raise Transient(self._connection.problem() or "", reason="broker_away")
        try:
            async with asyncio.timeout(self._confirm_s):
                future: asyncio.Future[RecordMetadata] = await client.send(
                    record.topic, record.value, record.key, headers=list(record.headers)
                )
                return future
        except (TimeoutError, KafkaError) as error:
            raise self._failed(error) from error

    def _note_failure(self, future: "asyncio.Future[RecordMetadata]") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> Transient:
        self._connection.failed(error)
        return Transient(f"not confirmed: {type(error).__name__}", reason="broker_away")
