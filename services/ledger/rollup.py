"""Keeps the sums of usage up with the single rows, and makes them anew: ``python -m services.ledger.rollup``.

Run by app.py as a periodic job, by jobs.py (forgetting) and by operators. The rules are in
migrations/0005_usage_sums.sql; any number of processes may run at once, and one of them works.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from pydantic import SecretStr

from libs.core.errors import ConfigError, KenariError
from libs.core.settings import DatabaseSettings, TelemetrySettings
from libs.db.database import Database
from libs.ops.telemetry import Telemetry
from services.ledger.telemetry import ROLLUP_AGE, ROLLUP_ENTRIES

_DSN = "LEDGER_DATABASE__DSN"
# Outbox entries per transaction: far below the time a statement may take, also on a machine that is slow or busy.
_ENTRIES = 1_000
# How long the transactions that are open when the end of the outbox is looked for mostly last.
_SOON_S = 0.005
_DAY = timedelta(days=1)


class Rollup:
    """Sums in what was written since the last run."""

    def __init__(self, database: Database, telemetry: Telemetry) -> None:
        self._database = database
        self._at = 0
        self._as_of = time.monotonic()
        self._entries = telemetry.metrics.counter(ROLLUP_ENTRIES)
        telemetry.metrics.gauge(ROLLUP_AGE, lambda: time.monotonic() - self._as_of)

    async def run(self) -> None:
        """Bring the sums up to the moment of the call; does nothing while another process is at it."""
        asked = time.monotonic()
        async with self._database.connection() as conn:
            fence = await conn.fetchrow(
                "select last_id, after_xid::text::int8 as after from outbox_fence($1)", self._at
            )
        if fence["after"] is not None:
            await self._passed(fence["after"])
            if not await self._sum_up_to(fence["last_id"]):
                return
        self._as_of = asked

    async def _passed(self, after: int) -> None:
        while True:
            # The connection goes back in between: there are few, and a transaction may take long.
            async with self._database.connection() as conn:
                if await conn.fetchval("select pg_snapshot_xmin(pg_current_snapshot())::text::int8") >= after:
                    return
            await asyncio.sleep(_SOON_S)

    async def _sum_up_to(self, last: int) -> bool:
        while self._at < last:
            async with self._database.connection() as conn:
                reached = await conn.fetchval("select roll_up($1, $2)", last, _ENTRIES)
            if reached is None:
                return False
            if self._at:
                self._entries.inc(max(0, reached - self._at))
            self._at = reached
        return True


async def forget(database: Database, before: date) -> None:
    """Drop the sums of the days before that, whose single rows are about to be dropped."""
    async with database.transaction() as conn:
        await conn.execute("set local statement_timeout = '600s'")
        await conn.execute("set local lock_timeout = '60s'")
        await conn.execute("select forget_usage($1)", before, timeout=600)


async def rebuild(database: Database, first: date, last: date) -> int:
    """Make the sums of those days anew from the single rows, a day at a time; return how many sums there are."""
    made, day = 0, first
    while day <= last:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC)
        async with database.transaction() as conn:
            await conn.execute("set local statement_timeout = '600s'")
            await conn.execute("set local lock_timeout = '60s'")
            made += await conn.fetchval("select rebuild_usage($1, $2)", start, start + _DAY, timeout=600)
        day += _DAY
    return made


async def _rebuild_at(dsn: str, first: date | None, last: date) -> int:
    telemetry = Telemetry("ledger-rollup", TelemetrySettings())
    database = Database(DatabaseSettings(dsn=SecretStr(dsn), pool_max=1), telemetry)
    await database.start()
    try:
        if first is None:
            async with database.connection() as conn:
                # What is summed without having rows goes as well.
                first = await conn.fetchval(
                    "select least((select min(day) from usage_row) - 1,"
                    " (select (min(start) at time zone 'UTC')::date from usage_sum))",
                    timeout=60,
                )
        return await rebuild(database, first or last, last)
    finally:
        await database.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 2 when the database cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m services.ledger.rollup", description=__doc__)
    parser.add_argument("--dsn", default=os.environ.get(_DSN), help=f"the ledger's database; default {_DSN}")
    parser.add_argument("--first", type=date.fromisoformat, help="first UTC day (YYYY-MM-DD); default the oldest")
    parser.add_argument("--last", type=date.fromisoformat, help="last UTC day; default tomorrow")
    options = parser.parse_args(arguments)
    try:
        if not options.dsn:
            raise ConfigError(f"{_DSN} is not set (or pass --dsn)")
        last = options.last or datetime.now(UTC).date() + _DAY
        print(f"{asyncio.run(_rebuild_at(options.dsn, options.first, last))} sums made")
    except KenariError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
