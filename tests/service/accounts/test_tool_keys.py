"""Per-tool keys on a real PostgreSQL: whose they are, how many, how fast, and what ends them."""

import asyncio
import time

import pytest

from services.accounts.domain.account import Account
from services.accounts.domain.errors import ChildKeyCapError, KeyCreationRateError, NotFoundError
from services.accounts.domain.key import CreateKey, Key, KeyKind, KeyStatus
from tests.service.accounts.bench import Bench


@pytest.fixture
async def account(bench: Bench) -> Account:
    return await bench.account()


@pytest.fixture
async def login(bench: Bench, account: Account) -> Key:
    return await bench.login_key(account)


async def a_minute_passes(bench: Bench) -> None:
    await bench.database.pool.execute("update tool_key_request set at = at - interval '1 minute'")


async def fill(bench: Bench, login: Key, wanted: int) -> list[Key]:
    """Per-tool keys as if made over some minutes."""
    keys = []
    for number in range(wanted):
        if number % 20 == 0:
            await a_minute_passes(bench)
        keys.append((await bench.tool_key(login))[0])
    await a_minute_passes(bench)
    return keys


@pytest.mark.rule("KEY-013", "KEY-014", "KEY-020", "KEY-022")
async def test_per_tool_keys_are_their_login_keys_own_newest_first(bench: Bench, account: Account, login: Key) -> None:
    other = await bench.login_key(account)
    first, secret = await bench.tool_key(login, "opencode")
    second, _ = await bench.tool_key(login, "opencode")
    await bench.tool_key(other)
    assert await bench.accounts.tool_keys(login.key_id) == [second, first]
    assert first.kind is KeyKind.TOOL and first.parent_key_id == login.key_id
    assert first.label == "kenari-cli · opencode · laptop"
    assert secret.startswith(first.prefix) and len(first.prefix) == 11
    assert await bench.resolve(secret) == first
    (event,) = await bench.key_events(first.key_id)
    assert (event.kind, event.parent_key_id) == ("tool", login.key_id)


async def test_a_per_tool_key_ends_when_its_login_key_does(bench: Bench, account: Account) -> None:
    login = await bench.key(account, kind=KeyKind.LOGIN, expires_in_days=3)
    key, _ = await bench.tool_key(login)
    assert key.expires_at_ms == login.expires_at_ms


@pytest.mark.rule("KEY-004")
async def test_only_an_active_login_key_makes_keys(bench: Bench, account: Account, login: Key) -> None:
    tool, _ = await bench.tool_key(login)
    ended = await bench.login_key(account)
    await bench.accounts.revoke_key(ended.key_id)
    for key in (await bench.key(account), tool, ended):
        with pytest.raises(NotFoundError):
            await bench.tool_key(key)


@pytest.mark.rule("KEY-028", "KEY-030", "KEY-031")
async def test_only_an_active_per_tool_key_of_the_login_key_is_revoked(
    bench: Bench, account: Account, login: Key
) -> None:
    other = await bench.login_key(account)
    mine, kept = (await bench.tool_key(login))[0], (await bench.tool_key(login))[0]
    theirs, dashboard = (await bench.tool_key(other))[0], await bench.key(account)
    revoked = await bench.accounts.revoke_tool_key(login.key_id, mine.key_id)
    assert revoked.status is KeyStatus.REVOKED
    for key_id in (mine.key_id, theirs.key_id, dashboard.key_id, login.key_id, "key_none", ""):
        with pytest.raises(NotFoundError):
            await bench.accounts.revoke_tool_key(login.key_id, key_id)
    assert await bench.accounts.tool_keys(login.key_id) == [kept]
    await bench.accounts.revoke_key(kept.key_id)
    assert await bench.accounts.tool_keys(login.key_id) == []
    assert await bench.accounts.tool_keys(other.key_id) == [theirs]


