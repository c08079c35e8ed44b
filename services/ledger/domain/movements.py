"""What each call does to its account once it is decided: hold, charge, give back.

Called by services/ledger/batch.py and by paid_jobs.py with the account's wallet locked. Every function changes the
account's state and adds to the batch's effects; none can fail half way (ledger rules R25-R50).
"""

from libs.core.money import Micros
from services.ledger.domain import alerts
from services.ledger.domain.calls import Reserve, Settle
from services.ledger.domain.effects import Book, Conflict, Effects, UsageRow
from services.ledger.domain.funding import Redirect, Refusal, Verdict, cap_start, decide
from services.ledger.domain.meters import NOTHING, WorstCase, Worth, held_units
from services.ledger.domain.state import Account, Hold, Mark, MemberSpend, Wallet

CAPPED = frozenset({"payg", "plan", "coupon", "token_alloc"})
"""Kinds whose list value counts towards a key's spend cap."""


def reserve(
    account: Account, call: Reserve, worst: WorstCase, effects: Effects, *, day: str, now_ms: int, ttl_ms: int
) -> Hold | Refusal | Redirect:
    """Decide and take what the decision needs. A hold with state "" needs no row: nothing leans on it.

    A job that is paid on acceptance has no row yet either: paid_jobs.accept comes next.
    """
    verdict = decide(account, call, worst, now_ms)
    if isinstance(verdict, Refusal):
        _tell_of_caps(account, call, verdict.code, effects, now_ms)
    if not isinstance(verdict, Verdict):
        return verdict
    hold = _hold(call, verdict, worst, day, now_ms, ttl_ms)
    lean(account, hold, 1)
    if call.caps and (key := account.key_of(hold)) is not None:
        key.spend_cap = call.caps.spend
        key.changed = True
    if hold.funding in ("free", "byok") and hold.key_epoch is None:
        hold.state = ""
    elif not call.on_acceptance:
        effects.holds.append(hold)
    return hold


def _tell_of_caps(account: Account, call: Reserve, code: str, effects: Effects, now_ms: int) -> None:
    if code == "key_spend_cap_reached":
        key = account.key(call.key_id, call.caps.epoch, cap_start(call.caps, now_ms))
        key.spend_cap = call.caps.spend
        effects.tell(account.id, *alerts.key_cap(account, key, refused=True))
    elif code == "member_spend_cap_reached":
        effects.tell(account.id, *alerts.member_cap(account, account.member(call.member_id), now_ms))


def _hold(call: Reserve, verdict: Verdict, worst: WorstCase, day: str, now_ms: int, ttl_ms: int) -> Hold:
    source, caps = verdict.source, call.caps
    least = WorstCase(worst.input_product, worst.output_price, verdict.max_tokens)
    quota = 0
    if source.allowance_day is not None:
        quota = 1
    elif source.tokens:
        quota = call.input_tokens + min(verdict.max_tokens, 4096)
    elif source.kind in ("plan", "coupon"):
        quota = least.soft
    # A free request leans on a key's caps only when tokens are capped: that it costs nothing is certain.
    counted = bool(caps.tokens) or (bool(caps.spend) and source.kind in CAPPED)
    return Hold(
        day=day,
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        member_id=call.member_id,
        endpoint=call.endpoint,
        model=call.model,
        funding=source.kind,
        amount=verdict.amount,
        max_tokens=verdict.max_tokens,
        lowered=verdict.max_tokens < call.max_tokens,
        price_version=call.price_version,
        request_hash=call.content_hash(),
        quota=quota,
        source_id=source.source_id,
        cycle=source.plan.cycle if source.plan is not None else None,
        windows=source.windows,
        allowance_day=source.allowance_day,
        key_epoch=caps.epoch if counted else None,
        key_starts=cap_start(caps, now_ms) if counted else None,
        key_amount=least.full if counted and caps.spend and source.kind in CAPPED else 0,
        key_tokens=call.input_tokens + verdict.max_tokens if counted and caps.tokens else 0,
        free_cache=source.free_cache,
        units=held_units(call),
        created_ms=now_ms,
        expires_ms=now_ms + ttl_ms,
    )


def lean(account: Account, hold: Hold, sign: int) -> None:
    """Take what the hold needs of everything it leans on (1), or let go of it (-1)."""
    if account.wallet is not None and hold.amount:
        account.wallet.reserved += sign * hold.amount
        account.wallet.changed = True
        if hold.member_id:
            member = account.member(hold.member_id)
            member.reserved += sign * hold.amount
            member.changed = True
    for window in account.windows_of(hold):
        window.reserved += sign * hold.quota
        window.changed = True
    if hold.funding == "coupon" and (coupon := account.coupon_of(hold)) is not None:
        coupon.reserved += sign * hold.quota
        coupon.changed = True
    if hold.funding == "token_alloc" and (allocation := account.allocation_of(hold)) is not None:
        allocation.reserved += sign * hold.quota
        allocation.changed = True
    if hold.allowance_day is not None:
        allowance = account.allowance(hold.allowance_day)
        allowance.reserved += sign * hold.quota
        allowance.changed = True
    if (key := account.key_of(hold)) is not None:
        key.reserved += sign * hold.key_amount
        key.tokens_reserved += sign * hold.key_tokens
        key.changed = True


