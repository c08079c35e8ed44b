"""Writes to the books and the few reads they need. All SQL here and in reads.py; the rules are in migrations/.

Called by service.py, posting.py, prices.py and jobs.py. Every method raises DatabaseAwayError (Transient) while the
database is away; asking again under the same ids is safe.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import date
from typing import Any

import msgspec

from libs.core.clock import Clock
from libs.core.ids import uuid7_hex
from libs.core.money import Micros
from libs.db.database import Database
from libs.db.session import Session
from libs.events.base import encode, envelope
from libs.events.ledger import AccountState, Credited, HoldExpired
from libs.events.topics import LEDGER_ENTRIES, LEDGER_STATES
from libs.kafka.outbox import put
from libs.ops.tracing import current_traceparent
from services.ledger.batch import POST, literal
from services.ledger.domain.calls import Credit, RefusedError, Settle, request_ms
from services.ledger.domain.pricing import Price

SOURCE = "ledger"
PARTITIONED = ("hold", "transfer", "usage_row", "outbox")

_DAY_MS = 86_400_000

Ref = tuple[str, int]


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

    async def post(self, columns: tuple[Any, ...]) -> Any:
        """Post one batch (see ``post_batch`` in the migrations) and return its result columns."""
        return await self._session.fetchrow(POST, *columns)

    async def close(self) -> None:
        await self._session.close()


class Store:
    """The books."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def price(self, version: str) -> Price | None:
        """A price version that was used before."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                "select version, input, output, cache_read, cache_write from price_version where version = $1", version
            )
        return Price(*row) if row else None

    async def keep_price(self, price: Price) -> Price:
        """Store a price version unless it is there, and return what is there: a version never changes."""
        async with self._database.connection() as conn:
            await conn.execute(
                "insert into price_version (version, input, output, cache_read, cache_write)"
                " values ($1, $2, $3, $4, $5) on conflict do nothing",
                price.version,
                price.input,
                price.output,
                price.cache_read,
                price.cache_write,
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
                )
                state = _state(call.account_id, row["version"], row["paid_in_total"])
                trace = current_traceparent()
                for topic, data in ((LEDGER_ENTRIES, credited), (LEDGER_STATES, state)):
                    event = envelope(data, source=SOURCE, subject=call.account_id, now_ms=now_ms)
                    await put(conn, topic, call.account_id, encode(event), trace)
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
                "select already_settled($1::text::int4[], $2::text::uuid[], $3::text::int4[], $4::text::uuid[])",
                literal([request_ms(call.request_id) // _DAY_MS for call in calls], "int4"),
                literal([call.request_id for call in calls], "uuid"),
                literal([call.line for call in calls], "int4"),
                literal([call.content_hash() for call in calls], "uuid"),
            )
        known = set(settled)
        return [call for position, call in enumerate(calls, 1) if position not in known]

    async def expire_holds(self, accounts: int) -> int:
        """End overdue holds of up to that many accounts, with their events; return how many."""
        now_ms = self._clock.now_ms()
        async with self._database.transaction() as conn:
            rows = await conn.fetch("select * from expire_holds($1)", accounts)
            for row in rows:
                expired = HoldExpired(
                    request_id=row["request_id"].hex,
                    line=row["line"],
                    account_id=row["account_id"],
                    amount_micro_idr=row["amount"],
                )
                event = envelope(expired, source=SOURCE, subject=expired.account_id, now_ms=now_ms)
                await put(conn, LEDGER_ENTRIES, expired.account_id, encode(event))
        return len(rows)

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
            async for row in conn.cursor("select account_id, version, paid_in_total from wallet where version > 0"):
                state = _state(row["account_id"], row["version"], row["paid_in_total"])
                event = envelope(state, source=SOURCE, subject=state.account_id, now_ms=self._clock.now_ms())
                yield state.account_id, encode(event)


def _state(account_id: str, version: int, paid_in_total: int) -> AccountState:
    return AccountState(account_id=account_id, version=version, paid_in_total_micro_idr=paid_in_total)
