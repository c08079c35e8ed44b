"""What the ledger does by the clock: ends holds, makes and drops partitions, closes days, checks itself.

Run by app.py as periodic jobs. Any number of processes may run them at once.
"""

import logging
from datetime import UTC, date, datetime, timedelta

from libs.core.clock import Clock
from libs.db.database import Database
from libs.ops.telemetry import Telemetry
from services.ledger import invariants, rollup
from services.ledger.settings import KeepSettings
from services.ledger.store import Store
from services.ledger.subscriptions import Subscriptions
from services.ledger.telemetry import BROKEN, DEFAULT_ROWS, EXPIRED, HOLDS_OPEN, HOLDS_OVERDUE

log = logging.getLogger("kenari.ledger")

_ACCOUNTS_PER_SWEEP = 100
_RENEWALS_PER_RUN = 100
# The outbox is read along within seconds; its rows are kept a while for people.
_OUTBOX_DAYS = 3


class Renewals:
    """Renews subscriptions whose time is over, or ends them."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    async def run(self) -> None:
        """Deal with all that are due."""
        while await self._subscriptions.renew_due(_RENEWALS_PER_RUN) == _RENEWALS_PER_RUN:
            log.info("subscriptions dealt with", extra={"count": _RENEWALS_PER_RUN})


class Jobs:
    """The jobs; each method is one run."""

    def __init__(
        self, store: Store, database: Database, keep: KeepSettings, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._store = store
        self._database = database
        self._keep = keep
        self._clock = clock
        metrics = telemetry.metrics
        self._expired = metrics.counter(EXPIRED)
        self._open = metrics.gauge(HOLDS_OPEN)
        self._overdue = metrics.gauge(HOLDS_OVERDUE)
        self._default_rows = metrics.gauge(DEFAULT_ROWS)
        self._broken = metrics.gauge(BROKEN)

    async def sweep(self) -> None:
        """End all holds past their life."""
        while ended := await self._store.expire_holds(_ACCOUNTS_PER_SWEEP):
            self._expired.inc(ended)
            log.info("holds expired", extra={"count": ended})

    async def measure(self) -> None:
        """Bring the gauges up to date."""
        measures = await self._store.measures()
        self._open.set(measures.open_holds)
        self._overdue.set(measures.overdue_holds)
        for table, rows in measures.default_rows.items():
            self._default_rows.labels(table).set(rows)

    async def tend_days(self) -> None:
        """Make the coming days' partitions, drop those out of keeping, close past days and then check everything."""
        made = await self._store.make_partitions(self._keep.ahead_days)
        if made:
            log.info("partitions made", extra={"count": made})
        # A row may lie in the partition of the day before its time, so the first day kept has no sums.
        await rollup.forget(self._database, self._today() - timedelta(days=self._keep.usage_days - 1))
        for table, days in (
            ("hold", self._keep.hold_days),
            ("usage_row", self._keep.usage_days),
            ("outbox", _OUTBOX_DAYS),
        ):
            for name in await self._store.drop_partitions(table, self._today() - timedelta(days=days)):
                log.info("partition dropped", extra={"reason": name})
        # One process closes a day, and so one process a day reads all the books.
        if await self._store.close_days():
            await self.check_all()

    async def check_quick(self) -> None:
        """Ask the invariants that cost little."""
        await self._check(quick=True)

    async def check_all(self) -> None:
        """Ask all invariants."""
        await self._check(quick=False)

    async def _check(self, *, quick: bool) -> None:
        async for invariant, rows in invariants.check(self._database, quick=quick):
            self._broken.labels(invariant.name).set(len(rows))
            if rows:
                log.critical("invariant broken", extra={"reason": invariant.name, "count": len(rows)})

    def _today(self) -> date:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).date()
