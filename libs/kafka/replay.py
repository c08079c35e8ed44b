"""Gives dead letters another try: ``python -m libs.kafka.replay SERVICE [--max N] [--only TYPE] [--error CLASS]``.

Run by people after the cause is mended. A dead letter goes to ``<service>.retry.v1``, which that service alone
reads, into the same handler with the same inbox: never onto the public topic, where everyone would see it again.
The retry topic is also the memory: what was replayed, when and by whom, so nothing is replayed twice by accident.
"""

import argparse
import asyncio
import getpass
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import ConsumerRecord as Record
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from libs.core.clock import SystemClock, rfc3339
from libs.core.errors import KenariError, Transient
from libs.core.settings import KafkaSettings
from libs.events.base import decode
from libs.events.topics import SERVICES, dead_topic, retry_topic
from libs.kafka.dead_letter import ERROR_CLASS, ERROR_TEXT, origin_of
from libs.kafka.publisher import Outgoing, Publisher
from libs.kafka.records import header_text

# On each record of the retry topic: which dead letter it is about, what was done, by whom, when.
_ABOUT = "dead-replayed-offset"
_ACTION = "dead-replayed-action"
_WHO = "dead-replayed-by"
_WHEN = "dead-replayed-at"

Policy = Literal["stop", "put-back", "drop"]


@dataclass(frozen=True)
class Choice:
    """Which dead letters (``only`` an event type, ``error`` a class), and what to do with one that fails again.

    ``stop``: end there; it is on the dead topic again. ``put-back``: go on; it is on the dead topic again.
    ``drop``: go on; it is there as well, but no replay will take it any more.
    """

    max: int | None = None
    only: str | None = None
    error: str | None = None
    policy: Policy = "stop"
    dry_run: bool = False

    def takes(self, record: Record) -> bool:
        if self.error is not None and header_text(record.headers, ERROR_CLASS) != self.error:
            return False
        return self.only is None or _type_of(record) == self.only


@dataclass
class Result:
    """How many dead letters were chosen, and how their new try went."""

    chosen: int = 0
    handled: int = 0
    failed: int = 0


class Replay:
    """One run over a service's dead letters, one after the other, each awaited before the next.

    ``wait_s``: how long the service may take for one; it has to be running.
    """

    def __init__(self, settings: KafkaSettings, service: str, *, wait_s: float = 60.0) -> None:
        self._service = service
        self._dead = TopicPartition(dead_topic(service).name, 0)
        self._retry = TopicPartition(retry_topic(service).name, 0)
        self._wait_s = wait_s
        self._publisher = Publisher(settings)
        # A fetch that waits for records holds up the next one, which is for another place.
        self._scan, self._peek = (
            AIOKafkaConsumer(bootstrap_servers=settings.bootstrap, group_id=None, fetch_max_wait_ms=50)
            for _ in range(2)
        )
        self._admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)

    async def __aenter__(self) -> "Replay":
        """Connect; raise KafkaError when the broker is away."""
        await self._publisher.start()
        await self._scan.start()
        await self._peek.start()
        await self._admin.start()
        await self._publisher.connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.close()
        await self._peek.stop()
        await self._scan.stop()
        await self._publisher.stop()

    async def run(self, choice: Choice, say: Callable[[str], None] = print) -> Result:
        """Try the chosen dead letters again; raise Transient when the service does not take one in time."""
        result = Result()
        treated = {_offset_of(record) async for record in self._read(self._scan, self._retry, 0)}
        async for record in self._read(self._scan, self._dead, 0):
            if record.offset in treated or not choice.takes(record):
                continue
            if result.chosen == choice.max:
                break
            result.chosen += 1
            say(_line(record))
            if choice.dry_run:
                continue
            again = await self._try_again(record)
            if again is None:
                result.handled += 1
                say("    handled")
                continue
            result.failed += 1
            say(f"    failed again: {header_text(again.headers, ERROR_TEXT)}")
            if choice.policy == "drop":
                await self._publisher.publish(_outgoing(self._retry.topic, again, "drop", None))
            elif choice.policy == "stop":
                break
        return result

    async def _try_again(self, record: Record) -> Record | None:
        """Send a dead letter to its service and wait; return its new dead letter if it failed again."""
        before = await self._end(self._dead)
        placed = await self._publisher.publish(_outgoing(self._retry.topic, record, "replay", record.value))
        give_up = time.monotonic() + self._wait_s
        while (await self._committed()) <= placed.offset:
            if time.monotonic() > give_up:
                raise Transient(f"{self._service} does not take it: is it running, and are its stores?")
            await asyncio.sleep(0.1)
        # The new dead letter is confirmed before the offset moves, so by now it is there or will never be.
        async for found in self._read(self._peek, self._dead, before):
            if origin_of(found) == origin_of(record):
                return found
        return None

    async def _read(self, consumer: AIOKafkaConsumer, place: TopicPartition, start: int) -> AsyncIterator[Record]:
        """The records from an offset up to what is the end now."""
        end = await self._end(place)
        consumer.assign([place])
        consumer.seek(place, max(start, (await consumer.beginning_offsets([place]))[place]))
        while await consumer.position(place) < end:
            for record in (await consumer.getmany(place, timeout_ms=500)).get(place, ()):
                if record.offset >= end:
                    return
                yield record

    async def _end(self, place: TopicPartition) -> int:
        return int((await self._peek.end_offsets([place]))[place])

    async def _committed(self) -> int:
        offsets = await self._admin.list_consumer_group_offsets(self._service, partitions=[self._retry])
        return int(offsets[self._retry].offset)


