"""What buying, extending, upgrading and restarting a plan costs and leads to (contract: Subscriptions).

Called by services/ledger/subscriptions.py under the account's lock. A plan runs for 30 days from its payment.
"""

from typing import Literal

import msgspec

from libs.core.money import Micros
from services.ledger.domain.calls import RefusedError
from services.ledger.domain.state import Plan
from services.ledger.domain.windows import CYCLE_MS

Change = Literal["started", "renewed", "upgraded", "restarted"]
_PAID = ("paid", "gift")
"""Sources of a plan that somebody paid the price of."""


class Offer(msgspec.Struct, frozen=True):
    """A plan as it is sold. Ceilings and what it covers are in the books only."""

    plan_id: str
    name: str
    price: int
    on_sale: bool


class Deal(msgspec.Struct, frozen=True):
    """What is due now, and the cycle that follows: ``cycle`` is where its windows start."""

    change: Change
    source: str
    due: Micros
    cycle: int
    ends_ms: int
    rate: int
    """What 30 days of it were paid with on average; the worth of days left when it is upgraded."""


def purchase(has: Plan | None, offer: Offer, now_ms: int) -> Deal:
    """Buying ``offer`` now; raise RefusedError (plan_not_on_sale, plan_lower).

    The same plan early: 30 more days, its windows stay where they are. A dearer one: new windows now, the days left of
    the old one taken off the price, at most the whole price. A trial or a granted plan gives way to any plan.
    """
    if not offer.on_sale:
        raise RefusedError("the plan is not on sale", reason="plan_not_on_sale")
    if has is None or not has.active(now_ms):
        return Deal("started", "paid", Micros(offer.price), now_ms, now_ms + CYCLE_MS, offer.price)
    if has.plan_id == offer.plan_id:
        return _longer(has, "paid", Micros(offer.price), CYCLE_MS, offer.price, now_ms)
    if has.source in _PAID and offer.price <= has.price:
        raise RefusedError("the plan in force is the higher one", reason="plan_lower")
    credit = has.paid * (has.ends_ms - now_ms) // CYCLE_MS
    return Deal("upgraded", "paid", Micros(max(0, offer.price - credit)), now_ms, now_ms + CYCLE_MS, offer.price)


def new_cycle(has: Plan | None, now_ms: int) -> Deal:
    """Starting the plan in force anew now, for its full price; raise RefusedError (not_restartable).

    The days left are forfeited, all windows start at nothing used.
    """
    if has is None or not has.active(now_ms) or has.source not in _PAID or not has.on_sale:
        raise RefusedError("only a paid plan in force that is still on sale can start anew", reason="not_restartable")
    return Deal("restarted", "paid", Micros(has.price), now_ms, now_ms + CYCLE_MS, has.price)


def granted(has: Plan | None, plan_id: str, source: str, days_ms: int, rate: int, now_ms: int) -> Deal:
    """A plan that is not paid from the balance: extends the same one, else starts now."""
    if has is not None and has.active(now_ms) and has.plan_id == plan_id:
        return _longer(has, source, Micros(0), days_ms, rate, now_ms)
    return Deal("started", source, Micros(0), now_ms, now_ms + days_ms, rate)


def _longer(has: Plan, source: str, due: Micros, length_ms: int, rate: int, now_ms: int) -> Deal:
    """More days of the plan in force. What was paid for stays paid for, and only that is credited at an upgrade."""
    left = has.ends_ms - now_ms
    mixed = (has.paid * left + rate * length_ms) // (left + length_ms)
    kept = source if source in _PAID or has.source not in _PAID else has.source
    return Deal("renewed", kept, due, has.cycle, has.ends_ms + length_ms, mixed)
