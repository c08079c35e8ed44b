"""Reads of usage: sums by model, sums by day, the log of single requests (contract: Usage).

Called by rpc.py through reads.py. Whole days and hours of a window come from the sums of rollup.py, its edges and what
is not summed yet from the rows, all of one moment: the answers agree with each other to the micro-Rupiah.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from libs.db.database import Database
from services.ledger.domain.calls import InvalidCallError, request_ms

DEEPEST = 10_000
"""``page`` times ``limit`` may not be more."""
LARGEST_PAGE = 200
MOST_DAYS = 366
"""Days a window of sums may touch."""

USAGE_COLUMNS = (
    "request_id, line, created_at, model, vendor, key_id, billing_kind, endpoint, prompt_tokens, completion_tokens,"
    " cached_tokens, cache_write_tokens, cost, catalog, member_id, cache_saved"
)

_HOUR_S = 3_600
_DAY_S = 86_400
_DAY = timedelta(days=1)
_FILTER = " and ($1 = '' or model = $1) and ($2 = '' or key_id = $2) and ($3 = '' or billing_kind = $3)"
# A request's row lies in the partition of its id's day, which its time can miss by the length of a retry only.
_ROWS = (
    "select model, billing_kind, created_at as at, 1::bigint as requests, prompt_tokens, completion_tokens,"
    " cached_tokens, cache_write_tokens, cost, catalog from {source} where account_id = $4 and created_at >= {start}"
    f" and created_at < {{end}}{_FILTER}"
)
_SUMMED = (
    "select model, billing_kind, start, requests, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens,"
    " cost, catalog from usage_sum where account_id = $4 and key_id = case $2 when '' then '*' else $2 end"
    " and span = '{span}' and start >= {start} and start < {end}"
    " and ($1 = '' or model = $1) and ($3 = '' or billing_kind = $3)"
)
# The bounds of a window: $5 its start, $6 the first whole hour, $7 the first whole day, $8 the end of the last whole
# day, $9 that of the last whole hour, $10 its end; $11 to $14 are the partitions of the two edges.
_USED = " union all ".join(
    (
        f"{_ROWS.format(source='usage_row', start='$5', end='$6')} and day between $11 and $12",
        _SUMMED.format(span="hour", start="$6", end="$7"),
        _SUMMED.format(span="day", start="$7", end="$8"),
        _SUMMED.format(span="hour", start="$8", end="$9"),
        f"{_ROWS.format(source='usage_row', start='$9', end='$10')} and day between $13 and $14",
        _ROWS.format(source="usage_written($15, 9223372036854775807, $4)", start="$6", end="$9"),
    )
)
_SUMS = ", ".join(
    f"sum({name})::bigint as {name}"
    for name in (
        "requests", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "cost", "catalog"
    )
)  # fmt: skip
_BY_MODEL = (
    f"select model, billing_kind, {_SUMS} from ({_USED}) used group by model, billing_kind"
    " order by sum(cost) desc, sum(catalog) desc, model, billing_kind"
)
_BY_DAY = (
    "select (at at time zone 'UTC')::date as day, sum(requests)::bigint as requests, sum(cost)::bigint as cost"
    f" from ({_USED}) used group by 1"
)
_COUNT = f"select coalesce(sum(requests), 0)::bigint from ({_USED}) used"
_PAGE = (
    f"select {USAGE_COLUMNS} from usage_row where account_id = $4 and created_at >= $5 and created_at < $6"
    f" and day between $7 and $8{_FILTER} order by created_at desc, request_id desc, line desc limit $9 offset $10"
)


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which usage: Unix seconds, both inclusive; empty text means no filter. Sums know no ``billing_kind``."""

    account_id: str
    start: int
    end: int
    model: str = ""
    key_id: str = ""
    billing_kind: str = ""

    def check(self) -> None:
        """Raise InvalidCallError when the window cannot be served."""
        if not 0 <= self.start <= self.end < 2**37:
            raise InvalidCallError("the window is out of range")


class LogQuery(UsageQuery, frozen=True, kw_only=True):
    """Which page of the log."""

    page: int
    limit: int

    def check(self) -> None:
        """Raise InvalidCallError when the page cannot be served."""
        UsageQuery.check(self)
        if not 1 <= self.limit <= LARGEST_PAGE or self.page * self.limit > DEEPEST:
            raise InvalidCallError("the page is out of range")