def release(account: Account, hold: Hold, effects: Effects, state: str = "released") -> None:
    """Give an open hold back; ``state`` "expired" when nobody finished it."""
    lean(account, hold, -1)
    hold.state = state
    effects.ended.append(hold)


def settle(
    account: Account,
    hold: Hold | None,
    call: Settle,
    worth: Worth,
    effects: Effects,
    *,
    day: str,
    now_ms: int,
    trace: str,
) -> int:
    """Charge what the request was worth to whoever pays, write its usage row; return the cost.

    ``hold`` is open or expired, or None where nothing was ever held.
    """
    kind = call.billing_kind
    cost = worth.net if kind == "payg" else Micros(0)
    if hold is not None:
        if hold.state == "open":
            lean(account, hold, -1)
        consume(account, hold, worth, effects)
        if cost:
            take(account, hold, cost, "usage", Book.USAGE_REVENUE, effects, now_ms)
        hold.state, hold.cost = "settled", cost
        effects.ended.append(hold)
    effects.usage.append(_row(call, hold, worth, cost, day, trace))
    return cost


def consume(account: Account, hold: Hold, worth: Worth, effects: Effects) -> None:
    """Book the request on quotas and caps; the windows are those it was admitted in."""
    for window in account.windows_of(hold):
        window.used += worth.net
        window.changed = True
        effects.tell(account.id, *alerts.quota(account, window))
    if hold.funding == "coupon" and (coupon := account.coupon_of(hold)) is not None:
        coupon.used += worth.value
        coupon.changed = True
    if hold.funding == "token_alloc" and (allocation := account.allocation_of(hold)) is not None:
        allocation.used += worth.tokens
        allocation.changed = True
    if hold.allowance_day is not None and worth is not NOTHING:
        allowance = account.allowance(hold.allowance_day)
        allowance.used += 1
        allowance.changed = True
    if (key := account.key_of(hold)) is not None:
        key.spent += worth.value if hold.funding in CAPPED else 0
        key.tokens += worth.tokens
        key.changed = True
        effects.tell(account.id, *alerts.key_cap(account, key, refused=False))


def take(account: Account, hold: Hold, amount: int, kind: str, credit: Book, effects: Effects, now_ms: int) -> None:
    """Take money for usage out of the balance: bonus first, then paid, below zero if it must be."""
    wallet, minute = account.wallet, now_ms // 60_000
    assert wallet is not None
    bonus = min(wallet.bonus, amount)
    wallet.bonus -= bonus
    wallet.paid -= amount - bonus
    _spend(account, wallet, account.id, amount, minute)
    if hold.member_id:
        _spend(account, account.member(hold.member_id), f"{account.id}/{hold.member_id}", amount, minute)
    effects.move(hold, kind, 0, Book.BONUS, credit, bonus)
    effects.move(hold, kind, 1, Book.PAID, credit, amount - bonus)
    effects.tell(account.id, *alerts.low_balance(account))


def _spend(account: Account, scope: Wallet | MemberSpend, scope_id: str, amount: int, minute: int) -> None:
    if minute > scope.mark:
        scope.mark = minute
        account.marks.append(Mark(scope_id, minute, scope.cum))
    if scope.cum_from is None:
        scope.cum_from = scope.cum
    scope.cum += amount
    scope.changed = True


def _row(call: Settle, hold: Hold | None, worth: Worth, cost: int, day: str, trace: str) -> UsageRow:
    return UsageRow(
        day=day,
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        model=call.model,
        vendor=call.vendor,
        endpoint=call.endpoint,
        billing_kind=call.billing_kind,
        outcome=call.outcome,
        estimated=call.estimated,
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        cached_tokens=call.cached_tokens,
        cache_write_tokens=call.cache_write_tokens,
        cost=cost,
        catalog=worth.value,
        settle_hash=call.content_hash(),
        started_ms=call.started_at_ms or int(call.request_id[:12], 16),
        member_id=hold.member_id if hold is not None else "",
        cache_saved=worth.value - worth.net,
        units=call.units,
        trace=trace,
    )


def conflict(call: Settle, reason: str, worth: Worth, effects: Effects) -> None:
    """Note a settlement that says something else than what stands."""
    effects.conflicts.append(
        Conflict(call.request_id, call.line, call.account_id, reason, worth.net, call.content_hash())
    )
