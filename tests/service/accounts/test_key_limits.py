"""Limits of keys as they change, whose keys are whose, and the public links of shared keys."""

import asyncio
from typing import Any

import pytest

from services.accounts.domain.account import AccountStatus
from services.accounts.domain.errors import FixedLimitsError, InvalidError, NotActiveError, NotFoundError
from services.accounts.domain.key import Capability, CreateKey, KeyKind, KeyStatus
from services.accounts.domain.limits import CapPeriod, ChangeLimits, Limits
from services.accounts.domain.people import Role
from tests.service.accounts.bench import Bench, told

SHARED: dict[str, Any] = {"kind": KeyKind.SHARED, "models": ("m",), "expires_in_days": 7}


async def test_limits_change_and_are_told_at_once(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account, limits=Limits(spend_cap_micro_idr=5, token_cap=7))
    watch = bench.watch.changes()
    await told(watch, account, 1)
    change = ChangeLimits(
        spend_cap_micro_idr=9, cap_period=CapPeriod.DAY, allowed_ips=("10.0.0.0/8",), requests_per_minute=3
    )
    for _ in range(2):
        changed = await bench.accounts.set_key_limits(key.key_id, change)
    assert changed.limits == Limits(9, 7, CapPeriod.DAY, ("10.0.0.0/8",), 3, 0)
    assert changed.version == 2
    (heard,) = await told(watch, account, 1, version=2)
    assert heard == changed
    events = await bench.key_events(key.key_id)
    assert [(event.spend_cap_micro_idr, event.allowed_ips) for event in events] == [(5, ()), (9, ("10.0.0.0/8",))]


async def test_the_caps_of_an_unshared_key_start_anew(bench: Bench) -> None:
    account = await bench.account()
    key = await bench.key(account, limits=Limits(spend_cap_micro_idr=5))
    ends = await asyncio.gather(*(bench.accounts.reset_caps(key.key_id) for _ in range(3)))
    assert sorted(end.cap_epoch for end in ends) == [1, 2, 3]
    assert [event.cap_epoch for event in await bench.key_events(key.key_id)] == [0, 1, 2, 3]


async def test_caps_of_shared_keys_and_keys_that_have_ended_are_fixed(bench: Bench) -> None:
    account = await bench.account()
    share = await bench.key(account, **SHARED, limits=Limits(spend_cap_micro_idr=5))
    only_tokens = await bench.key(account, limits=Limits(token_cap=5))
    ended = await bench.key(account, limits=Limits(spend_cap_micro_idr=5))
    await bench.accounts.revoke_key(ended.key_id)
    change = ChangeLimits(spend_cap_micro_idr=9)
    for refused, error in (
        (bench.accounts.set_key_limits(share.key_id, change), FixedLimitsError),
        (bench.accounts.reset_caps(share.key_id), FixedLimitsError),
        (bench.accounts.reset_caps(only_tokens.key_id), FixedLimitsError),
        (bench.accounts.set_key_limits(ended.key_id, change), NotActiveError),
        (bench.accounts.reset_caps(ended.key_id), NotActiveError),
        (bench.accounts.set_key_limits("key_none", change), NotFoundError),
        (bench.accounts.reset_caps("key_none"), NotFoundError),
    ):
        with pytest.raises(error):
            await refused


async def test_a_per_tool_key_may_do_no_more_than_its_login_key(bench: Bench) -> None:
    account = await bench.account()
    owner = await bench.member(account)
    limits = Limits(allowed_ips=("10.0.0.1",), requests_per_minute=3, tokens_per_minute=4)
    login = await bench.key(account, kind=KeyKind.LOGIN, member_id=owner.person_id, limits=limits)
    child, _ = await bench.tool_key(login)
    assert (child.limits, child.member_id) == (limits, owner.person_id)