class DayUsage(msgspec.Struct, frozen=True):
    """What was used on one UTC day, as ``YYYY-MM-DD``."""

    date: str
    requests: int
    cost: int


class LogPage(msgspec.Struct, frozen=True):
    """One page, newest first, and how many rows match in all."""

    rows: Sequence[Any]
    total: int


class UsageReads:
    """Reads of an account's usage; raise InvalidCallError, and DatabaseAwayError while the database is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def summary(self, query: UsageQuery) -> Sequence[Any]:
        """Sums per model and billing kind, the dearest first (columns: model, billing_kind, requests, tokens, cost,
        catalog)."""
        _check_days(query)
        async with self._snapshot() as conn:
            rows: Sequence[Any] = await conn.fetch(_BY_MODEL, *await _arguments(conn, query))
        return rows

    async def daily(self, query: UsageQuery) -> list[DayUsage]:
        """One entry for every UTC day the window touches, oldest first."""
        _check_days(query)
        async with self._snapshot() as conn:
            rows = await conn.fetch(_BY_DAY, *await _arguments(conn, query))
        used = {row["day"]: row for row in rows}
        first, last = _moment(query.start).date(), _moment(query.end).date()
        days = [first + number * _DAY for number in range((last - first).days + 1)]
        return [
            DayUsage(day.isoformat(), used[day]["requests"], used[day]["cost"])
            if day in used
            else DayUsage(day.isoformat(), 0, 0)
            for day in days
        ]

    async def log(self, query: LogQuery) -> LogPage:
        """One page of an account's requests; rows and total from one moment."""
        query.check()
        start, end = _moment(query.start), _moment(query.end + 1)
        async with self._snapshot() as conn:
            total = await conn.fetchval(_COUNT, *await _arguments(conn, query))
            rows = await conn.fetch(
                _PAGE,
                query.model,
                query.key_id,
                query.billing_kind,
                query.account_id,
                start,
                end,
                (start - _DAY).date(),
                (end + _DAY).date(),
                query.limit,
                query.page * query.limit,
            )
        return LogPage(rows, total)

    async def row(self, account_id: str, key_id: str, request_id: str) -> Any | None:
        """The row of one request of that account (and key, unless empty), or None. ``request_id`` is checked."""
        async with self._database.connection() as conn:
            return await conn.fetchrow(
                f"select {USAGE_COLUMNS} from usage_row where day = $1 and request_id = $2 and account_id = $3"
                " and ($4 = '' or key_id = $4) order by line limit 1",
                datetime.fromtimestamp(request_ms(request_id) / 1000, UTC).date(),
                request_id,
                account_id,
                key_id,
            )

    def _snapshot(self) -> Any:
        return self._database.transaction(isolation="repeatable_read", readonly=True)


def window_bounds(start: int, end: int) -> tuple[int, ...]:
    """Cut a window (``end`` exclusive, in Unix seconds): its start, the first whole hour, the first whole day, the ends
    of the last whole day and hour, its end. What there is none of is empty: two equal bounds."""
    hours = -(-start // _HOUR_S) * _HOUR_S, end // _HOUR_S * _HOUR_S
    if hours[0] > hours[1]:
        return (start, end, end, end, end, end)
    days = -(-hours[0] // _DAY_S) * _DAY_S, hours[1] // _DAY_S * _DAY_S
    if days[0] > days[1]:
        days = hours[1], hours[1]
    return (start, hours[0], *days, hours[1], end)


def _check_days(query: UsageQuery) -> None:
    query.check()
    if query.end // _DAY_S - query.start // _DAY_S >= MOST_DAYS:
        raise InvalidCallError(f"the window touches more than {MOST_DAYS} days")


async def _arguments(conn: Any, query: UsageQuery) -> tuple[Any, ...]:
    summed_to = await conn.fetchval("select outbox_id from usage_cursor")
    bounds = [_moment(second) for second in window_bounds(query.start, query.end + 1)]
    days = [(bounds[0] - _DAY).date(), (bounds[1] + _DAY).date(), (bounds[4] - _DAY).date(), (bounds[5] + _DAY).date()]
    return (query.model, query.key_id, query.billing_kind, query.account_id, *bounds, *days, summed_to)


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
