"""A ledger in the test's own process on a database of its own, and how tests call it."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from libs.core.clock import SystemClock
from libs.core.ids import uuid7_hex
from libs.core.money import Micros
from libs.core.pricing import Price
from libs.core.settings import TelemetrySettings
from libs.db.database import Database
from libs.db.migrate import folders
from libs.ops.telemetry import Telemetry
from services.ledger import invariants
from services.ledger.domain.calls import Credit, Granted, Release, Released, Reserve, Settle, Settled
from services.ledger.jobs import Jobs
from services.ledger.prices import Prices
from services.ledger.reads import Balance, Reads
from services.ledger.rollup import Rollup
from services.ledger.service import Ledger
from services.ledger.settings import LedgerSettings
from services.ledger.store import Store
from tests.service.ledger.bare import settings
from tests.support.stack import Postgres

# Rp 2 and Rp 8 per thousand tokens: one input token is 2,000 micro-Rupiah, one output token 8,000.
PRICE = Price("v-plain", 2_000_000_000, 8_000_000_000)
DEARER = Price("v-dearer", 4_000_000_000, 16_000_000_000, 1_000_000_000, 5_000_000_000)


class Router:
    """The prices a router would tell; ``asked`` counts the questions."""

    def __init__(self) -> None:
        self.prices = {price.version: price for price in (PRICE, DEARER)}
        self.asked = 0

    async def price(self, version: str) -> Price | None:
        self.asked += 1
        return self.prices.get(version)


class Books:
    """One ledger, and a superuser's look at its database."""

    def __init__(self, dsn: str, admin: Any, router: Router, chosen: LedgerSettings) -> None:
        self.dsn = dsn
        self.admin = admin
        self.router = router
        self.settings = chosen
        self.telemetry = Telemetry("ledger", TelemetrySettings())
        self.database = Database(chosen.database, self.telemetry, statement_ms=2_000, lock_ms=500)
        self.store = Store(self.database, SystemClock())
        self.prices = Prices(self.store, router, self.telemetry)
        self.ledger = Ledger(self.database, self.store, self.prices, chosen, self.telemetry)
        self.reads = Reads(self.database)
        self.rollup = Rollup(self.database, self.telemetry)
        self.jobs = Jobs(self.store, self.database, chosen.keep, SystemClock(), self.telemetry)

    async def credit(self, account_id: str, amount: int, kind: str = "top_up", key: str | None = None) -> None:
        await self.ledger.credit(Credit(account_id, Micros(amount), key or uuid7_hex(), kind, "test"))

    async def reserve(self, call: Reserve) -> Any:
        return await self.ledger.run(call)

    async def granted(self, call: Reserve) -> Granted:
        answer = await self.ledger.run(call)
        assert isinstance(answer, Granted), answer
        return answer

    async def settle(self, call: Settle) -> Settled:
        answer = await self.ledger.run(call)
        assert isinstance(answer, Settled), answer
        return answer

    async def release(self, call: Reserve | Settle) -> bool:
        answer = await self.ledger.run(Release(call.request_id, call.line, call.account_id))
        assert isinstance(answer, Released), answer
        return answer.released

    async def balance(self, account_id: str) -> Balance:
        return await self.reads.balance(account_id)

    async def count(self, table: str) -> int:
        return int(await self.admin.fetchval(f"select count(*) from {table}"))

    def metric(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0

    async def broken(self) -> dict[str, list[Any]]:
        """The invariants that do not hold, with the rows that break them."""
        return {found.name: rows async for found, rows in invariants.check(self.database, quick=False) if rows}

    async def assert_sound(self) -> None:
        assert await self.broken() == {}


def reserve(
    account_id: str, *, input_tokens: int = 100, max_tokens: int = 500, price: Price = PRICE, **more: Any
) -> Reserve:
    """A reservation; with the defaults 100 x 2,000 + 500 x 8,000 = 4,200,000."""
    values: dict[str, Any] = {
        "request_id": uuid7_hex(),
        "line": 0,
        "account_id": account_id,
        "key_id": "key_1",
        "endpoint": "chat",
        "model": "sim-1",
        "price_version": price.version,
        "input_tokens": input_tokens,
        "max_tokens": max_tokens,
        "asked_hash": hashlib.sha256(b"question").digest(),
    }
    return Reserve(**(values | more))


def settle(hold: Reserve, descriptor: str = "", *, prompt: int = 100, completion: int = 50, **more: Any) -> Settle:
    """A settlement of that reservation; with the defaults 100 x 2,000 + 50 x 8,000 = 600,000."""
    values: dict[str, Any] = {
        "request_id": hold.request_id,
        "line": hold.line,
        "account_id": hold.account_id,
        "key_id": hold.key_id,
        "endpoint": hold.endpoint,
        "model": hold.model,
        "vendor": "Simulated",
        "price_version": hold.price_version,
        "billing_kind": "payg",
        "outcome": "completed",
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "estimated": False,
        "descriptor": descriptor,
        "started_at_ms": int(hold.request_id[:12], 16),
    }
    return Settle(**(values | more))


TABLES = (
    "wallet",
    "hold",
    "transfer",
    "usage_row",
    "usage_sum",
    "spend_mark",
    "settle_conflict",
    "price_version",
    "idem",
    "balance_day",
    "balance_closed",
    "outbox",
    "plan_window",
    "plan_sub",
    "plan",
    "coupon",
    "token_alloc",
    "key_spend",
    "member_spend",
    "search_allowance",
    "idempotency",
)


async def admin_of(postgres: Postgres, dsn: str) -> Any:
    """A superuser's connection to that database."""
    return await asyncpg.connect(postgres.server.dsn(), database=dsn.rsplit("/", 1)[1])


@asynccontextmanager
async def opened(postgres: Postgres, dsn: str, **values: Any) -> AsyncIterator[Books]:
    """A running ledger with those settings on that database."""
    admin = await admin_of(postgres, dsn)
    books = Books(dsn, admin, Router(), settings(dsn, **values))
    await books.database.start()
    await books.ledger.start()
    try:
        yield books
    finally:
        await books.ledger.stop()
        await books.database.stop()
        await admin.close()


@pytest.fixture(scope="session")
def made_dsn(postgres: Postgres) -> str:
    # One database for all: copying its many partitions takes longer than any test here.
    return asyncio.run(postgres.database(folders()["ledger"]))


@pytest.fixture
async def dsn(postgres: Postgres, made_dsn: str) -> str:
    """The ledger's database, emptied."""
    admin = await admin_of(postgres, made_dsn)
    await admin.execute("".join(f"delete from {table};" for table in TABLES))
    await admin.close()
    return made_dsn


@pytest.fixture
async def books(postgres: Postgres, dsn: str) -> AsyncIterator[Books]:
    async with opened(postgres, dsn) as made:
        yield made
        await made.assert_sound()


@pytest.fixture
def account() -> str:
    return f"acct_{uuid7_hex()}"