async def test_a_key_is_a_members_and_ends_with_the_membership(bench: Bench) -> None:
    account = await bench.account()
    owner, member = await bench.member(account), await bench.member(account, Role.MEMBER)
    login = await bench.key(account, kind=KeyKind.LOGIN, member_id=member.person_id)
    child, _ = await bench.tool_key(login)
    theirs = await bench.key(account, member_id=member.person_id)
    others = [await bench.key(account, member_id=owner.person_id), await bench.key(account)]
    elsewhere = await bench.account()
    await bench.people.add(elsewhere.account_id, member.person_id, Role.OWNER, "")
    kept = await bench.key(elsewhere, member_id=member.person_id)
    watch = bench.watch.changes()
    await told(watch, account, 5)
    await bench.people.remove(account.account_id, member.person_id, owner.person_id)
    heard = {key.key_id: key.status for key in await told(watch, account, 3, version=2)}
    assert heard == dict.fromkeys((login.key_id, child.key_id, theirs.key_id), KeyStatus.REVOKED)
    assert [key for key in await bench.accounts.keys(account.account_id) if key.status is KeyStatus.ACTIVE] == others
    assert await bench.accounts.keys(elsewhere.account_id) == [kept]
    with pytest.raises(InvalidError, match="member"):
        await bench.key(account, member_id=member.person_id)


async def test_a_key_made_while_its_member_is_removed_does_not_outlive_the_membership(bench: Bench) -> None:
    account = await bench.account()
    await bench.member(account)
    for _ in range(5):
        member = await bench.member(account, Role.MEMBER)
        await asyncio.gather(
            bench.people.remove(account.account_id, member.person_id, ""),
            bench.key(account, member_id=member.person_id),
            return_exceptions=True,
        )
    assert all(key.status is KeyStatus.REVOKED for key in await bench.accounts.keys(account.account_id))


@pytest.mark.rule("AUTH-068")
async def test_a_share_has_a_public_link_that_tells_everything_but_the_key(bench: Bench) -> None:
    account = await bench.account()
    limits = Limits(spend_cap_micro_idr=5, token_cap=7, cap_period=CapPeriod.DAY)
    wanted = CreateKey(
        account.account_id, label="class", note="For the class", capabilities=(Capability.WEB_SEARCH,), limits=limits,
        **SHARED,
    )  # fmt: skip
    key, secret = await bench.accounts.create_key(wanted)
    other = await bench.key(account, **SHARED)
    assert len(key.link_token) >= 22 and key.link_token != other.link_token
    assert secret not in key.link_token and secret.startswith("kn-")
    share = await bench.accounts.share(key.link_token)
    assert (share.key, share.owner_name) == (key, account.name)
    assert (share.key.note, share.key.limits) == ("For the class", limits)
    assert (await bench.key(account)).link_token == ""
    for nothing in ("", "x" * 22, key.key_id):
        with pytest.raises(NotFoundError):
            await bench.accounts.share(nothing)


@pytest.mark.rule("AUTH-075")
async def test_a_link_opens_only_while_its_key_can_be_used(bench: Bench) -> None:
    account = await bench.account()
    revoked, expired, key = [await bench.key(account, **SHARED) for _ in range(3)]
    assert (await bench.accounts.revoke_key(revoked.key_id)).status is KeyStatus.REVOKED
    await bench.database.pool.execute(
        "update api_key set expires_at = now() - interval '1 second' where key_id = $1", expired.key_id
    )
    for ended in (revoked, expired):
        with pytest.raises(NotFoundError):
            await bench.accounts.share(ended.link_token)
    assert (await bench.accounts.share(key.link_token)).key == key
    await bench.accounts.set_disabled(key.key_id, True)
    with pytest.raises(NotFoundError):
        await bench.accounts.share(key.link_token)
    await bench.accounts.set_disabled(key.key_id, False)
    await bench.accounts.set_status(account.account_id, AccountStatus.SUSPENDED)
    with pytest.raises(NotFoundError):
        await bench.accounts.share(key.link_token)


@pytest.mark.rule("AUTH-041")
async def test_a_rotated_share_keeps_its_link_and_note(bench: Bench) -> None:
    account = await bench.account()
    old = await bench.key(account, **SHARED, note="hello")
    new, _ = await bench.accounts.rotate_key(old.key_id)
    assert (new.link_token, new.note) == (old.link_token, "hello")
    assert (await bench.accounts.share(old.link_token)).key == new