@pytest.mark.rule("AUTH-040", "KEY-036")
async def test_a_revoked_login_key_takes_its_per_tool_keys_along(bench: Bench, account: Account, login: Key) -> None:
    children = [(await bench.tool_key(login))[0] for _ in range(3)]
    other, _ = await bench.tool_key(await bench.login_key(account))
    await bench.accounts.revoke_key(login.key_id)
    for key in (login, *children):
        assert [event.status for event in await bench.key_events(key.key_id)] == ["active", "revoked"]
    assert [event.status for event in await bench.key_events(other.key_id)] == ["active"]


@pytest.mark.rule("KEY-037")
async def test_rotating_a_login_key_ends_its_per_tool_keys_and_makes_an_ordinary_key(bench: Bench, login: Key) -> None:
    child, secret = await bench.tool_key(login)
    new, _ = await bench.accounts.rotate_key(login.key_id)
    assert new.kind is KeyKind.DASHBOARD
    ended = await bench.resolve(secret)
    assert ended is not None and ended.status is KeyStatus.REVOKED
    assert len(await bench.key_events(child.key_id)) == 2
    with pytest.raises(NotFoundError):
        await bench.tool_key(new)


async def test_a_rotated_per_tool_key_stays_its_login_keys(bench: Bench, login: Key) -> None:
    child, _ = await bench.tool_key(login)
    new, _ = await bench.accounts.rotate_key(child.key_id)
    assert await bench.accounts.tool_keys(login.key_id) == [new]
    await bench.accounts.revoke_key(login.key_id)
    assert (await bench.key_events(new.key_id))[-1].status == "revoked"


@pytest.mark.rule("KEY-032", "KEY-033")
async def test_a_login_key_holds_thirty_active_per_tool_keys(bench: Bench, account: Account, login: Key) -> None:
    keys = await fill(bench, login, 30)
    with pytest.raises(ChildKeyCapError):
        await bench.tool_key(login)
    await bench.tool_key(await bench.login_key(account))
    await bench.accounts.revoke_tool_key(login.key_id, keys[0].key_id)
    await bench.tool_key(login)


@pytest.mark.rule("KEY-034")
async def test_the_login_keys_own_limit_is_told_before_the_accounts(bench: Bench, account: Account, login: Key) -> None:
    await fill(bench, login, 30)
    for _ in range(9):
        await bench.accounts.create_key(CreateKey(account.account_id))
    with pytest.raises(ChildKeyCapError):
        await bench.tool_key(login)


@pytest.mark.rule("KEY-035")
async def test_twenty_requests_a_minute_are_counted_with_the_creation(
    bench: Bench, account: Account, login: Key
) -> None:
    made = await asyncio.gather(*(bench.tool_key(login) for _ in range(23)), return_exceptions=True)
    assert sum(isinstance(one, KeyCreationRateError) for one in made) == 3
    assert len(await bench.accounts.tool_keys(login.key_id)) == 20
    await bench.tool_key(await bench.login_key(account))
    await a_minute_passes(bench)
    await bench.tool_key(login)


async def test_a_request_refused_for_another_reason_counts_too(bench: Bench, login: Key) -> None:
    await fill(bench, login, 30)
    for _ in range(20):
        with pytest.raises(ChildKeyCapError):
            await bench.tool_key(login)
    with pytest.raises(KeyCreationRateError):
        await bench.tool_key(login)


@pytest.mark.rule("KEY-023")
async def test_the_last_use_of_a_key_is_noted_and_never_goes_back(bench: Bench, login: Key) -> None:
    key, _ = await bench.tool_key(login)
    assert key.last_used_at_ms == 0
    now = int(time.time() * 1000)
    for moment in (now - 5_000, now, now - 9_000):
        await bench.accounts.used({key.key_id: moment, "key_none": moment})
    (used,) = await bench.accounts.tool_keys(login.key_id)
    assert (used.last_used_at_ms, used.version) == (now, 1)
