"""Reads of the books for their owners: balance, usage log, everything about one request.

Called by rpc.py. Nothing here changes anything (contract: Account balance, Usage).
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from libs.core.money import Micros
from libs.db.database import Database
from services.ledger.domain.calls import InvalidCallError, request_ms

DEEPEST = 10_000
"""``page`` times ``limit`` may not be more."""
LARGEST_PAGE = 200

_DAY_MS = 86_400_000
_USAGE_COLUMNS = (
    "request_id, line, created_at, model, vendor, key_id, billing_kind, endpoint, prompt_tokens, completion_tokens,"
    " cached_tokens, cache_write_tokens, cost, catalog"
)
# A request's row lies in the partition of its id's day, which its time can miss by the length of a retry only.
_LOG_WHERE = (
    " from usage_row where account_id = $1 and created_at >= $2 and created_at < $3 and day between $4 and $5"
    " and ($6 = '' or model = $6) and ($7 = '' or key_id = $7) and ($8 = '' or billing_kind = $8)"
)


class Balance(msgspec.Struct, frozen=True):
    """``available`` is what a new request can reserve: never below 0, unlike the balance."""

    balance: Micros
    reserved: Micros
    available: Micros


class LogQuery(msgspec.Struct, frozen=True):
    """Which rows of the usage log: Unix seconds, both inclusive; empty text means no filter."""

    account_id: str
    start: int
    end: int
    model: str
    key_id: str
    billing_kind: str
    page: int
    limit: int

    def check(self) -> None:
        """Raise InvalidCallError when the page cannot be served."""
        if not 1 <= self.limit <= LARGEST_PAGE or self.page * self.limit > DEEPEST:
            raise InvalidCallError("the page is out of range")
        if not 0 <= self.start <= self.end < 2**40:
            raise InvalidCallError("the window is out of range")


class LogPage(msgspec.Struct, frozen=True):
    """One page, newest first, and how many rows match in all."""

    rows: Sequence[Any]
    total: int


class RequestBooks(msgspec.Struct, frozen=True):
    """All rows of one request."""

    holds: Sequence[Any]
    usage: Sequence[Any]
    transfers: Sequence[Any]


class Reads:
    """Reads from the ledger's database; raise DatabaseAwayError while it is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def balance(self, account_id: str) -> Balance:
        """An account the ledger has never heard of has nothing."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                "select paid + bonus as b, reserved as r from wallet where account_id = $1", account_id
            )
        balance, reserved = (row["b"], row["r"]) if row else (0, 0)
        return Balance(Micros(balance), Micros(reserved), Micros(max(0, balance - reserved)))

    async def usage_log(self, query: LogQuery) -> LogPage:
        """One page of an account's requests; both figures from one moment."""
        query.check()
        start = datetime.fromtimestamp(query.start, UTC)
        end = datetime.fromtimestamp(query.end + 1, UTC)
        day = timedelta(days=1)
        arguments = (
            query.account_id,
            start,
            end,
            (start - day).date(),
            (end + day).date(),
            query.model,
            query.key_id,
            query.billing_kind,
        )
        async with self._database.transaction(isolation="repeatable_read", readonly=True) as conn:
            total = await conn.fetchval(f"select count(*){_LOG_WHERE}", *arguments)
            rows = await conn.fetch(
                f"select {_USAGE_COLUMNS}{_LOG_WHERE} order by created_at desc, request_id desc, line desc"
                " limit $9 offset $10",
                *arguments,
                query.limit,
                query.page * query.limit,
            )
        return LogPage(rows, total)

    async def request(self, request_id: str) -> RequestBooks:
        """Hold, usage row and transfers of one request."""
        try:
            day = datetime.fromtimestamp(request_ms(request_id) / 1000, UTC).date()
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidCallError("the request id is not a UUIDv7 in hex") from error
        async with self._database.transaction(isolation="repeatable_read", readonly=True) as conn:
            holds = await conn.fetch(
                "select line, state, amount, cost, max_tokens, created_at, expires_at, price_version, account_id"
                " from hold where day = $1 and request_id = $2 order by line",
                day,
                request_id,
            )
            usage = await conn.fetch(
                f"select {_USAGE_COLUMNS} from usage_row where day = $1 and request_id = $2 order by line",
                day,
                request_id,
            )
            transfers = await conn.fetch(
                "select kind, seq, account_id, debit, credit, amount, booked_at from transfer"
                " where day = $1 and request_id = $2 order by line, kind, seq",
                day,
                request_id,
            )
        return RequestBooks(holds, usage, transfers)
