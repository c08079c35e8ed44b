"""A clock that stands still until a test moves it, for the ledger's database and its process alike.

Used by conftest.py. Times are Unix milliseconds.
"""

from typing import Any

# An unqualified call finds these before PostgreSQL's own once their schema is named before pg_catalog.
_FUNCTION = """create function public.{name}() returns timestamptz language sql stable
               as $$ select at from public.stopped_clock $$"""


class StoppedClock:
    """The time of one ledger under test (a libs.core.clock.Clock)."""

    def __init__(self, admin: Any, now_ms: int) -> None:
        self._admin = admin
        self._now_ms = now_ms

    @classmethod
    async def install(cls, admin: Any, database: str, now_ms: int) -> "StoppedClock":
        """Put the clock into a database; sessions that are opened from now on read it."""
        if await admin.fetchval("select to_regclass('public.stopped_clock')") is None:
            await admin.execute("create table public.stopped_clock (at timestamptz not null)")
            await admin.execute("insert into public.stopped_clock values ('epoch')")
            await admin.execute("grant select on public.stopped_clock to public")
            for name in ("clock_timestamp", "now", "statement_timestamp"):
                await admin.execute(_FUNCTION.format(name=name))
            await admin.execute(f"alter database {database} set search_path = public, pg_catalog")
        clock = cls(admin, now_ms)
        await clock.set(now_ms)
        return clock

    def now_ms(self) -> int:
        return self._now_ms

    async def set(self, now_ms: int) -> None:
        """Move the hands, also backwards."""
        self._now_ms = now_ms
        await self._admin.execute(
            "update public.stopped_clock set at = timestamptz 'epoch' + $1::bigint * interval '1 millisecond'", now_ms
        )
