"""Writes to the books and the few reads they need. All SQL here and in reads.py; the rules are in migrations/.

Called by service.py, posting.py, prices.py and jobs.py. Every method raises DatabaseAwayError (Transient) while the
database is away; asking again under the same ids is safe.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date
from typing import Any, TypeVar

import msgspec

from libs.core.clock import Clock
from libs.core.ids import uuid7_hex
from libs.core.money import Micros
from libs.core.pricing import Price
from libs.db.database import Database
from libs.db.session import Session
from libs.events.base import encode, envelope
from libs.events.ledger import AccountState, Credited, HoldExpired
from libs.events.topics import LEDGER_ENTRIES, LEDGER_STATES
from libs.kafka.outbox import put
from libs.ops.tracing import current_traceparent
from services.ledger.books import CLOSE, OPEN, SOURCE, Opened, Wanted, close_arguments
from services.ledger.domain import movements
from services.ledger.domain.calls import Credit, RefusedError, Settle, request_ms
from services.ledger.domain.effects import Effects

PARTITIONED = ("hold", "transfer", "usage_row", "outbox")

_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)

Ref = tuple[str, int]
T = TypeVar("T")


class CreditedOutcome(msgspec.Struct, frozen=True):
    """The balance after a credit, and whether the credit was there before."""

    balance: Micros
    duplicate: bool


class Measures(msgspec.Struct, frozen=True):
    """What the gauges show."""

    open_holds: int
    overdue_holds: int
    default_rows: dict[str, int]


class PostingLine:
    """The connection of one queue, for nothing but batches."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def post(self, wanted: Wanted, work: Callable[[Opened, Effects], T]) -> T:
        """Open the books, do the work, write what it changed: one transaction."""

        async def posted(conn: Any) -> T:
            return await post(conn, wanted, work)

        return await self._session.transact(posted)

    async def close(self) -> None:
        await self._session.close()


async def post(conn: Any, wanted: Wanted, work: Callable[[Opened, Effects], T]) -> T:
    """Open the books on a connection inside a transaction, do the work, write what it changed."""
    opened, effects = Opened(await conn.fetchrow(OPEN, *wanted.arguments())), Effects()
    result = work(opened, effects)
    changed = close_arguments(opened, effects)
    if changed is not None:
        await conn.execute(CLOSE, *changed)
    return result


