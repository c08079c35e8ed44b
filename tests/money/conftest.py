"""A real ledger on a database of its own whose clock stands still, for the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from libs.core import pricing
from libs.core.clock import SystemClock
from libs.core.settings import TelemetrySettings
from libs.db.database import Database
from libs.db.migrate import folders
from libs.ops.telemetry import Telemetry
from services.ledger.funding_rpc import FundingRpc
from services.ledger.jobs import Jobs, Renewals
from services.ledger.prices import Prices
from services.ledger.reads import Reads
from services.ledger.rpc import LedgerRpc
from services.ledger.service import Ledger
from services.ledger.store import Store
from services.ledger.subscriptions import Subscriptions
from tests.money.clock import StoppedClock
from tests.money.ledger import RealLedger
from tests.money.world import PRICES
from tests.service.ledger.bare import settings
from tests.service.ledger.conftest import admin_of
from tests.support.stack import Postgres

DAYS = 60
"""How far a story may go on: the days that have partitions."""


class Catalogue:
    """A router that knows the prices of the world."""

    async def price(self, version: str) -> pricing.Price | None:
        for one in PRICES:
            if one.version == version:
                return pricing.Price(version, one.input, one.output, one.cache_read, one.cache_write, one.unit)
        return None


@asynccontextmanager
async def opened(postgres: Postgres, dsn: str, **values: Any) -> AsyncIterator[RealLedger]:
    """A running ledger on that database, its clock at the real time; at the end its books must be sound."""
    admin = await admin_of(postgres, dsn)
    clock = await StoppedClock.install(admin, dsn.rsplit("/", 1)[1], SystemClock().now_ms())
    chosen = settings(dsn, **values)
    telemetry = Telemetry("ledger", TelemetrySettings())
    database = Database(chosen.database, telemetry, statement_ms=2_000, lock_ms=500)
    store = Store(database, clock)
    prices = Prices(store, Catalogue(), telemetry)
    ledger = Ledger(database, store, prices, chosen, telemetry)
    await database.start()
    for price in PRICES:
        # A call whose price has to be looked up waits, and others overtake it.
        await prices.load(price.version)
    await ledger.start()
    try:
        rpc = LedgerRpc(ledger, Reads(database), telemetry)
        jobs = Jobs(store, database, chosen.keep, clock, telemetry)
        funds = FundingRpc(ledger, database, clock)
        real = RealLedger(ledger, (rpc, funds), jobs, Renewals(Subscriptions(database, clock)), clock, admin)
        yield real
        assert await real.broken() == {}
    finally:
        await ledger.stop()
        await database.stop()
        await admin.close()


async def _made(postgres: Postgres) -> str:
    dsn = await postgres.database(folders()["ledger"])
    admin = await admin_of(postgres, dsn)
    # What is lost in a crash is of no interest here, and a commit need not wait for the disk.
    await admin.execute(f"alter database {dsn.rsplit('/', 1)[1]} set synchronous_commit = off")
    await admin.execute("select make_partitions(utc_day() - 1, utc_day() + $1::integer)", DAYS)
    await admin.close()
    return dsn


@pytest.fixture(scope="session")
def money_dsn(postgres: Postgres) -> str:
    """The database of these tests; accounts are new in each, so that nobody empties it."""
    return asyncio.run(_made(postgres))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(postgres: Postgres, money_dsn: str) -> AsyncIterator[RealLedger]:
    """One ledger for all tests of a file: starting it takes longer than any of them."""
    async with opened(postgres, money_dsn) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def real(running: RealLedger) -> AsyncIterator[RealLedger]:
    """The ledger, with its clock back where it began; needs ``pytest.mark.asyncio(loop_scope="module")``."""
    began = running.clock.now_ms()
    yield running
    await running.clock.set(began)
