"""Accounts, limits, suspension on a real PostgreSQL: repeats change nothing, events are in the transaction."""

import asyncio

import pytest

from libs.core.errors import Transient
from libs.db.migrate import folders
from libs.events.base import decode
from libs.kafka.outbox import OUTBOX_SQL
from services.accounts.domain.account import AccountStatus, CreateAccount
from services.accounts.domain.errors import AlreadyExistsError, InvalidError, NotFoundError
from services.accounts.domain.key import KeyStatus
from tests.service.accounts.bench import Bench
from tests.support.stack import Postgres


async def test_the_same_account_is_made_once_however_often_it_is_asked_for(bench: Bench) -> None:
    wanted = CreateAccount("acct_same", "One")
    made = await asyncio.gather(*(bench.accounts.create_account(wanted) for _ in range(5)))
    assert len(set(made)) == 1
    assert await bench.accounts.account("acct_same") == made[0]
    assert made[0].status is AccountStatus.ACTIVE
    with pytest.raises(AlreadyExistsError):
        await bench.accounts.create_account(CreateAccount("acct_same", "Another"))


async def test_without_an_id_the_owner_chooses_one(bench: Bench) -> None:
    one = await bench.accounts.create_account(CreateAccount("", "No id"))
    two = await bench.accounts.create_account(CreateAccount("", "No id"))
    assert one.account_id.startswith("acct_")
    assert one.account_id != two.account_id


async def test_unknown_accounts_and_keys_are_not_found(bench: Bench) -> None:
    accounts = bench.accounts
    for call in (
        accounts.account("acct_none"),
        accounts.keys("acct_none"),
        accounts.set_limits("acct_none", 5),
        accounts.set_status("acct_none", AccountStatus.SUSPENDED),
        accounts.revoke_key("key_none"),
    ):
        with pytest.raises(NotFoundError) as refusal:
            await call
        assert refusal.value.reason == "not_found"


@pytest.mark.rule("LIMIT-013")
async def test_limits_are_the_accounts_own_and_told_with_growing_versions(bench: Bench) -> None:
    one, two = await bench.account(), await bench.account()
    await bench.accounts.set_limits(one.account_id, 100)
    await bench.accounts.set_limits(one.account_id, 100)
    await bench.accounts.set_limits(two.account_id, 5)
    await bench.accounts.set_limits(one.account_id, 0)
    events = await bench.settings_events(one.account_id)
    assert [(event.version, event.requests_per_minute) for event in events] == [(1, 100), (2, 0)]
    assert [event.requests_per_minute for event in await bench.settings_events(two.account_id)] == [5]
    assert (await bench.accounts.account(two.account_id)).requests_per_minute == 5
    with pytest.raises(InvalidError):
        await bench.accounts.set_limits(one.account_id, 2_000_000_000)


async def test_suspension_reaches_every_key_in_one_transaction(bench: Bench) -> None:
    account, other = await bench.account(), await bench.account()
    keys = [await bench.key(account) for _ in range(3)]
    untouched = await bench.key(other)
    await bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
    await bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
    for key in await bench.accounts.keys(account.account_id):
        assert (key.account_status, key.status, key.version) == (AccountStatus.SUSPENDED, KeyStatus.ACTIVE, 2)
    for key in keys:
        events = await bench.key_events(key.key_id)
        assert [(event.version, event.account_status) for event in events] == [(1, "active"), (2, "suspended")]
    assert len(await bench.key_events(untouched.key_id)) == 1
    await bench.accounts.set_status(account.account_id, AccountStatus.ACTIVE)
    assert (await bench.key_events(keys[0].key_id))[-1].account_status == "active"


async def test_a_key_made_on_a_suspended_account_is_suspended_too(bench: Bench) -> None:
    account = await bench.account()
    await bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
    key = await bench.key(account)
    assert key.account_status is AccountStatus.SUSPENDED
    assert [event.account_status for event in await bench.key_events(key.key_id)] == ["suspended"]


async def test_keys_made_while_the_account_is_suspended_never_miss_it(bench: Bench) -> None:
    """Whatever the order of commits, the last event of each key carries the account's last status."""
    for _ in range(10):
        account = await bench.account()
        suspending = asyncio.create_task(bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED))
        keys = await asyncio.gather(*(bench.key(account) for _ in range(3)))
        await suspending
        for key in keys:
            events = await bench.key_events(key.key_id)
            assert events[-1].account_status == "suspended"
            assert [event.version for event in events] == list(range(1, len(events) + 1))


async def test_a_change_that_fails_leaves_no_event(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account)
    pool = bench.database.pool
    await pool.execute("alter table outbox add constraint broken check (topic <> 'accounts.keys.v1') not valid")
    try:
        with pytest.raises(Exception, match="broken"):
            await bench.accounts.revoke_key(key.key_id)
    finally:
        await pool.execute("alter table outbox drop constraint broken")
    assert (await bench.accounts.keys(account.account_id))[0].status is KeyStatus.ACTIVE
    assert len(await bench.key_events(key.key_id)) == 1


async def test_a_database_that_is_away_is_said_to_be_and_found_again(own_postgres: Postgres) -> None:
    async with Bench(await own_postgres.database(folders()["accounts"])) as bench:
        account = await bench.account()
        own_postgres.server.kill()
        with pytest.raises(Transient):
            await bench.accounts.account(account.account_id)
        with pytest.raises(Transient):
            await bench.key(account)
        async with asyncio.timeout(5):
            await bench.listening(False)
        own_postgres.server.start()
        async with asyncio.timeout(10):
            await bench.listening(True)
        assert await bench.accounts.account(account.account_id) == account


async def test_snapshots_hold_the_present_state_of_everything(bench: Bench) -> None:
    account = await bench.account()
    await bench.accounts.set_limits(account.account_id, 7)
    key = await bench.key(account)
    await bench.accounts.revoke_key(key.key_id)
    keys = {name: decode(body) async for name, body in bench.store.every_key_event()}
    assert keys[key.key_id].data["status"] == "revoked"
    assert len(keys) == await bench.database.pool.fetchval("select count(*) from api_key")
    limits = {name: decode(body) async for name, body in bench.store.every_settings_event()}
    assert limits[account.account_id].data["requests_per_minute"] == 7


def test_the_outbox_is_the_one_the_relay_reads() -> None:
    migration = (folders()["accounts"] / "0002_outbox.sql").read_text()
    assert OUTBOX_SQL.strip() in migration
