"""Who pays for a request, and with how many tokens: the funding order, the caps, the lowering (R8-R17, R23-R38).

Called by book.py for reservations and jobs.
"""

from dataclasses import replace

from tests.money.model import sums
from tests.money.model.answers import Denied, Granted, Redirect
from tests.money.model.endpoints import ALLOWANCE, CHAT, FEES, expected_tokens, hold_amount
from tests.money.model.facts import DAY, Account, Allocation, Ask, Coupon, Hold, KeySlot, Source, Subscription
from tests.money.model.prices import SOFT_OUTPUT, expected, lowered, most_tokens

KEY_CAP = "key_spend_cap_reached"


def admit(account: Account, ask: Ask, now: int, ttl: int) -> Hold | Granted | Denied | Redirect:
    """Decide; a Hold is to be remembered, a Granted needs none."""
    if ask.subscribers_only and not _subscriber(account, ask, now):
        return Denied(403, "subscribers_only")
    where = sums.slot(ask, now)
    key_most = _key_most(account, ask, where)
    if ask.funding in ("free", "own_key"):
        return _unpaid(account, ask, where, key_most, now, ttl)
    if key_most is None:
        return _refusal(account, ask, KEY_CAP)
    source = _source(account, ask, now)
    if isinstance(source, Denied | Redirect):
        return source
    if source.kind != "payg":
        return _hold(ask, source, key_most, 0, where, now, ttl)
    return _from_balance(account, ask, source, key_most, where, now, ttl)


def _subscriber(account: Account, ask: Ask, now: int) -> bool:
    if sums.active(account, now) is not None:
        return True
    return any(_coupon_pays(account, coupon, ask, now) for coupon in account.coupons)


def _unpaid(
    account: Account, ask: Ask, where: KeySlot | None, key_most: int | None, now: int, ttl: int
) -> Hold | Granted | Denied:
    if key_most is None:
        return _refusal(account, ask, KEY_CAP)
    source = Source("free" if ask.funding == "free" else "byok")
    if where is None or not where.caps.tokens:
        return Granted(source.kind, ask.max_tokens, False, 0, sums.available(account), plan_left(account, now))
    hold = _hold(ask, source, key_most, 0, where, now, ttl)
    return replace(hold, key_amount=0)


def _key_most(account: Account, ask: Ask, where: KeySlot | None) -> int | None:
    """The output tokens the caps of the key leave to the request, None when they leave too few."""
    if where is None:
        return ask.max_tokens
    caps, bounds = where.caps, [ask.max_tokens]
    if caps.spend:
        spent = sums.key_spent(account, where)
        if spent >= caps.spend:
            return None
        if ask.funding not in ("free", "own_key"):
            bounds.append(_most(ask, caps.spend - spent - sums.key_reserved(account, where)))
    if caps.tokens:
        used = sums.key_tokens(account, where)
        if used >= caps.tokens:
            return None
        left = caps.tokens - used - sums.key_tokens_reserved(account, where)
        bounds.append(left - expected_tokens(ask, 0))
    return _fitting(ask, min(bounds))


def _most(ask: Ask, left: int) -> int:
    """The output tokens whose worst case fits; for what has no output: the asked number or -1."""
    if ask.endpoint in CHAT:
        return most_tokens(ask.price, ask.est_input, left, ask.max_tokens)
    return ask.max_tokens if hold_amount(ask, ask.max_tokens) <= left else -1


def _fitting(ask: Ask, most: int) -> int | None:
    if ask.endpoint in CHAT:
        return lowered(most, ask.max_tokens)
    return ask.max_tokens if most >= ask.max_tokens else None


def _source(account: Account, ask: Ask, now: int) -> Source | Denied | Redirect:
    """The one source that pays the whole request."""
    if ask.funding == "balance":
        return Source("payg")
    if ask.endpoint in ALLOWANCE:
        return _allowance(account, now)
    if ask.endpoint not in CHAT:
        return Source("payg")
    for coupon in sorted(account.coupons, key=lambda one: one.expires):
        if _coupon_pays(account, coupon, ask, now):
            return Source("coupon", coupon=coupon.coupon_id)
    for allocation in sorted(account.allocations, key=lambda one: one.expires):
        if _allocation_pays(account, allocation, ask, now):
            return Source("token_alloc", allocation=allocation.allocation_id)
    sub = sums.active(account, now)
    if sub is None:
        return _without_plan(account, ask)
    if ask.model not in sub.plan.models:
        return Source("payg")
    return _from_plan(account, ask, sub, now)


