"""Events that must agree with rows: written in the same transaction, published afterwards by a relay.

Services put ``OUTBOX_SQL`` (or, for a log that is kept, ``WATERMARK_SQL``) into their migration, call ``put``
inside their transactions, and add one ``OutboxRelay`` in app.py. A row may be published twice, after a crash
between confirmation and note: readers do not mind (inbox.py).
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from typing import Any, Literal, Protocol

import asyncpg

from libs.core.errors import Transient
from libs.core.retry import backoff
from libs.core.settings import KafkaSettings
from libs.events.topics import Topic
from libs.kafka import telemetry as metrics
from libs.kafka.errors import error_class
from libs.kafka.publisher import Publisher, Row
from libs.kafka.tasks import at_most
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.kafka")

CHANNEL = "outbox"

OUTBOX_SQL = """
create table outbox (
    id bigint generated always as identity primary key,
    topic text not null,
    key text not null,
    body bytea,
    traceparent text not null default '',
    at timestamptz not null default now()
);
"""

# The same as a log that is read along and whose old partitions somebody else drops. ``xid`` comes before ``id``, so
# that a transaction has its number before it takes an id: the relay relies on it.
WATERMARK_SQL = """
create table outbox (
    xid xid8 not null default pg_current_xact_id(),
    id bigint generated always as identity,
    topic text not null,
    key text not null,
    body bytea,
    traceparent text not null default '',
    at timestamptz not null default now()
);
create index outbox_order on outbox (id);
create table outbox_cursor (
    only_one boolean primary key default true check (only_one),
    id bigint not null default 0
);
insert into outbox_cursor default values;
"""

# A row the broker would refuse for its size would stop all rows behind it.
LARGEST = 900_000

_PUT = f"""
with put as (
    insert into outbox (topic, key, body, traceparent)
    -- The transaction's number comes before the row's id: the relay's fence knows running transactions by theirs.
    select $1, $2, $3, $4 where pg_current_xact_id() is not null
)
select pg_notify('{CHANNEL}', '')
"""


async def put(conn: asyncpg.Connection, topic: Topic, key: str, body: bytes | None, traceparent: str = "") -> None:
    """Add an event to the caller's transaction; ``body`` None takes the key off a compacted topic.

    Raises ValueError for a body that no broker takes.
    """
    if body is not None and len(body) > LARGEST:
        raise ValueError(f"an event of {len(body)} bytes is too large for {topic.name}")
    await conn.execute(_PUT, topic.name, key, body, traceparent)


# Any number that nothing else in a service's own database locks.
_LOCK = 0x6F7574626F78
_POLL_S = 1.0
_QUERY_S = 10.0
_ROWS = 500
# How long the transactions that are open when rows are looked for mostly last.
_SOON_S = 0.005


# A backend that is killed can surface as nearly anything in the client.
FAILURES = (
    OSError,
    TimeoutError,
    Transient,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class Database(Protocol):
    """What the relay needs of libs.db: the pool, or Transient while there is none. It keeps one connection."""

    @property
    def pool(self) -> Any: ...


class _Reader(Protocol):
    """How rows are found and noted as published."""

    oldest: str

    async def next(self, conn: Any) -> list[asyncpg.Record] | None:
        """The next rows to publish; None when it has to be asked again soon."""

    async def note(self, conn: Any, rows: list[asyncpg.Record]) -> None: ...


class _Plain:
    """Rows by id, deleted when published. There is no cursor, so a row that commits late is found all the same."""

    oldest = "select extract(epoch from now() - min(at))::float8 from outbox"

    async def next(self, conn: Any) -> list[asyncpg.Record] | None:
        query = "select id, topic, key, body, traceparent from outbox order by id limit $1"
        rows: list[asyncpg.Record] = await conn.fetch(query, _ROWS, timeout=_QUERY_S)
        return rows

    async def note(self, conn: Any, rows: list[asyncpg.Record]) -> None:
        published = [row["id"] for row in rows]
        await conn.execute("delete from outbox where id = any($1::bigint[])", published, timeout=_QUERY_S)


class _Watermark:
    """Rows by id up to a fence, once every transaction that may hold an id below the fence has ended.

    A cursor over ids alone skips rows that commit late. A cursor over (transaction, id) skips none, but gives two
    rows of one key in the order in which their transactions began, which need not be that of their locks. Ids are
    taken under the key's lock, so their order is right; and a transaction that holds a lock on a row, or wrote one,
    has its number before it takes an id, which the fence relies on.
    """

    oldest = """
        select extract(epoch from now() - min(o.at))::float8 from outbox o, outbox_cursor c where o.id > c.id
    """

    def __init__(self) -> None:
        # The last id given out, and a transaction that began after that.
        self._fence: tuple[int, int] | None = None

    async def next(self, conn: Any) -> list[asyncpg.Record] | None:
        if self._fence is None:
            # In this order and in two statements: whoever takes an id later has begun later or is still running. The
            # end of a snapshot would not do for the second: it lies behind the last that ended, not the last begun.
            last = await conn.fetchval(
                "select coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox', 'id')::regclass), 0)",
                timeout=_QUERY_S,
            )
            self._fence = last, int(await conn.fetchval("select pg_current_xact_id()::text", timeout=_QUERY_S))
        last, began_after = self._fence
        oldest_running = "select pg_snapshot_xmin(pg_current_snapshot())::text"
        if int(await conn.fetchval(oldest_running, timeout=_QUERY_S)) < began_after:
            return None
        rows: list[asyncpg.Record] = await conn.fetch(
            "select o.id, o.topic, o.key, o.body, o.traceparent from outbox o, outbox_cursor c "
            "where o.id > c.id and o.id <= $1 order by o.id limit $2",
            last, _ROWS, timeout=_QUERY_S,
        )  # fmt: skip
        if len(rows) < _ROWS:
            self._fence = None
        return rows

    async def note(self, conn: Any, rows: list[asyncpg.Record]) -> None:
        await conn.execute("update outbox_cursor set id = $1", rows[-1]["id"], timeout=_QUERY_S)


class OutboxRelay:
    """Elected by an advisory lock on the very connection it reads with: no connection, no lock, no reading.

    Woken by NOTIFY, else every second. Waits out a broker or a database that is away, for ever.
    """

    def __init__(
        self,
        database: Database,
        settings: KafkaSettings,
        telemetry: Telemetry,
        *,
        mode: Literal["plain", "watermark"] = "plain",
        max_age_s: float = 600.0,
    ) -> None:
        self._database = database
        self._reader: _Reader = _Plain() if mode == "plain" else _Watermark()
        self._publisher = Publisher(settings)
        self._max_age_s = max_age_s
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._why: str | None = "starting"
        self._oldest_s = 0.0
        self._tracing = telemetry.tracing
        self._sent = telemetry.metrics.counter(metrics.OUTBOX_SENT)
        self._failures = telemetry.metrics.counter(metrics.OUTBOX_FAILURES)
        self._leader = telemetry.metrics.gauge(metrics.OUTBOX_LEADER)
        telemetry.metrics.gauge(metrics.OUTBOX_OLDEST, lambda: self._oldest_s)

    async def start(self) -> None:
        """Begin to compete for the lock; returns at once, also when broker or database are away."""
        await self._publisher.start()
        self._task = asyncio.create_task(self._run(), name="outbox-relay")

    async def stop(self) -> None:
        """Note what is confirmed, let go of the lock."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await self._publisher.stop()

    def problem(self) -> str | None:
        """Rows that wait are late, not lost: only when they wait for long is the service not ready."""
        if self._task is not None and self._task.done():
            return "the outbox relay has ended"
        if self._oldest_s > self._max_age_s:
            return f"outbox rows wait for {self._oldest_s:.0f} s: {self._why}"
        return None

    async def _run(self) -> None:
        waits = backoff(0.2, 5.0)
        while not self._stopping:
            try:
                async with self._database.pool.acquire(timeout=_QUERY_S) as conn:
                    if await conn.fetchval("select pg_try_advisory_lock($1)", _LOCK, timeout=_QUERY_S):
                        await self._lead(conn)
                    else:
                        self._why = None
            except FAILURES as error:
                self._why = error_class(error)
                self._failures.labels(self._why).inc()
                log.warning("outbox relay waits", extra={"reason": f"{self._why}: {error}"})
                await self._pause(next(waits))
            else:
                waits = backoff(0.2, 5.0)
                await self._pause(_POLL_S)
            finally:
                self._leader.set(0)

    async def _lead(self, conn: asyncpg.Connection) -> None:
        self._leader.set(1)
        self._why = None
        await conn.add_listener(CHANNEL, self._on_notify)
        try:
            while not self._stopping:
                self._wake.clear()
                published = await self._publish_some(conn)
                if published is None:
                    await asyncio.sleep(_SOON_S)
                elif published < _ROWS:
                    # Not asked again at once: a round costs database and broker more than the rows in it.
                    await self._pause(_POLL_S)
        finally:
            with contextlib.suppress(asyncpg.InterfaceError):
                await conn.remove_listener(CHANNEL, self._on_notify)

    async def _publish_some(self, conn: asyncpg.Connection) -> int | None:
        """Publish the next rows and note them; return how many. Raises Transient when the broker is away."""
        rows = await self._reader.next(conn)
        if rows is None:
            return None
        with contextlib.ExitStack() as spans:
            for row in rows:
                if row["traceparent"]:
                    name = f"{row['topic']} publish"
                    spans.enter_context(self._tracing.span(name, parent=row["traceparent"], kind="producer"))
            now_ms = time.time_ns() // 1_000_000
            confirmed = await self._publisher.publish_in_order([_row(row, now_ms) for row in rows])
        if confirmed:
            await self._reader.note(conn, rows[:confirmed])
            for topic, count in Counter(row["topic"] for row in rows[:confirmed]).items():
                self._sent.labels(topic).inc(count)
        if confirmed < len(rows) or not rows:
            self._oldest_s = await conn.fetchval(self._reader.oldest, timeout=_QUERY_S) or 0.0
        if confirmed < len(rows):
            raise Transient(f"{len(rows) - confirmed} rows are not confirmed", reason="broker_away")
        return confirmed

    def _on_notify(self, *_: object) -> None:
        self._wake.set()

    async def _pause(self, seconds: float) -> None:
        async with at_most(seconds):
            await self._wake.wait()


def _row(row: asyncpg.Record, now_ms: int) -> Row:
    return Row(row["topic"], row["key"], row["body"], row["traceparent"], now_ms)
