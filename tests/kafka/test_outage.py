"""The broker stops answering, goes away, or is away from the start; PostgreSQL goes away under the relay.

Nothing is lost, nothing is in the way, everything goes on by itself. On a broker and a database of their own.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from deploy.local.brokers import Broker
from libs.kafka import OUTBOX_SQL, Heartbeats, OutboxRelay, Received, put
from libs.kafka.producer import Limits, Producer
from tests.kafka.conftest import Corner, Happened, Started, event, make_corner, number_of, until
from tests.support.stack import Postgres

LONG = pytest.mark.nightly

# What tests wait for; the same tests run with a minute at night.
SHORT_S = 5.0


@pytest.fixture
async def corner(own_broker: Broker, tmp_path: Path) -> Corner:
    return await make_corner(own_broker.address, tmp_path)


@pytest.fixture(params=[SHORT_S, pytest.param(60.0, marks=[LONG, pytest.mark.timeout(300)])])
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.param)


async def start_again(broker: Broker) -> None:
    await asyncio.to_thread(broker.start)


async def test_a_frozen_broker_delays_events_and_loses_none(own_broker: Broker, corner: Corner, seconds: float) -> None:
    producer = Producer(corner.settings, corner.service, corner.telemetry, Limits(confirm_s=1.0))
    await producer.start()
    await until(lambda: producer.problem() is None)
    producer.send(corner.topic, "k", event(0))
    await asyncio.sleep(0.2)
    own_broker.pause()
    slowest = 0.0
    try:
        frozen = time.monotonic()
        count = 1
        while time.monotonic() - frozen < seconds:
            began = time.perf_counter()
            producer.send(corner.topic, "k", event(count))
            slowest = max(slowest, time.perf_counter() - began)
            count += 1
            await asyncio.sleep(0.01)
        assert producer.problem() is None, "an outage is no reason to refuse requests"
    finally:
        own_broker.resume()
    assert slowest < 0.05
    producer.send(corner.topic, "k", event(count))
    await until(lambda: producer._spool.empty, 30)
    await producer.stop()
    numbers = [number_of(record) for record in await corner.records(corner.topic.name, partitions=3)]
    assert set(numbers) == set(range(count + 1))
    firsts = sorted(set(numbers), key=numbers.index)
    assert firsts == sorted(firsts), "what comes twice aside, a key keeps its order"


async def test_a_broker_that_went_away_gets_everything_when_it_is_back(
    own_broker: Broker, corner: Corner, seconds: float
) -> None:
    producer = Producer(corner.settings, corner.service, corner.telemetry, Limits(confirm_s=1.0))
    await producer.start()
    await until(lambda: producer.problem() is None)
    await asyncio.to_thread(own_broker.kill)
    gone = time.monotonic()
    count = 0
    while time.monotonic() - gone < seconds:
        producer.send(corner.topic, "k", event(count))
        count += 1
        await asyncio.sleep(0.01)
    await start_again(own_broker)
    await until(lambda: producer._spool.empty and not producer._queued_bytes, 30)
    await producer.stop()
    numbers = {number_of(record) for record in await corner.records(corner.topic.name, partitions=3)}
    assert numbers == set(range(count))


async def test_consumers_and_tables_go_on_by_themselves(
    own_broker: Broker, corner: Corner, started: Started, seconds: float
) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    beats = Heartbeats(bus, [corner.table], every_s=0.2)
    await beats.start()
    await corner.send(event(1), partition=0)
    await corner.send(event(1), topic=corner.table.name)
    await until(lambda: seen == [1] and table.get("1") is not None and table.age_s() < 1)
    await asyncio.to_thread(own_broker.kill)
    await asyncio.sleep(seconds)
    assert table.get("1") is not None, "it serves what it knows"
    assert table.age_s() > seconds - 1, "and says how old that is"
    await start_again(own_broker)
    await corner.send(event(2), partition=0)
    await corner.send(event(2), topic=corner.table.name, key=b"other")
    await until(lambda: 2 in seen and table.get("2") is not None and table.age_s() < 1, 40)
    await until(lambda: bus.problem() is None, 20)
    await beats.stop()


async def test_a_service_starts_while_the_broker_is_away_and_becomes_ready_when_it_comes(
    own_broker: Broker, corner: Corner
) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    await corner.send(event(1), partition=0)
    await asyncio.to_thread(own_broker.stop)
    bus = corner.bus()
    bus.each(corner.topic, handler)
    bus.table(corner.table, Happened, key=lambda data: str(data.number))
    bus.producer.send(corner.topic, "k", event(2))
    began = time.monotonic()
    await bus.start()
    assert time.monotonic() - began < 1
    await asyncio.sleep(1.5)
    assert bus.problem() is not None
    await start_again(own_broker)
    await until(lambda: bus.problem() is None and sorted(seen) == [1, 2], 40)
    await bus.stop()


async def test_stopping_while_the_broker_is_away_takes_seconds_and_keeps_the_events(
    own_broker: Broker, corner: Corner
) -> None:
    bus = corner.bus()

    async def handler(_: Received) -> None: ...

    bus.each(corner.topic, handler)
    bus.table(corner.table, Happened, key=lambda data: str(data.number))
    assert bus.producer is not None
    await bus.start()
    await until(lambda: bus.problem() is None)
    await asyncio.to_thread(own_broker.kill)
    try:
        bus.producer.send(corner.topic, "k", event(1))
        await asyncio.wait_for(bus.stop(), 10)
    finally:
        await start_again(own_broker)
    assert [path.stat().st_size > 0 for path in corner.settings.spool_dir.rglob("*.spool")] == [True]


@dataclass
class Store:
    pool: Any


@pytest.fixture
async def outbox(own_postgres: Postgres) -> AsyncIterator[Store]:
    pool = await asyncpg.create_pool(await own_postgres.database(), min_size=1, max_size=4, timeout=2)
    await pool.execute(OUTBOX_SQL)
    yield Store(pool)
    pool.terminate()


async def test_the_relay_waits_for_a_broker_and_for_a_database(
    own_broker: Broker, own_postgres: Postgres, corner: Corner, outbox: Store
) -> None:
    async def write(number: int) -> None:
        async with outbox.pool.acquire() as conn:
            await put(conn, corner.topic, "k", event(number))

    def published() -> float:
        return corner.metric("kenari_kafka_outbox_records_total", topic=corner.topic.name)

    relay = OutboxRelay(outbox, corner.settings, corner.telemetry, max_age_s=0.5)
    await relay.start()
    await write(0)
    await until(lambda: published() == 1)
    await asyncio.to_thread(own_broker.kill)
    await write(1)
    await until(lambda: "outbox rows wait" in (relay.problem() or ""), 20)
    await start_again(own_broker)
    await until(lambda: published() == 2, 30)
    await until(lambda: relay.problem() is None)

    await asyncio.to_thread(own_postgres.server.kill)
    await asyncio.sleep(1)
    await asyncio.to_thread(own_postgres.server.start)
    for _ in range(20):
        try:
            await write(2)
            break
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await asyncio.sleep(0.2)
    await until(lambda: published() == 3, 20)
    await relay.stop()
    numbers = [number_of(record) for record in await corner.records(corner.topic.name, partitions=3)]
    assert list(dict.fromkeys(numbers)) == [0, 1, 2]
