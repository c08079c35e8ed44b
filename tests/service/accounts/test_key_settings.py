"""What a key is made with and how it changes: restrictions, rotation, renaming, pauses, the account's limit."""

import asyncio
from dataclasses import fields

import pytest

from services.accounts.domain.account import AccountStatus
from services.accounts.domain.errors import KeyLimitError, NotActiveError, NotFoundError
from services.accounts.domain.key import Capability, CreateKey, KeyKind, KeyStatus
from services.accounts.domain.limits import CapPeriod, Limits
from tests.service.accounts.bench import KEY_LIMIT, Bench, told

EVERY_LIMIT = Limits(
    spend_cap_micro_idr=5, token_cap=7, cap_period=CapPeriod.WEEK, allowed_ips=("203.0.113.0/24", "2001:db8::1"),
    requests_per_minute=9, tokens_per_minute=1_000,
)  # fmt: skip
DAY_MS = 86_400_000


async def test_restrictions_are_stored_and_told(bench: Bench) -> None:
    account = await bench.account()
    wanted = CreateKey(account.account_id, models=("m",), capabilities=(Capability.WEB_SEARCH,), limits=EVERY_LIMIT)
    key, secret = await bench.accounts.create_key(wanted)
    (event,) = await bench.key_events(key.key_id)
    for said in (key, event):
        assert (said.kind, said.capabilities) == ("dashboard", ("web_search",))
        assert said.prefix == secret[:11]
        assert not said.disabled and not said.shared
    assert key.limits == EVERY_LIMIT
    assert all(getattr(event, field.name) == getattr(EVERY_LIMIT, field.name) for field in fields(Limits))


@pytest.mark.rule("AUTH-066")
async def test_a_shared_key_is_told_as_one_and_ends_after_its_days(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account, kind=KeyKind.SHARED, models=("m",), expires_in_days=90, limits=Limits(token_cap=1))
    (event,) = await bench.key_events(key.key_id)
    assert event.shared and event.kind == "shared"
    assert abs(event.expires_at_ms - event.created_at_ms - 90 * DAY_MS) < 60_000


@pytest.mark.rule("AUTH-041")
async def test_rotation_is_one_step_and_carries_every_setting_over(bench: Bench) -> None:
    account = await bench.account()
    old, old_secret = await bench.accounts.create_key(
        CreateKey(
            account.account_id, label="app", models=("m",), expires_in_days=3, limits=EVERY_LIMIT,
            capabilities=(Capability.X_SEARCH,), member_id=(await bench.member(account)).person_id,
        )
    )  # fmt: skip
    old = await bench.accounts.reset_caps(old.key_id)
    watch = bench.watch.changes()
    await told(watch, account, 1)
    new, secret = await bench.accounts.rotate_key(old.key_id)
    for name in ("label", "models", "expires_at_ms", "limits", "cap_epoch", "member_id", "capabilities", "kind"):
        assert getattr(new, name) == getattr(old, name)
    assert new.replaces_key_id == old.key_id
    was, now = await bench.resolve(old_secret), await bench.resolve(secret)
    assert was is not None and was.status is KeyStatus.REVOKED
    assert now == new and new.status is KeyStatus.ACTIVE
    heard: dict[str, KeyStatus] = {}
    # A watcher may hear of an earlier change twice.
    while heard != {old.key_id: KeyStatus.REVOKED, new.key_id: KeyStatus.ACTIVE}:
        (key,) = await told(watch, account, 1)
        heard[key.key_id] = key.status
    with pytest.raises(NotActiveError):
        await bench.accounts.rotate_key(old.key_id)
    with pytest.raises(NotFoundError):
        await bench.accounts.rotate_key("key_none")


@pytest.mark.rule("AUTH-041")
async def test_a_failed_rotation_leaves_the_old_key_active(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account)
    pool = bench.database.pool
    await pool.execute("alter table outbox add constraint broken check (topic <> 'accounts.keys.v1') not valid")
    try:
        with pytest.raises(Exception, match="broken"):
            await bench.accounts.rotate_key(key.key_id)
    finally:
        await pool.execute("alter table outbox drop constraint broken")
    assert await bench.accounts.keys(account.account_id) == [key]


async def test_two_rotations_at_once_make_one_successor(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account)
    ends = await asyncio.gather(*(bench.accounts.rotate_key(key.key_id) for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(end, NotActiveError) for end in ends) == 2
    assert len(await bench.accounts.keys(account.account_id)) == 2


async def test_a_label_can_be_changed_and_is_told(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account, label="old")
    for _ in range(2):
        renamed = await bench.accounts.rename_key(key.key_id, "new")
    assert (renamed.label, renamed.version) == ("new", 2)
    assert [event.label for event in await bench.key_events(key.key_id)] == ["old", "new"]
    with pytest.raises(NotFoundError):
        await bench.accounts.rename_key("key_none", "x")


async def test_a_key_can_be_paused_and_comes_back_but_not_once_it_is_revoked(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account)
    paused = await bench.accounts.set_disabled(key.key_id, True)
    assert paused.disabled and paused.status is KeyStatus.ACTIVE
    assert not (await bench.accounts.set_disabled(key.key_id, False)).disabled
    assert [event.disabled for event in await bench.key_events(key.key_id)] == [False, True, False]
    await bench.accounts.revoke_key(key.key_id)
    for disabled in (True, False):
        with pytest.raises(NotActiveError):
            await bench.accounts.set_disabled(key.key_id, disabled)


@pytest.mark.rule("KEY-034")
async def test_an_account_has_a_limited_number_of_active_keys_also_when_they_are_made_at_once(bench: Bench) -> None:
    account = await bench.account()
    login = await bench.login_key(account)
    for _ in range(KEY_LIMIT - 4):
        await bench.key(account)
    made = await asyncio.gather(*(bench.key(account) for _ in range(6)), return_exceptions=True)
    assert sum(isinstance(one, KeyLimitError) for one in made) == 3
    with pytest.raises(KeyLimitError, match=r"^key limit reached$"):
        await bench.tool_key(login)
    await bench.accounts.revoke_key(next(one.key_id for one in made if not isinstance(one, BaseException)))
    await bench.tool_key(login)


async def test_accounts_are_listed_page_by_page(bench: Bench) -> None:
    ids = sorted([(await bench.account()).account_id for _ in range(3)])
    await bench.accounts.set_status(ids[1], AccountStatus.SUSPENDED)
    first = await bench.accounts.accounts("", 2)
    rest = await bench.accounts.accounts(first[-1].account_id, 0)
    assert [account.account_id for account in first + rest] == ids
    assert first[1].status is AccountStatus.SUSPENDED
