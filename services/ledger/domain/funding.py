"""THE decision: which source pays for a request and how many tokens it carries, or why it must not run.

Called by movements.py under the account's lock (contract: How billing works, Subscriptions, Restrict a key). One source
pays the whole request. Refusals come in the order in which their owner can lift them: the key's caps, the PAYG limit,
the member's cap, the balance last, so that a top-up helps when we say so.
"""

import functools
from collections.abc import Iterable
from datetime import date, timedelta
from typing import TypeVar

import msgspec

from libs.core.money import Micros
from services.ledger.domain import windows
from services.ledger.domain.calls import KeyCaps, Reserve
from services.ledger.domain.meters import ALLOWANCE, Meter, WorstCase, lowerable, meter
from services.ledger.domain.state import Account, Allocation, Allowance, Coupon, KeySpend, MemberSpend, Plan

Grant = TypeVar("Grant", Coupon, Allocation)

_EPOCH = date(1970, 1, 1)
_LIFETIME = _EPOCH.isoformat()
_DAY_MS = 86_400_000


class Source(msgspec.Struct, frozen=True, gc=False):
    """Who pays. ``source_id`` is that of a coupon or token allocation; ``windows`` those of the plan by kind."""

    kind: str
    source_id: str | None = None
    plan: Plan | None = None
    windows: list[int | None] | None = None
    allowance_day: str | None = None
    free_cache: bool = False
    tokens: bool = False


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The request may run with ``max_tokens``; ``amount`` is held of the balance."""

    source: Source
    max_tokens: int
    amount: Micros


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """The request must not run; ``code`` is the contract's."""

    code: str


class Redirect(msgspec.Struct, frozen=True, gc=False):
    """The request goes to the free models: ``plan_spent``, ``plan_ended`` or ``coupon_spent``."""

    reason: str


PAYG = Source("payg")


