"""Outbox and inbox on real PostgreSQL and a real broker: no event is lost, invented or overtaken; effects happen once.

A cursor over ids loses rows that commit late, and two readers with SKIP LOCKED split one key: neither happens here.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from libs.core.errors import Transient
from libs.kafka import INBOX_SQL, OUTBOX_SQL, WATERMARK_SQL, Inbox, OutboxRelay, Received, put
from tests.kafka.conftest import Corner, Happened, Started, event, number_of, until
from tests.support.stack import Postgres

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PLACE = "kenari_kafka_outbox_leader"


@dataclass
class Store:
    """As libs.db gives it: a pool. One per service process."""

    dsn: str
    pool: Any

    async def put(self, corner: Corner, key: str, number: int, **options: Any) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            await put(conn, corner.topic, key, event(number), **options)


@pytest.fixture(params=["plain", "watermark"])
async def store(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[Store]:
    dsn = await postgres.database()
    pool = await asyncpg.create_pool(dsn, min_size=1, max_size=30)
    await pool.execute((OUTBOX_SQL if request.param == "plain" else WATERMARK_SQL) + INBOX_SQL)
    yield Store(dsn, pool)
    await asyncio.wait_for(pool.close(), 10)


@pytest.fixture
async def relays(request: pytest.FixtureRequest, corner: Corner, store: Store) -> AsyncIterator[Any]:
    running: list[OutboxRelay] = []

    async def start(telemetry: Any = None) -> OutboxRelay:
        mode = request.node.callspec.params["store"]
        relay = OutboxRelay(store, corner.settings, telemetry or corner.telemetry, mode=mode)
        running.append(relay)
        await relay.start()
        return relay

    yield start
    for relay in running:
        await relay.stop()


def published(corner: Corner) -> float:
    return corner.metric("kenari_kafka_outbox_records_total", topic=corner.topic.name)


async def test_a_committed_row_is_published_within_milliseconds_and_a_rolled_back_one_never(
    corner: Corner, store: Store, relays: Any
) -> None:
    await relays()
    await until(lambda: corner.metric(PLACE) == 1)
    await store.put(corner, "a", 1, traceparent=TRACE)
    await until(lambda: published(corner) == 1)
    waited = asyncio.get_running_loop().time()
    await store.put(corner, "a", 2)
    await until(lambda: published(corner) == 2)
    assert asyncio.get_running_loop().time() - waited < 0.5, "woken, not polled"
    async with store.pool.acquire() as conn:
        undone = conn.transaction()
        await undone.start()
        await put(conn, corner.topic, "a", event(3))
        await undone.rollback()
    await store.put(corner, "a", 4)
    await until(lambda: published(corner) == 3)
    records = await corner.records(corner.topic.name, partitions=3)
    assert [number_of(record) for record in records] == [1, 2, 4]
    assert records[0].headers == (("traceparent", TRACE.encode()),)
    assert records[1].headers == ()


async def test_a_tombstone_goes_out_as_one(corner: Corner, store: Store, relays: Any) -> None:
    await relays()
    async with store.pool.acquire() as conn:
        await put(conn, corner.table, "k", None)
    await until(lambda: corner.metric("kenari_kafka_outbox_records_total", topic=corner.table.name) == 1)
    (record,) = await corner.records(corner.table.name)
    assert (record.key, record.value) == (b"k", None)


async def test_a_transaction_that_commits_late_is_not_skipped(corner: Corner, store: Store, relays: Any) -> None:
    await relays()
    async with store.pool.acquire() as slow:
        late = slow.transaction()
        await late.start()
        await put(slow, corner.topic, "late", event(1))
        await store.put(corner, "early", 2)
        await asyncio.sleep(0.3)
        await late.commit()
    await until(lambda: published(corner) == 2)
    assert {number_of(r) for r in await corner.records(corner.topic.name, partitions=3)} == {1, 2}


async def test_a_younger_transaction_with_an_older_id_is_not_skipped(corner: Corner, store: Store, relays: Any) -> None:
    await relays()
    async with store.pool.acquire() as first, store.pool.acquire() as second:
        older, younger = first.transaction(), second.transaction()
        for conn, begun in ((first, older), (second, younger)):
            await begun.start()
            await conn.execute("select pg_current_xact_id()")
        # The younger takes its id first and ends last: all that has ended when the other commits is older than it.
        await put(second, corner.topic, "younger", event(1))
        await put(first, corner.topic, "older", event(2))
        await older.commit()
        await asyncio.sleep(0.3)
        await younger.commit()
    await until(lambda: published(corner) == 2)
    assert {number_of(r) for r in await corner.records(corner.topic.name, partitions=3)} == {1, 2}


async def test_many_writers_lose_nothing_and_each_key_keeps_its_order(
    corner: Corner, store: Store, relays: Any
) -> None:
    """Writers of one key take its row first, as the ledger's wallets do; commits come late and out of order."""
    keys, writers, each = 6, 24, 10
    await store.pool.execute("create table turn (key text primary key, next bigint not null default 0)")
    await store.pool.execute("insert into turn (key) select 'k' || g from generate_series(0, $1) g", keys)
    await relays()

    async def write(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(each):
            async with store.pool.acquire() as conn:
                transaction = conn.transaction()
                await transaction.start()
                key = f"k{chance.randrange(keys)}"
                number = await conn.fetchval("update turn set next = next + 1 where key = $1 returning next", key)
                await put(conn, corner.topic, key, event(number))
                await asyncio.sleep(chance.random() / 50)
                if chance.random() < 0.15:
                    await transaction.rollback()
                else:
                    await transaction.commit()

    await asyncio.gather(*(write(seed) for seed in range(writers)))
    rows = await store.pool.fetch("select key, next from turn")
    wanted = {row["key"]: list(range(1, row["next"] + 1)) for row in rows if row["next"]}
    await until(lambda: published(corner) == sum(map(len, wanted.values())))
    found: dict[str, list[int]] = defaultdict(list)
    for record in sorted(await corner.records(corner.topic.name, partitions=3), key=lambda r: (r.partition, r.offset)):
        found[record.key.decode()].append(number_of(record))
    assert found == wanted


async def test_one_relay_works_and_another_takes_over_when_its_connection_is_gone(
    corner: Corner, store: Store, relays: Any, postgres: Postgres
) -> None:
    from libs.core.settings import TelemetrySettings
    from libs.ops.telemetry import Telemetry

    other = Telemetry("other", TelemetrySettings())

    def leaders() -> tuple[float, float]:
        return corner.metric(PLACE), other.registry.get_sample_value(PLACE) or 0.0

    first = await relays()
    await until(lambda: leaders() == (1, 0))
    await relays(other)
    await asyncio.sleep(0.5)
    assert leaders() == (1, 0)
    await store.put(corner, "a", 1)
    await until(lambda: published(corner) == 1)
    first._stopping = True  # it may not compete for the lock it is about to lose
    admin = await asyncpg.connect(postgres.server.dsn())
    await admin.execute(
        "select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database "
        "where l.locktype = 'advisory' and d.datname = $1",
        store.dsn.rsplit("/", 1)[1],
    )
    await admin.close()
    await until(lambda: leaders() == (0, 1))
    await store.put(corner, "a", 2)
    await until(
        lambda: other.registry.get_sample_value("kenari_kafka_outbox_records_total", {"topic": corner.topic.name}) == 1
    )
    assert [number_of(r) for r in await corner.records(corner.topic.name, partitions=3)] == [1, 2]


async def test_a_connection_found_broken_does_not_end_the_relay(
    corner: Corner, store: Store, relays: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that was killed can leave the client in the middle of an operation."""
    broken = 3

    async def refuse(self: Any, *_: Any, **__: Any) -> Any:
        nonlocal broken
        broken -= 1
        if not broken:
            monkeypatch.undo()
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

    monkeypatch.setattr(asyncpg.Connection, "fetchval", refuse)
    await relays()
    await until(lambda: not broken)
    await store.put(corner, "k", 1)

    await until(lambda: published(corner) == 1)


async def test_an_event_too_large_for_any_broker_is_refused_at_once(corner: Corner, store: Store) -> None:
    async with store.pool.acquire() as conn:
        with pytest.raises(ValueError, match="too large"):
            await put(conn, corner.topic, "k", b"x" * 1_000_000)


@pytest.mark.parametrize("store", ["plain"], indirect=True)
async def test_an_event_that_comes_twice_takes_effect_once(corner: Corner, store: Store, started: Started) -> None:
    inbox = Inbox(corner.service)
    await store.pool.execute("create table effect (number int)")
    handled = 0

    async def handler(received: Received) -> None:
        nonlocal handled
        async with store.pool.acquire() as conn, conn.transaction():
            if await inbox.first_time(conn, received):
                await conn.execute("insert into effect values ($1)", received.data(Happened).number)
        handled += 1

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    twice = event(1)
    await corner.send_many([twice, twice, event(2)])
    await until(lambda: handled == 3)
    assert [row[0] for row in await store.pool.fetch("select number from effect order by 1")] == [1, 2]


@pytest.mark.parametrize("store", ["plain"], indirect=True)
async def test_an_effect_that_is_rolled_back_is_not_remembered(corner: Corner, store: Store, started: Started) -> None:
    inbox = Inbox(corner.service)
    await store.pool.execute("create table effect (number int)")
    tries = 0

    async def handler(received: Received) -> None:
        nonlocal tries
        async with store.pool.acquire() as conn, conn.transaction():
            if await inbox.first_time(conn, received):
                await conn.execute("insert into effect values ($1)", received.data(Happened).number)
                tries += 1
                if tries < 3:
                    raise Transient("away")

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(event(5))
    await until(lambda: tries == 3)
    assert await store.pool.fetchval("select count(*) from effect") == 1


@pytest.mark.parametrize("store", ["plain"], indirect=True)
async def test_the_inbox_forgets_after_its_days(store: Store, corner: Corner) -> None:
    async with store.pool.acquire() as conn:
        await conn.execute("insert into inbox values ('c', 'old', now() - interval '20 days'), ('c', 'new', now())")
        await Inbox("c").prune(conn, keep_days=15)
        assert await conn.fetchval("select event_id from inbox") == "new"
