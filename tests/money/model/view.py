"""One account as its reads show it, for comparing the model with the ledger.

Called by pair.py.
"""

from typing import Any

from tests.money.model import sums
from tests.money.model.facts import LENGTHS, Account, KeySlot


def slots_of(account: Account, now: int) -> list[KeySlot]:
    """The present period of every capped key that was used, in the order of first use, with the caps of last use."""
    holds = [*account.holds.values(), *(job.hold for job in account.jobs.values())]
    found = {(hold.slot.key, hold.slot.epoch): sums.slot(hold.ask, now) for hold in holds if hold.slot}
    return [slot for slot in found.values() if slot is not None]


def view(account: Account, now: int, slots: list[KeySlot]) -> dict[str, Any]:
    """What the reads must tell now."""
    sub = sums.subscription(account)
    return {
        "balance": (sums.balance(account), sums.reserved(account), sums.available(account)),
        "wallet": (account.paid, account.bonus, account.paid_in),
        "settings": (account.keep_balance, account.free_fallback),
        "limit": account.limit,
        "payg_spent": sums.payg_spent(account, now),
        "plan": None
        if sub is None
        else (sub.plan.plan_id, sub.source, sub.anchor, sub.ends, now < sub.ends, account.auto_renew),
        "windows": _windows(account, now),
        "searches": (0, 0) if sub is None else (sub.plan.daily_searches, sums.searches_used(account, now)),
        "coupons": {one.coupon_id: sums.coupon_used(account, one) for one in account.coupons},
        "allocations": {one.allocation_id: sums.allocation_used(account, one) for one in account.allocations},
        "members": {
            member: (cap, sums.member_spent(account, member, now)) for member, cap in account.member_caps.items()
        },
        "keys": [_key(account, slot) for slot in slots],
    }


def _windows(account: Account, now: int) -> dict[str, tuple[int, int, int, int]]:
    sub = sums.active(account, now)
    if sub is None:
        return {}
    found = {}
    for name, number in sums.windows(sub, now):
        ceiling = sub.plan.ceilings.get(name)
        if ceiling is not None:
            found[name] = (
                ceiling,
                sums.window_used(account, sub, name, number),
                sums.window_reserved(account, sub, name, number),
                sub.anchor + (number + 1) * LENGTHS[name],
            )
    return found


def _key(account: Account, slot: KeySlot) -> tuple[int, int, int, int]:
    spend = (sums.key_spent(account, slot), sums.key_reserved(account, slot)) if slot.caps.spend else (0, 0)
    tokens = (sums.key_tokens(account, slot), sums.key_tokens_reserved(account, slot)) if slot.caps.tokens else (0, 0)
    return *spend, *tokens
