"""Sums over an account's facts: what is reserved, used and spent, anew at every question.

Asked by admission.py, plans.py and the tests.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from tests.money.model.facts import (
    CYCLE,
    DAY,
    LENGTHS,
    LIMIT_WINDOWS,
    MINUTE,
    Account,
    Allocation,
    Ask,
    Coupon,
    Hold,
    KeySlot,
    Subscription,
)


def open_holds(account: Account) -> Iterator[Hold]:
    return (hold for hold in account.holds.values() if hold.state == "open")


def balance(account: Account) -> int:
    return account.paid + account.bonus


def reserved(account: Account) -> int:
    return sum(hold.amount for hold in open_holds(account))


def room(account: Account) -> int:
    """Balance less holds; below zero when settlements went beyond them."""
    return balance(account) - reserved(account)


def available(account: Account) -> int:
    return max(0, room(account))


def draws(account: Account) -> Iterator[tuple[int, str, int]]:
    """Money taken from the balance for usage, as (minute, member, amount). A refunded job took nothing."""
    for row in account.rows.values():
        if row.cost:
            yield row.booked // MINUTE, row.hold.ask.member, row.cost
    for job in account.jobs.values():
        if job.state != "refunded":
            yield job.booked // MINUTE, job.hold.ask.member, job.cost


def drawn(account: Account, now: int, window: int, member: str | None = None) -> int:
    """Draws of the last ``window`` ms. A minute counts until all of it lies before the window."""
    first = (now - window) // MINUTE
    return sum(
        amount for minute, whose, amount in draws(account) if minute >= first and (member is None or whose == member)
    )


def payg_spent(account: Account, now: int) -> int:
    """Spend that counts towards the limit; 0 without a limit."""
    return 0 if account.limit is None else drawn(account, now, LIMIT_WINDOWS[account.limit[1]])


def member_spent(account: Account, member: str, now: int) -> int:
    return drawn(account, now, CYCLE, member)


def member_reserved(account: Account, member: str) -> int:
    return sum(hold.amount for hold in open_holds(account) if hold.ask.member == member)


def slot(ask: Ask, now: int) -> KeySlot | None:
    """Where this request counts towards the caps of its key."""
    caps = ask.caps
    if not (caps.spend or caps.tokens):
        return None
    day = datetime.fromtimestamp(now // 1000, UTC).date()
    start = {
        "": "",
        "day": f"{day}",
        "week": f"{day - timedelta(days=day.weekday())}",
        "month": f"{day.replace(day=1)}",
    }[caps.period]
    return KeySlot(ask.key, caps.epoch, start, caps)


def _same(one: KeySlot | None, other: KeySlot) -> bool:
    return one is not None and (one.key, one.epoch, one.start) == (other.key, other.epoch, other.start)


def key_spent(account: Account, where: KeySlot) -> int:
    """List value of what a key used in a period; free and own-key requests have none."""
    rows = sum(
        row.catalog
        for row in account.rows.values()
        if _same(row.hold.slot, where) and row.hold.source.kind not in ("free", "byok")
    )
    jobs = sum(job.cost for job in account.jobs.values() if job.state != "refunded" and _same(job.hold.slot, where))
    return rows + jobs


def key_reserved(account: Account, where: KeySlot) -> int:
    return sum(hold.key_amount for hold in open_holds(account) if _same(hold.slot, where))


def key_tokens(account: Account, where: KeySlot) -> int:
    """Prompt and completion tokens of every request of a key in a period."""
    return sum(row.tokens for row in account.rows.values() if _same(row.hold.slot, where))


def key_tokens_reserved(account: Account, where: KeySlot) -> int:
    return sum(hold.key_tokens for hold in open_holds(account) if _same(hold.slot, where))


def subscription(account: Account) -> Subscription | None:
    """The last one there was, in force or ended."""
    return account.subscriptions[-1] if account.subscriptions else None


def active(account: Account, now: int) -> Subscription | None:
    last = subscription(account)
    return last if last is not None and now < last.ends else None


def windows(sub: Subscription, now: int) -> tuple[tuple[str, int], ...]:
    """Each window with the number of its present turn since the anchor."""
    return tuple((name, (now - sub.anchor) // length) for name, length in LENGTHS.items())


def window_used(account: Account, sub: Subscription, name: str, number: int) -> int:
    return sum(
        row.net
        for row in account.rows.values()
        if row.hold.source.subscription == sub.number
        and row.hold.source.kind == "plan"
        and (name, number) in row.hold.source.windows
    )


def window_reserved(account: Account, sub: Subscription, name: str, number: int) -> int:
    return sum(
        hold.quota
        for hold in open_holds(account)
        if hold.source.subscription == sub.number
        and hold.source.kind == "plan"
        and (name, number) in hold.source.windows
    )


def coupon_used(account: Account, coupon: Coupon) -> int:
    return sum(row.catalog for row in account.rows.values() if row.hold.source.coupon == coupon.coupon_id)


def coupon_reserved(account: Account, coupon: Coupon) -> int:
    return sum(hold.quota for hold in open_holds(account) if hold.source.coupon == coupon.coupon_id)


def allocation_used(account: Account, allocation: Allocation) -> int:
    return sum(row.tokens for row in account.rows.values() if row.hold.source.allocation == allocation.allocation_id)


def allocation_reserved(account: Account, allocation: Allocation) -> int:
    return sum(hold.tokens for hold in open_holds(account) if hold.source.allocation == allocation.allocation_id)


def searches_used(account: Account, now: int) -> int:
    return sum(row.hold.source.search_day == now // DAY for row in account.rows.values())


def searches_reserved(account: Account, now: int) -> int:
    return sum(hold.source.search_day == now // DAY for hold in open_holds(account))