def cap_start(caps: KeyCaps, at_ms: int) -> str:
    """The UTC day (ISO) from which the caps' present count runs."""
    today = _EPOCH + timedelta(days=at_ms // _DAY_MS)
    if caps.period == "day":
        return today.isoformat()
    if caps.period == "week":
        return (today - timedelta(days=today.weekday())).isoformat()
    return today.replace(day=1).isoformat() if caps.period == "month" else _LIFETIME


def utc_day(at_ms: int) -> str:
    """The UTC day (ISO) of a moment."""
    return _day(at_ms // _DAY_MS)


@functools.lru_cache(maxsize=8)
def _day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).isoformat()


def decide(account: Account, call: Reserve, worst: WorstCase, now_ms: int) -> Verdict | Refusal | Redirect:
    """Decide on one request; changes nothing. What it takes is taken by movements.reserve."""
    if call.subscribers_only and not _subscribed(account, call.model, now_ms):
        return Refusal("subscribers_only")
    most = worst.asked
    if call.caps:
        counted = account.keys.get((call.key_id, call.caps.epoch, cap_start(call.caps, now_ms)))
        most = _within_key(call, worst, counted)
        if most < 0:
            return Refusal("key_spend_cap_reached")
    source = _source(account, call, now_ms)
    if not isinstance(source, Source):
        return source
    if source.kind != "payg":
        return Verdict(source, most, Micros(0))
    return _from_balance(account, call, worst, most, source)


def _subscribed(account: Account, model: str, now_ms: int) -> bool:
    """An active plan, or a coupon for just this model."""
    if account.plan is not None and account.plan.active(now_ms):
        return True
    return any(model in coupon.models and _has_room(coupon) for coupon in _in_force(account.coupons, now_ms))


def _within_key(call: Reserve, worst: WorstCase, counted: KeySpend | None) -> int:
    """The most output tokens the key's caps carry, up to those asked; below 0 when the request must not run."""
    spent, reserved = (counted.spent, counted.reserved) if counted is not None else (0, 0)
    tokens, running = (counted.tokens, counted.tokens_reserved) if counted is not None else (0, 0)
    most = worst.asked
    if call.caps.spend:
        if spent >= call.caps.spend:
            return -1
        if call.funding in ("order", "balance"):
            most = worst.most(call.caps.spend - spent - reserved)
    if call.caps.tokens:
        if tokens >= call.caps.tokens:
            return -1
        left = call.caps.tokens - tokens - running - call.input_tokens
        if left < worst.asked:
            most = min(most, left if lowerable(left, worst.asked) else -1)
    return most


def _source(account: Account, call: Reserve, now_ms: int) -> Source | Refusal | Redirect:
    if call.funding in ("free", "byok"):
        return Source(call.funding)
    if call.endpoint in ALLOWANCE:
        return _allowance(account, now_ms) or PAYG
    if call.funding == "balance" or meter(call.endpoint) is not Meter.CHAT:
        return PAYG
    for coupon in _in_force(account.coupons, now_ms):
        if call.model in coupon.models and _has_room(coupon):
            return Source("coupon", coupon.id)
    for allocation in _in_force(account.allocations, now_ms):
        meant = not allocation.models or call.model in allocation.models
        if meant and allocation.used + allocation.reserved < allocation.tokens:
            return Source("token_alloc", allocation.id, tokens=True)
    return _from_plan(account, call.model, now_ms)


def _in_force(grants: Iterable[Grant], now_ms: int) -> list[Grant]:
    """Those not expired; the books give them in the order in which they end."""
    return [grant for grant in grants if now_ms < grant.ends_ms]


def _has_room(coupon: Coupon) -> bool:
    return coupon.budget is None or coupon.used + coupon.reserved < coupon.budget


def _allowance(account: Account, now_ms: int) -> Source | None:
    plan = account.plan
    if plan is None or not plan.active(now_ms):
        return None
    day = utc_day(now_ms)
    today = account.allowances.get(day) or Allowance(account.id, day)
    if today.used + today.reserved >= plan.daily_searches:
        return None
    return Source("plan", allowance_day=day)


def _from_plan(account: Account, model: str, now_ms: int) -> Source | Refusal | Redirect:
    """Plan, or what its owner wants when it is spent or over, or the balance."""
    plan, wallet = account.plan, account.wallet
    keep, fallback = (wallet.keep_balance, wallet.free_fallback) if wallet is not None else (False, False)
    if plan is not None and plan.active(now_ms):
        if model not in plan.models:
            return PAYG
        free_cache = model in plan.free_cache
        if windows.has_room(account, plan, now_ms):
            limited = {kind for kind, _ in windows.limited(plan)}
            indexes = [windows.index(plan, kind, now_ms) if kind in limited else None for kind in (1, 2, 3)]
            return Source("plan", plan=plan, windows=indexes, free_cache=free_cache)
        if keep:
            return Source("payg", free_cache=free_cache)
        return Redirect("plan_spent") if fallback else Refusal("plan_limit_reached")
    if fallback and not keep:
        if plan is not None and model in plan.models:
            return Redirect("plan_ended")
        if any(model in coupon.models for coupon in account.coupons):
            return Redirect("coupon_spent")
    return PAYG


def _from_balance(
    account: Account, call: Reserve, worst: WorstCase, most: int, source: Source
) -> Verdict | Refusal | Redirect:
    wallet = account.wallet
    if wallet is not None and wallet.payg_limit is not None:
        # The request that crosses the limit completes; a flat fee that would cross it does not.
        fee = worst.full if meter(call.endpoint) is Meter.FEE else 0
        spent = wallet.limit_spent
        if spent >= wallet.payg_limit or spent + fee > wallet.payg_limit:
            return Refusal("payg_limit_reached")
    member = account.members.get(call.member_id) if call.member_id else None
    if member is not None and member.cap is not None:
        most = min(most, _member_most(member, member.cap, worst))
        if most < 0:
            return Refusal("member_spend_cap_reached")
    most = min(most, worst.most(wallet.room) if wallet is not None else -1)
    if most < 0:
        return Refusal("insufficient_balance")
    return Verdict(source, most, worst.amount(most))


def _member_most(member: MemberSpend, cap: int, worst: WorstCase) -> int:
    return worst.most(cap - member.spent - member.reserved)
