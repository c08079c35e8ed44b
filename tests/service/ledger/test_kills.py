"""Money is right while ledger processes are killed, backends ended and PostgreSQL crashes under 64 workers."""

import asyncio
import contextlib
import os
import random
from typing import Any

import asyncpg
import pytest

from libs.core.settings import TelemetrySettings
from libs.db.database import Database
from libs.db.errors import FAILURES
from libs.db.migrate import folders
from libs.ops.telemetry import Telemetry
from services.ledger import invariants
from tests.service.ledger.bare import settings
from tests.service.ledger.processes import LedgerProcess
from tests.service.ledger.traffic import INPUT, OUTPUT, PRICE, Clients, Traffic
from tests.support.stack import Postgres

TTL_S = 3.0
WORKERS = 64
CREDIT = 2_000_000_000
SEED = int(os.environ.get("KENARI_SEED", "0")) or random.randrange(1, 10**9)


class Chaos:
    """Breaks things until cancelled."""

    def __init__(
        self, ledgers: list[LedgerProcess], postgres: Postgres, dice: random.Random, crash_every_s: float
    ) -> None:
        self._ledgers = ledgers
        self._postgres = postgres
        self._dice = dice
        self._crash_every_s = crash_every_s
        self.kills = self.ended = self.crashes = 0

    async def kill_ledgers(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.3, 1.5))
            ledger = self._dice.choice(self._ledgers)
            await asyncio.to_thread(ledger.kill)
            self.kills += 1
            await asyncio.to_thread(ledger.start)

    async def end_backends(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.05, 0.4))
            with contextlib.suppress(*FAILURES):
                admin = await asyncpg.connect(self._postgres.server.dsn(), timeout=2)
                try:
                    self.ended += await admin.fetchval(
                        "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity"
                        " where application_name = 'kenari-ledger' order by random() limit 2) chosen"
                    )
                finally:
                    await admin.close(timeout=1)

    async def crash_postgres(self) -> None:
        while True:
            await asyncio.sleep(self._crash_every_s)
            await asyncio.to_thread(self._postgres.server.kill)
            await asyncio.to_thread(self._postgres.server.start)
            self.crashes += 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("seconds", "processes"),
    [(12.0, 2), pytest.param(600.0, 4, marks=[pytest.mark.nightly, pytest.mark.timeout(1_500)])],
)
async def test_every_acknowledged_charge_is_in_the_books_once(
    own_postgres: Postgres, seconds: float, processes: int
) -> None:
    dice = random.Random(SEED)
    print(f"KENARI_SEED={SEED}")
    dsn = await own_postgres.database(folders()["ledger"])
    accounts = [f"acct_{number:03d}" for number in range(200)]
    await _open_accounts(own_postgres, dsn, accounts)
    ledgers = [LedgerProcess(dsn, ttl_s=TTL_S) for _ in range(processes)]
    await asyncio.gather(*(asyncio.to_thread(ledger.start) for ledger in ledgers))
    clients = Clients([ledger.port for ledger in ledgers], dice)
    await clients.start()
    traffic = Traffic(clients, accounts, dice)
    chaos = Chaos(ledgers, own_postgres, dice, crash_every_s=seconds / 2)
    breaking = [
        asyncio.create_task(part) for part in (chaos.kill_ledgers(), chaos.end_backends(), chaos.crash_postgres())
    ]
    try:
        running = asyncio.create_task(traffic.run(WORKERS, seconds))
        await asyncio.wait([running, *breaking], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        await _stop(breaking)
        await _restart(ledgers, own_postgres)
        await running
        await _holds_are_gone(own_postgres, dsn)
    finally:
        await _stop(breaking)
        await clients.stop()
        await asyncio.gather(*(asyncio.to_thread(ledger.kill) for ledger in ledgers))

    print(f"{dict(traffic.counts)}, {chaos.kills} kills, {chaos.ended} backends ended, {chaos.crashes} crashes")
    assert traffic.wrong == []
    assert min(traffic.counts["settled"], chaos.kills, chaos.ended, chaos.crashes) > 0
    await _agree(own_postgres, dsn, traffic, accounts)


async def _open_accounts(postgres: Postgres, dsn: str, accounts: list[str]) -> None:
    conn = await _admin(postgres, dsn)
    await conn.execute(
        "insert into price_version (version, input, output) values ($1, $2, $3)", PRICE, INPUT * 10**6, OUTPUT * 10**6
    )
    for account in accounts:
        await conn.execute(
            "select credit($1, $2, 'top_up', $1, gen_random_uuid(), gen_random_uuid(), utc_day() - date '1970-01-01')",
            account,
            CREDIT,
        )
    await conn.close()


async def _admin(postgres: Postgres, dsn: str) -> Any:
    return await asyncpg.connect(postgres.server.dsn(), database=dsn.rsplit("/", 1)[1])


async def _stop(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


async def _restart(ledgers: list[LedgerProcess], postgres: Postgres) -> None:
    """Whatever chaos left half done is up again."""
    # A thread of a cancelled task may still be starting its process.
    await asyncio.sleep(2.0)
    if not postgres.server.running:
        await asyncio.to_thread(postgres.server.start)
    for ledger in ledgers:
        await asyncio.to_thread(ledger.kill)
        await asyncio.to_thread(ledger.start)


async def _holds_are_gone(postgres: Postgres, dsn: str) -> None:
    conn = await _admin(postgres, dsn)
    try:
        async with asyncio.timeout(TTL_S + 15):
            while await conn.fetchval("select count(*) from hold where state = 'open'"):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    finally:
        await conn.close()


async def _agree(postgres: Postgres, dsn: str, traffic: Traffic, accounts: list[str]) -> None:
    """The books against the model, the model against the books, and the books against themselves."""
    conn = await _admin(postgres, dsn)
    wallets = {row["account_id"]: row for row in await conn.fetch("select * from wallet")}
    assert {name: wallets[name]["paid"] for name in accounts} == {
        name: CREDIT - traffic.spent[name] for name in accounts
    }
    assert sum(row["reserved"] for row in wallets.values()) == 0
    rows = await conn.fetch("select request_id, cost, billing_kind from usage_row")
    paid = {row["request_id"].hex: row["cost"] for row in rows if row["billing_kind"] == "payg"}
    assert paid == traffic.settled
    assert {row["request_id"].hex for row in rows if row["billing_kind"] == "free"} == traffic.free
    noted = {row["request_id"].hex for row in await conn.fetch("select request_id from settle_conflict")}
    assert noted == traffic.conflicts
    told = await conn.fetchval(
        "select count(*) from outbox where position('usage_settled' in encode(body, 'escape')) > 0"
    )
    assert told == len(rows)
    await conn.close()
    chosen = settings(dsn)
    database = Database(chosen.database, Telemetry("check", TelemetrySettings()))
    await database.start()
    try:
        broken = {found.name: held async for found, held in invariants.check(database, quick=False) if held}
    finally:
        await database.stop()
    assert broken == {}