def _outgoing(topic: str, record: Record, action: str, value: bytes | None) -> Outgoing:
    notes = {
        _ABOUT: str(record.offset),
        _ACTION: action,
        _WHO: f"{getpass.getuser()}@{platform.node()}",
        _WHEN: rfc3339(SystemClock().now_ms()),
    }
    headers = [*record.headers, *((name, text.encode()) for name, text in notes.items())]
    # Without a value the service passes over it: it only notes that this dead letter is dealt with.
    return Outgoing(topic, record.key or b"-" if value is None else record.key, value, headers)


def _offset_of(record: Record) -> int:
    text = header_text(record.headers, _ABOUT)
    return int(text) if text.isdigit() else -1


def _type_of(record: Record) -> str:
    try:
        return decode(record.value or b"").type
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _line(record: Record) -> str:
    topic, partition, offset = origin_of(record)
    why = f"{header_text(record.headers, ERROR_CLASS)}: {header_text(record.headers, ERROR_TEXT)}"
    return f"{record.offset}  {topic}/{partition}@{offset}  {_type_of(record) or 'undecodable'}  {why}"


def _choice(arguments: argparse.Namespace) -> Choice:
    return Choice(arguments.max, arguments.only, arguments.error, arguments.policy, arguments.dry_run)


async def _main(arguments: argparse.Namespace) -> int:
    async with Replay(KafkaSettings(bootstrap=arguments.bootstrap), arguments.service) as replay:
        result = await replay.run(_choice(arguments))
    print(f"{result.chosen} chosen, {result.handled} handled, {result.failed} failed again")
    return 1 if result.failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 when something failed again or could not be done."""
    parser = argparse.ArgumentParser(prog="python -m libs.kafka.replay", description=__doc__)
    parser.add_argument("service", choices=SERVICES)
    parser.add_argument("--bootstrap", default=os.environ.get("KENARI_KAFKA__BOOTSTRAP", "127.0.0.1:9092"))
    parser.add_argument("--max", type=int, help="at most so many")
    parser.add_argument("--only", metavar="TYPE", help="only events of this type")
    parser.add_argument("--error", metavar="CLASS", help="only those that died of this class of error")
    parser.add_argument("--policy", choices=("stop", "put-back", "drop"), default="stop", help="when one fails again")
    parser.add_argument("--dry-run", action="store_true", help="show them and do nothing")
    try:
        return asyncio.run(_main(parser.parse_args(arguments)))
    except (KenariError, KafkaError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
