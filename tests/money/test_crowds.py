"""Sixty-four workers, two ledgers that are killed, backends that are ended: caps hold and every sum is right."""

import asyncio
import random
from typing import Any

import pytest

from libs.core.settings import TelemetrySettings
from libs.db.database import Database
from libs.db.migrate import folders
from libs.ops.telemetry import Telemetry
from services.ledger import invariants
from tests.money.crowd import CREDIT, KEY_SPEND, KEY_TOKENS, MEMBER, Crowd, furnish
from tests.money.sizes import CROWD_S, SEED
from tests.service.ledger.bare import settings
from tests.service.ledger.conftest import admin_of
from tests.service.ledger.processes import LedgerProcess
from tests.service.ledger.test_kills import Chaos
from tests.service.ledger.traffic import INPUT, OUTPUT, PRICE, Clients
from tests.support.stack import Postgres

WORKERS = 64
TTL_S = 3.0
ALL = ("payg", "plan", "coupon", "token_alloc")


@pytest.mark.timeout(CROWD_S * 2 + 180)
async def test_caps_hold_and_sums_are_right_under_a_crowd_and_kills(postgres: Postgres) -> None:
    seed = SEED or random.randrange(1, 10**9)
    print(f"KENARI_SEED={seed}")
    dice = random.Random(seed)
    dsn = await postgres.database(folders()["ledger"])
    accounts = [f"acct_{number:02d}" for number in range(40)]
    admin = await admin_of(postgres, dsn)
    database = Database(settings(dsn).database, Telemetry("crowd", TelemetrySettings()))
    await database.start()
    ledgers = [LedgerProcess(dsn, ttl_s=TTL_S) for _ in range(2)]
    try:
        await _open(admin, database, accounts)
        crowd = await _rush(ledgers, postgres, accounts, dice)
        await _holds_are_gone(admin)
        print(dict(crowd.counts))
        assert crowd.wrong == []
        assert {"payg", "plan", "coupon", "key_spend_cap_reached", "member_spend_cap_reached"} <= set(crowd.counts)
        await _agree(admin, crowd)
        assert {found.name: rows async for found, rows in invariants.check(database, quick=False) if rows} == {}
    finally:
        await asyncio.gather(*(asyncio.to_thread(ledger.kill) for ledger in ledgers))
        await database.stop()
        await admin.close()


async def _open(admin: Any, database: Database, accounts: list[str]) -> None:
    await admin.execute(
        "insert into price_version (version, input, output) values ($1, $2, $3)", PRICE, INPUT * 10**6, OUTPUT * 10**6
    )
    for account in accounts:
        await admin.execute(
            "select credit($1, $2, 'top_up', $1, gen_random_uuid(), gen_random_uuid(), utc_day() - date '1970-01-01')",
            account,
            CREDIT,
        )
    await furnish(database, accounts)


async def _rush(ledgers: list[LedgerProcess], postgres: Postgres, accounts: list[str], dice: random.Random) -> Crowd:
    await asyncio.gather(*(asyncio.to_thread(ledger.start) for ledger in ledgers))
    clients = Clients([ledger.port for ledger in ledgers], dice)
    await clients.start()
    crowd = Crowd(clients, accounts, dice)
    chaos = Chaos(ledgers, postgres, dice, crash_every_s=0)
    running = asyncio.create_task(crowd.run(WORKERS, CROWD_S))
    breaking = [asyncio.create_task(part) for part in (chaos.kill_ledgers(), chaos.end_backends())]
    try:
        await asyncio.wait([running, *breaking], timeout=CROWD_S, return_when=asyncio.FIRST_EXCEPTION)
        for task in breaking:
            task.cancel()
        await asyncio.gather(*breaking, return_exceptions=True)
        # A thread of a cancelled task may still be starting its process.
        await asyncio.sleep(2.0)
        for ledger in ledgers:
            await asyncio.to_thread(ledger.kill)
            await asyncio.to_thread(ledger.start)
        await running
    finally:
        await clients.stop()
    assert chaos.kills and chaos.ended
    return crowd


async def _holds_are_gone(admin: Any) -> None:
    async with asyncio.timeout(TTL_S + 30):
        while await admin.fetchval("select count(*) from hold where state = 'open'"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _agree(admin: Any, crowd: Crowd) -> None:
    """The books against what the workers know, and caps that were never passed."""
    taken = crowd.sums("account", kinds=("payg",))
    wallets = await admin.fetch("select account_id, paid, bonus, reserved from wallet")
    assert {row["account_id"]: row["paid"] for row in wallets} == {
        row["account_id"]: CREDIT - taken.get((row["account_id"],), 0) for row in wallets
    }
    assert all(row["reserved"] == row["bonus"] == 0 for row in wallets)
    keys = await admin.fetch("select key_id, spent, tokens, reserved, tokens_reserved from key_spend")
    spent, tokens = crowd.sums("key", kinds=ALL), crowd.sums("key", kinds=ALL, of="tokens")
    for row in keys:
        assert (row["spent"], row["tokens"]) == (spent.get((row["key_id"],), 0), tokens.get((row["key_id"],), 0))
        assert row["reserved"] == row["tokens_reserved"] == 0
        assert row["spent"] <= KEY_SPEND if row["key_id"].endswith("_spend") else row["tokens"] <= KEY_TOKENS
    drawn = crowd.sums("account", "member", kinds=("payg",))
    for row in await admin.fetch("select account_id, member_id, cum, reserved from member_spend"):
        assert row["cum"] == drawn.get((row["account_id"], row["member_id"]), 0) <= MEMBER
        assert row["reserved"] == 0
    coupons = await admin.fetch("select account_id, used, reserved from coupon where used + reserved > 0")
    assert {(row["account_id"],): row["used"] for row in coupons} == crowd.sums("account", kinds=("coupon",))
    windows = await admin.fetch(
        "select account_id, kind, sum(used) as used from plan_window group by 1, 2 having sum(used) > 0"
    )
    for kind in (1, 3):
        assert {(row["account_id"],): row["used"] for row in windows if row["kind"] == kind} == crowd.sums(
            "account", kinds=("plan",)
        )
    rows = await admin.fetch("select request_id, catalog, billing_kind from usage_row")
    assert {row["request_id"].hex: (row["catalog"], row["billing_kind"]) for row in rows} == {
        request: (one.value, one.kind) for request, one in crowd.done.items()
    }