def _coupon_pays(account: Account, coupon: Coupon, ask: Ask, now: int) -> bool:
    if ask.model not in coupon.models or now >= coupon.expires:
        return False
    taken = sums.coupon_used(account, coupon) + sums.coupon_reserved(account, coupon)
    return coupon.budget is None or taken < coupon.budget


def _allocation_pays(account: Account, allocation: Allocation, ask: Ask, now: int) -> bool:
    if (allocation.models and ask.model not in allocation.models) or now >= allocation.expires:
        return False
    taken = sums.allocation_used(account, allocation) + sums.allocation_reserved(account, allocation)
    return taken < allocation.tokens


def _allowance(account: Account, now: int) -> Source:
    sub = sums.active(account, now)
    if sub is None or sums.searches_used(account, now) + sums.searches_reserved(account, now) >= (
        sub.plan.daily_searches
    ):
        return Source("payg")
    return Source("plan", search_day=now // DAY)


def _without_plan(account: Account, ask: Ask) -> Source | Redirect:
    last = sums.subscription(account)
    covered = last is not None and ask.model in last.plan.models
    covered = covered or any(ask.model in coupon.models for coupon in account.coupons)
    if covered and account.free_fallback and not account.keep_balance:
        return Redirect()
    return Source("payg")


def _from_plan(account: Account, ask: Ask, sub: Subscription, now: int) -> Source | Denied | Redirect:
    free_cache = ask.model in sub.plan.free_cache
    present = sums.windows(sub, now)
    if all(_has_room(account, sub, name, number) for name, number in present):
        return Source("plan", sub.number, present, free_cache=free_cache)
    if account.keep_balance:
        return Source("payg", free_cache=free_cache)
    return Redirect() if account.free_fallback else Denied(429, "plan_limit_reached")


def _has_room(account: Account, sub: Subscription, name: str, number: int) -> bool:
    ceiling = sub.plan.ceilings.get(name)
    taken = sums.window_used(account, sub, name, number) + sums.window_reserved(account, sub, name, number)
    return ceiling is None or taken < ceiling


def _from_balance(
    account: Account, ask: Ask, source: Source, key_most: int, where: KeySlot | None, now: int, ttl: int
) -> Hold | Denied:
    if _payg_limited(account, ask, now):
        return _refusal(account, ask, "payg_limit_reached")
    most = key_most
    cap = account.member_caps.get(ask.member) if ask.member else None
    if cap is not None:
        spent = sums.member_spent(account, ask.member, now)
        left = cap - spent - sums.member_reserved(account, ask.member)
        fitting = _fitting(ask, min(key_most, _most(ask, left)))
        if spent >= cap or fitting is None:
            return _refusal(account, ask, "member_spend_cap_reached")
        most = fitting
    fitting = _fitting(ask, min(most, _most(ask, sums.room(account))))
    if fitting is None:
        return _refusal(account, ask, "insufficient_balance")
    return _hold(ask, source, fitting, hold_amount(ask, fitting), where, now, ttl)


def _payg_limited(account: Account, ask: Ask, now: int) -> bool:
    if account.limit is None:
        return False
    spent = sums.payg_spent(account, now)
    fee = hold_amount(ask, 0) if ask.endpoint in FEES else 0
    return spent >= account.limit[0] or spent + fee > account.limit[0]


def _hold(ask: Ask, source: Source, tokens: int, amount: int, where: KeySlot | None, now: int, ttl: int) -> Hold:
    by_value = source.kind in ("plan", "coupon") and source.search_day is None
    return Hold(
        ask=ask,
        source=source,
        amount=amount,
        max_tokens=tokens,
        expires=now + ttl,
        slot=where,
        key_amount=hold_amount(ask, tokens) if where else 0,
        key_tokens=expected_tokens(ask, tokens) if where else 0,
        quota=expected(ask.price, ask.est_input, tokens) if by_value else 0,
        tokens=ask.est_input + min(tokens, SOFT_OUTPUT) if source.kind == "token_alloc" else 0,
    )


def _refusal(account: Account, ask: Ask, code: str) -> Denied:
    return Denied(402, code, sums.available(account), hold_amount(ask, ask.max_tokens))


def plan_left(account: Account, now: int) -> dict[str, int] | None:
    """Hundredths of each ceiling not yet used, None without an active plan."""
    sub = sums.active(account, now)
    if sub is None:
        return None
    left = {}
    for name, number in sums.windows(sub, now):
        ceiling = sub.plan.ceilings.get(name)
        if ceiling is not None:
            unused = max(0, ceiling - sums.window_used(account, sub, name, number))
            left[name] = unused * 100 // ceiling if ceiling else 0
    return left