class Store:
    """The books."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def price(self, version: str) -> Price | None:
        """A price version that was used before."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                "select version, input, output, cache_read, cache_write, unit from price_version where version = $1",
                version,
            )
        return Price(*row) if row else None

    async def keep_price(self, price: Price) -> Price:
        """Store a price version unless it is there, and return what is there: a version never changes."""
        async with self._database.connection() as conn:
            await conn.execute(
                "insert into price_version (version, input, output, cache_read, cache_write, unit)"
                " values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
                price.version,
                price.input,
                price.output,
                price.cache_read,
                price.cache_write,
                price.unit,
            )
        kept = await self.price(price.version)
        assert kept is not None
        return kept

    async def credit(self, call: Credit) -> CreditedOutcome:
        """Put money into a wallet once per key, with its events. Raises RefusedError for a key used otherwise."""
        ref = uuid7_hex()
        now_ms = self._clock.now_ms()
        async with self._database.transaction() as conn:
            row = await conn.fetchrow(
                "select * from credit($1, $2, $3, $4, $5, $6, $7)",
                call.account_id,
                call.amount,
                call.kind,
                call.idempotency_key,
                call.content_hash(),
                ref,
                request_ms(ref) // _DAY_MS,
            )
            if row["status"] == 3:
                raise RefusedError("the idempotency key stands for another credit", reason="already_exists")
            if row["status"] == 1:
                credited = Credited(
                    ref=ref,
                    account_id=call.account_id,
                    kind=call.kind,
                    amount_micro_idr=call.amount,
                    balance_micro_idr=row["balance"],
                    idempotency_key=call.idempotency_key,
                )
                event = envelope(credited, source=SOURCE, subject=call.account_id, now_ms=now_ms)
                await put(conn, LEDGER_ENTRIES, call.account_id, encode(event), current_traceparent())
                await put_state(conn, call.account_id, now_ms)
        return CreditedOutcome(Micros(row["balance"]), row["status"] == 2)

    async def touch(self, holds: Sequence[Ref], ttl_ms: int) -> list[Ref]:
        """Let open holds live on from now; return those that are not open."""
        if not holds:
            return []
        async with self._database.connection() as conn:
            gone = await conn.fetchval(
                "select touch_holds($1, $2, $3, $4)",
                [request_ms(request) // _DAY_MS for request, _ in holds],
                [request for request, _ in holds],
                [line for _, line in holds],
                ttl_ms,
            )
        return [holds[position - 1] for position in gone]

    async def unsettled(self, calls: Sequence[Settle]) -> list[Settle]:
        """Those of the settlements that are not in the books word for word, in order."""
        async with self._database.connection() as conn:
            settled = await conn.fetchval(
                "select already_settled($1, $2, $3, $4)",
                [request_ms(call.request_id) // _DAY_MS for call in calls],
                [call.request_id for call in calls],
                [call.line for call in calls],
                [call.content_hash() for call in calls],
            )
        known = set(settled)
        return [call for position, call in enumerate(calls, 1) if position not in known]

    async def expire_holds(self, accounts: int) -> int:
        """End overdue holds of up to that many accounts nobody works on, with their events; return how many."""
        async with self._database.transaction() as conn:
            rows = await conn.fetch("select * from lock_overdue($1)", accounts)
            if not rows:
                return 0
            calls = [((row["day"] - _EPOCH).days, row["request_id"].hex, row["line"]) for row in rows]
            wanted = Wanted(sorted({row["account_id"] for row in rows}), [], calls, [], [], [])
            return await post(conn, wanted, _expire)

    async def measures(self) -> Measures:
        """Open and overdue holds, and rows that found no partition."""
        async with self._database.connection() as conn:
            holds = await conn.fetchrow(
                "select count(*) as open, count(*) filter (where expires_at < now()) as overdue"
                " from hold where state = 'open'"
            )
            rows = {
                table: await conn.fetchval(f"select count(*) from (select from {table}_default limit 1000) d")
                for table in PARTITIONED
            }
        return Measures(holds["open"], holds["overdue"], rows)

    async def make_partitions(self, ahead_days: int) -> int:
        """Make the partitions of today and the coming days; return how many were missing."""
        async with self._database.transaction() as conn:
            # Readers of the DEFAULT partition must not queue behind us for long.
            await conn.execute("set local lock_timeout = '300ms'")
            made = await conn.fetchval("select make_partitions(utc_day() - 1, utc_day() + $1::integer)", ahead_days)
        return int(made)

    async def drop_partitions(self, table: str, older_than: date) -> list[str]:
        """Drop a table's partitions of days before that; return their names. Transfers are kept for ever."""
        assert table in PARTITIONED and table != "transfer"
        async with self._database.connection() as conn:
            names = await conn.fetch(
                "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass"
                " and inhrelid::regclass::text < $2 and inhrelid::regclass::text ~ '_[0-9]{8}$' order by 1",
                table,
                f"{table}_{older_than:%Y%m%d}",
            )
        for row in names:
            async with self._database.transaction() as conn:
                await conn.execute("set local lock_timeout = '300ms'")
                await conn.execute(f"drop table {row['name']}")
        return [row["name"] for row in names]

    async def close_days(self) -> int:
        """Write closing balances of all past days that have none; return how many days."""
        async with self._database.transaction() as conn:
            await conn.execute("set local statement_timeout = '600s'")
            # Late bookings of a day are over soon after its midnight: statements are bounded to seconds.
            days = await conn.fetch(
                "select d::date as day from generate_series("
                " coalesce((select max(day) + 1 from balance_closed),"
                "          (select (min(booked_at) at time zone 'UTC')::date from transfer)),"
                " ((now() - interval '10 minutes') at time zone 'UTC')::date - 1, interval '1 day') d"
            )
            for row in days:
                await conn.execute("select close_day($1)", row["day"])
        return len(days)

    async def states(self) -> AsyncIterator[tuple[str, bytes]]:
        """Every account's state as (key, event), for a topic that has to be filled anew."""
        async with self._database.transaction(readonly=True) as conn:
            async for row in conn.cursor(f"{_STATE} where w.version > 0"):
                yield row["account_id"], _state(row, self._clock.now_ms())


_STATE = (
    "select w.account_id, w.version, w.paid_in_total, p.name, p.free_daily, s.ends_ms"
    " from wallet w left join plan_sub s on s.account_id = w.account_id and not s.lapsed"
    " left join plan p on p.plan_id = s.plan_id"
)


def _state(row: Any, now_ms: int) -> bytes:
    state = AccountState(
        account_id=row["account_id"],
        version=row["version"],
        paid_in_total_micro_idr=row["paid_in_total"],
        plan=row["name"],
        plan_ends_at_ms=row["ends_ms"] or 0,
        plan_free_daily=row["free_daily"],
    )
    return encode(envelope(state, source=SOURCE, subject=state.account_id, now_ms=now_ms))


async def put_state(conn: Any, account_id: str, now_ms: int) -> None:
    """Tell what others may know of an account's funds; its version was raised in this transaction."""
    row = await conn.fetchrow(f"{_STATE} where w.account_id = $1", account_id)
    await put(conn, LEDGER_STATES, account_id, _state(row, now_ms))


def _expire(opened: Opened, effects: Effects) -> int:
    """End the holds that are still open past their life."""
    due = [hold for hold in opened.holds.values() if hold.state == "open" and hold.expires_ms <= opened.now_ms]
    for hold in due:
        movements.release(opened.account(hold.account_id), hold, effects, "expired")
        expired = HoldExpired(
            request_id=hold.request_id, line=hold.line, account_id=hold.account_id, amount_micro_idr=hold.amount
        )
        effects.tell(hold.account_id, expired)
    return len(due)
