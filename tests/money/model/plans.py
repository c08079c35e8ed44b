"""Plans: bought, granted, renewed, upgraded, restarted, ended (R21, R51-R53, A8).

Called by book.py. A refusal is a RefusedError with its reason.
"""

from tests.money.model import sums
from tests.money.model.answers import Bought, RefusedError
from tests.money.model.facts import CYCLE, DAY, Account, Plan, Subscription
from tests.money.model.settling import burn

PAID = ("paid", "gift")
"""Sources of a cycle that somebody paid the price of."""


def purchase(account: Account, plan: Plan, now: int, *, new_cycle: bool, expected: int | None) -> Bought:
    """A first plan, 30 days more of the same, an upgrade, or a new cycle; all of the price or nothing."""
    if expected is not None and expected != plan.price:
        raise RefusedError("price_changed")
    current = sums.active(account, now)
    if new_cycle and not _restartable(current, plan):
        raise RefusedError("not_restartable")
    if not plan.on_sale:
        raise RefusedError("plan_not_on_sale")
    due = plan.price
    if current is not None and current.plan is not plan:
        due = upgrade_price(plan, current, now)
    if current is not None and not _higher(plan, current):
        raise RefusedError("plan_lower")
    if sums.room(account) < due:
        raise RefusedError("insufficient_balance")
    burn(account, due)
    if current is not None and current.plan is plan and not new_cycle:
        lengthen(current, "paid", now, CYCLE, plan.price)
    else:
        current = begin(account, plan, "paid", now, CYCLE, plan.price)
    return Bought(current, due, sums.balance(account))


def _higher(plan: Plan, current: Subscription) -> bool:
    """Whether the plan may be bought beside that one: itself, a dearer one, or any while nobody paid for that one."""
    return current.plan is plan or current.source not in PAID or plan.price > current.plan.price


def _restartable(current: Subscription | None, plan: Plan) -> bool:
    return current is not None and current.plan is plan and plan.on_sale and current.source in PAID


def upgrade_price(plan: Plan, current: Subscription, now: int) -> int:
    """The new price less the worth of the days left, never below zero."""
    credit = current.worth * (current.ends - now) // CYCLE
    return max(0, plan.price - credit)


def lengthen(current: Subscription, source: str, now: int, length: int, worth: int) -> None:
    """More days of the same plan. The days left keep their worth, and what was paid for stays paid for."""
    left = current.ends - now
    current.worth = (current.worth * left + worth * length) // (left + length)
    current.ends += length
    if source in PAID or current.source not in PAID:
        current.source = source


def begin(account: Account, plan: Plan, source: str, now: int, length: int, worth: int) -> Subscription:
    """A plan with windows of its own from now on; what was in force ends."""
    current = sums.active(account, now)
    if current is not None:
        current.ends = now
    sub = Subscription(len(account.subscriptions) + 1, plan, source, now, now + length, worth)
    account.subscriptions.append(sub)
    return sub


def grant(account: Account, plan: Plan, source: str, now: int, days: int, paid: int) -> Bought:
    """A plan that was not paid from the balance (``paid``: from outside): it starts now, or lengthens the same plan."""
    current = sums.active(account, now)
    length = (days or 30) * DAY
    worth = plan.price if source == "gift" else paid * 30 // (days or 30)
    if current is not None and current.plan is plan:
        lengthen(current, source, now, length, worth)
    else:
        current = begin(account, plan, source, now, length, worth)
    account.paid_in += paid if source == "paid" else 0
    return Bought(current, 0, sums.balance(account))


def end_or_renew(account: Account, now: int) -> bool:
    """At the end of a plan: 30 days more from the balance if that is wanted and possible; return whether it was."""
    last = sums.subscription(account)
    if last is None or now < last.ends or not account.auto_renew:
        return False
    if not last.plan.on_sale or sums.room(account) < last.plan.price:
        account.auto_renew = False
        return False
    burn(account, last.plan.price)
    last.ends += CYCLE
    last.source = "paid"
    last.worth = last.plan.price
    return True
