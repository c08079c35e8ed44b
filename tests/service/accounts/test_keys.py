"""Keys on a real PostgreSQL: shown once, stored as a hash, revoked for good, told to every watcher at once."""

import asyncio
import time

import asyncpg
import pytest

from libs.core.keys import hash_key
from services.accounts.domain.account import AccountStatus
from services.accounts.domain.errors import InvalidError, NotFoundError
from services.accounts.domain.key import CreateKey, KeyStatus
from services.accounts.watch import WatchEndedError
from tests.service.accounts.bench import SECRET, Bench, told
from tests.support.stack import Postgres


@pytest.mark.rule("AUTH-016")
async def test_the_key_is_shown_once_and_stored_nowhere(bench: Bench, postgres: Postgres) -> None:
    account = await bench.account()
    key, secret = await bench.accounts.create_key(CreateKey(account.account_id, label="laptop"))
    assert secret.startswith("kn-")
    assert await bench.resolve(secret) == key
    dump = ""
    for table in ("account", "api_key", "outbox"):
        dump += str(await bench.database.pool.fetch(f"select t::text from {table} t"))
    for body in await bench.database.pool.fetch("select body from outbox"):
        dump += body["body"].decode()
    assert key.key_hash in dump
    assert secret[3:] not in dump
    assert secret not in repr(await bench.accounts.keys(account.account_id))
    assert key.key_hash == hash_key(SECRET, secret)
    assert secret not in postgres.server.log_file.read_text(errors="replace")


async def test_a_key_carries_what_it_was_made_with(bench: Bench) -> None:
    account = await bench.account()
    expires = int(time.time() * 1000) + 86_400_123
    key = await bench.key(account, label="app", expires_at_ms=expires, models=("a", "b:free"))
    (event,) = await bench.key_events(key.key_id)
    for said in (key, event):
        assert (said.label, said.expires_at_ms, said.models, said.version) == ("app", expires, ("a", "b:free"), 1)
    assert abs(key.created_at_ms - time.time() * 1000) < 5_000
    with pytest.raises(InvalidError):
        await bench.key(account, expires_at_ms=1)
    with pytest.raises(NotFoundError):
        await bench.accounts.create_key(CreateKey("acct_none"))


@pytest.mark.rule("AUTH-038")
async def test_a_revoked_key_stays_revoked(bench: Bench) -> None:
    account = await bench.account()
    key, secret = await bench.accounts.create_key(CreateKey(account.account_id))
    revoked = await asyncio.gather(*(bench.accounts.revoke_key(key.key_id) for _ in range(4)))
    assert {(one.status, one.version) for one in revoked} == {(KeyStatus.REVOKED, 2)}
    assert [event.status for event in await bench.key_events(key.key_id)] == ["active", "revoked"]
    await bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
    await bench.accounts.set_status(account.account_id, AccountStatus.ACTIVE)
    still = await bench.resolve(secret)
    assert still is not None and still.status is KeyStatus.REVOKED
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await bench.database.pool.execute(
            "update api_key set status = 'active', revoked_at = null where key_id = $1", key.key_id
        )


@pytest.mark.rule("AUTH-015")
async def test_revoking_one_key_leaves_the_others_alone(bench: Bench) -> None:
    account = await bench.account()
    first, second = await bench.key(account), await bench.key(account)
    await bench.accounts.revoke_key(first.key_id)
    assert [key.status for key in await bench.accounts.keys(account.account_id)] == [
        KeyStatus.REVOKED,
        KeyStatus.ACTIVE,
    ]
    assert len(await bench.key_events(second.key_id)) == 1


async def test_an_unknown_hash_is_no_key(bench: Bench) -> None:
    assert await bench.accounts.resolve("0" * 64) is None
    assert await bench.accounts.resolve("") is None


async def test_watchers_of_every_process_hear_of_a_change_at_once(bench: Bench, dsn: str) -> None:
    async with Bench(dsn) as other:
        account = await bench.account()
        watches = [bench.watch.changes(), bench.watch.changes(), other.watch.changes()]
        key = await bench.key(account)
        assert [await told(watch, account, 1) for watch in watches] == [[key]] * 3
        started = time.perf_counter()
        revoked = await bench.accounts.revoke_key(key.key_id)
        assert [await told(watch, account, 1, version=2) for watch in watches] == [[revoked]] * 3
        assert time.perf_counter() - started < 1
        await other.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
        for watch in watches:
            assert (await told(watch, account, 1, version=3))[0].account_status is AccountStatus.SUSPENDED


@pytest.mark.rule("AUTH-039", "AUTH-040")
async def test_watchers_have_been_told_when_a_change_is_answered(bench: Bench) -> None:
    account = await bench.account()
    login = await bench.login_key(account)
    child, _ = await bench.tool_key(login)
    watch = bench.watch.changes()
    await told(watch, account, 2)
    # Nothing is heard of the database any more.
    await bench.watch.stop()
    await bench.accounts.revoke_key(login.key_id)
    heard = await told(watch, account, 2, version=2)
    assert {(key.key_id, key.status) for key in heard} == {
        (login.key_id, KeyStatus.REVOKED),
        (child.key_id, KeyStatus.REVOKED),
    }


async def test_a_new_watcher_first_hears_what_changed_lately(bench: Bench) -> None:
    account = await bench.account()
    keys = [await bench.key(account) for _ in range(3)]
    await bench.accounts.revoke_key(keys[1].key_id)
    heard = await told(bench.watch.changes(), account, 3)
    assert {key.key_id: key.status for key in heard}[keys[1].key_id] is KeyStatus.REVOKED


async def test_between_changes_watchers_get_heartbeats(bench: Bench) -> None:
    watch = bench.watch.changes()
    beats = 0
    async with asyncio.timeout(2):
        while beats < 3:
            beats += await anext(watch) is None


async def test_changes_missed_while_the_listening_connection_was_down_are_made_up(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account)
    watch = bench.watch.changes()
    await told(watch, account, 1)
    await bench.database.pool.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and datname = current_database()"
    )
    await bench.accounts.revoke_key(key.key_id)
    statuses = []
    async with asyncio.timeout(5):
        while KeyStatus.REVOKED not in statuses:
            heard = await anext(watch)
            if heard is not None and heard.key_id == key.key_id:
                statuses.append(heard.status)


async def test_watches_end_when_the_service_does(bench: Bench) -> None:
    watch = bench.watch.changes()
    await anext(watch)
    await bench.watch.end_all()
    with pytest.raises(WatchEndedError):
        while True:
            await anext(watch)
