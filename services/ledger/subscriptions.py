"""Plans, coupons, token allocations and the settings of who pays: changed here, each in one transaction of its account.

Called by funding_rpc.py and by the renewal job. What a change costs and leads to is decided in domain/plans.py. Every
call that gives something away or takes money carries a key of the caller's and happens once for it.
"""

from typing import Any

import msgspec

from libs.core.clock import Clock
from libs.core.ids import prefixed_id, uuid7_hex
from libs.core.money import Micros
from libs.db.database import Database
from libs.events.ledger import PlanChanged
from services.ledger import plan_rows
from services.ledger.books import Opened, Wanted
from services.ledger.domain import alerts, plans
from services.ledger.domain.calls import InvalidCallError, RefusedError
from services.ledger.domain.effects import Book, Effects, Transfer
from services.ledger.domain.funding import utc_day
from services.ledger.domain.plans import Deal, Offer
from services.ledger.domain.state import Account
from services.ledger.domain.windows import CYCLE_MS
from services.ledger.store import post, put_state

_DAY_MS = 86_400_000
SOURCES = ("paid", "gift", "trial", "granted")


class Bought(msgspec.Struct, frozen=True):
    """What a purchase took from the balance, the balance after it, and whether it had been made before."""

    paid: Micros
    balance: int
    duplicate: bool


class Subscriptions:
    """Writes; raise InvalidCallError, RefusedError or DatabaseAwayError."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def purchase(
        self, account_id: str, plan_id: str, key: str, *, new_cycle: bool = False, expected: int | None = None
    ) -> Bought:
        """Buy a plan, 30 more days, an upgrade or a new cycle from the balance: all of the price or nothing."""
        _need(account_id, key)
        async with self._database.transaction() as conn:
            offer = await plan_rows.offer(conn, plan_id)

            def deal(account: Account, now_ms: int) -> Deal:
                if expected is not None and expected != offer.price:
                    raise RefusedError("the plan's price has changed", reason="price_changed")
                if not new_cycle:
                    return plans.purchase(account.plan, offer, now_ms)
                if account.plan is not None and account.plan.plan_id != plan_id:
                    raise RefusedError("another plan is in force", reason="not_restartable")
                return plans.new_cycle(account.plan, now_ms)

            content = f"{account_id}|{plan_id}|{new_cycle}"
            return await self._close_deal(conn, account_id, offer, ("purchase", key, content), deal)

    async def grant(self, account_id: str, plan_id: str, key: str, source: str, days: int, paid: int) -> Bought:
        """Give a plan that is not paid from the balance. ``paid``: money from outside for it, source paid only."""
        _need(account_id, key)
        if source not in SOURCES or not 0 < days <= 3_660 or not 0 <= paid < 2**62 or (paid and source != "paid"):
            raise InvalidCallError("source, days or payment make no sense")
        async with self._database.transaction() as conn:
            offer = await plan_rows.offer(conn, plan_id)
            rate = paid * 30 // days if source == "paid" else offer.price if source == "gift" else 0

            def deal(account: Account, now_ms: int) -> Deal:
                return plans.granted(account.plan, plan_id, source, days * _DAY_MS, rate, now_ms)

            content = f"{account_id}|{plan_id}|{source}|{days}|{paid}"
            bought = await self._close_deal(conn, account_id, offer, ("grant_plan", key, content), deal)
            if paid and not bought.duplicate:
                now_ms = self._clock.now_ms()
                await plan_rows.paid_outside(conn, account_id, paid, uuid7_hex(), utc_day(now_ms))
                await put_state(conn, account_id, now_ms)
            return bought

    async def renew_due(self, limit: int) -> int:
        """Renew or end up to that many subscriptions whose time is over; return how many."""
        async with self._database.connection() as conn:
            due = await plan_rows.due(conn, limit)
        for account_id in due:
            async with self._database.transaction() as conn:
                await self._renew(conn, account_id)
        return len(due)

    async def _close_deal(
        self, conn: Any, account_id: str, offer: Offer, idem: tuple[str, str, str], deal: Any
    ) -> Bought:
        made: list[Bought] = []
        known = await plan_rows.first_time(conn, account_id, *idem)

        def work(opened: Opened, effects: Effects) -> Deal | None:
            account = opened.account(account_id)
            wallet = account.wallet
            assert wallet is not None
            if known is not None:
                made.append(Bought(Micros(known), wallet.balance, duplicate=True))
                return None
            agreed: Deal = deal(account, opened.now_ms)
            if agreed.due > wallet.room:
                raise RefusedError("the balance does not cover the price", reason="insufficient_balance")
            _pay(account, agreed.due, opened.now_ms, effects)
            effects.tell(account_id, _told(account_id, offer, agreed.change, agreed.source, agreed.ends_ms, agreed.due))
            made.append(Bought(agreed.due, wallet.balance, duplicate=False))
            return agreed

        agreed = await post(conn, _wanted(account_id), work)
        if agreed is not None:
            await plan_rows.keep_sub(conn, account_id, offer.plan_id, agreed)
            await plan_rows.remember(conn, *idem, agreed.due)
            await put_state(conn, account_id, self._clock.now_ms())
        return made[0]

    async def _renew(self, conn: Any, account_id: str) -> None:
        def work(opened: Opened, effects: Effects) -> tuple[int, bool, bool] | None:
            account = opened.account(account_id)
            plan = account.plan
            if plan is None or plan.active(opened.now_ms):
                return None
            assert account.wallet is not None
            offer = Offer(plan.plan_id, plan.name, plan.price, plan.on_sale)
            if plan.auto_renew and plan.on_sale and plan.price <= account.wallet.room:
                # The cycle goes on where it ended, its windows with it.
                ends = plan.ends_ms + CYCLE_MS
                _pay(account, plan.price, opened.now_ms, effects)
                effects.tell(account_id, _told(account_id, offer, "auto_renewed", "paid", ends, plan.price))
                return ends, True, False
            change = "auto_renew_failed" if plan.auto_renew else "lapsed"
            effects.tell(account_id, _told(account_id, offer, change, plan.source, plan.ends_ms, 0))
            return plan.ends_ms, False, True

        renewed = await post(conn, _wanted(account_id), work)
        if renewed is not None:
            await plan_rows.keep_end(conn, account_id, *renewed)
            await put_state(conn, account_id, self._clock.now_ms())

    async def set_auto_renew(self, account_id: str, *, on: bool) -> None:
        """Renew the plan in force from the balance when it ends, or not; refused (no_plan) without one."""
        async with self._database.transaction() as conn:
            await plan_rows.lock(conn, account_id)
            if not await plan_rows.set_auto_renew(conn, account_id, self._clock.now_ms(), on=on):
                raise RefusedError("there is no plan in force", reason="no_plan")

    async def grant_coupon(
        self, account_id: str, key: str, name: str, models: list[str], budget: int | None, ends_ms: int
    ) -> str:
        """Give a coupon; return its id, the same for a repeated key."""
        _need(account_id, key)
        if not models or not name or ends_ms <= self._clock.now_ms() or (budget is not None and not 0 < budget < 2**62):
            raise InvalidCallError("a coupon needs a name, models, an end to come and a budget above 0")
        content = f"{account_id}|{name}|{','.join(models)}|{budget}|{ends_ms}"
        async with self._database.transaction() as conn:
            coupon_id = prefixed_id("coupon")
            return await plan_rows.give(
                conn,
                account_id,
                ("coupon", key, content),
                coupon_id,
                "insert into coupon (coupon_id, account_id, name, models, budget, ends_ms) values ($1,$2,$3,$4,$5,$6)",
                (coupon_id, account_id, name, models, budget, ends_ms),
            )

    async def grant_tokens(self, account_id: str, key: str, models: list[str], tokens: int, ends_ms: int) -> str:
        """Give a token allocation; return its id, the same for a repeated key."""
        _need(account_id, key)
        if not 0 < tokens < 2**62 or ends_ms <= self._clock.now_ms():
            raise InvalidCallError("an allocation needs tokens and an end to come")
        content = f"{account_id}|{','.join(models)}|{tokens}|{ends_ms}"
        async with self._database.transaction() as conn:
            alloc_id = prefixed_id("alloc")
            return await plan_rows.give(
                conn,
                account_id,
                ("tokens", key, content),
                alloc_id,
                "insert into token_alloc (alloc_id, account_id, models, tokens, ends_ms) values ($1, $2, $3, $4, $5)",
                (alloc_id, account_id, models, tokens, ends_ms),
            )


def _need(account_id: str, key: str) -> None:
    if not account_id or not key:
        raise InvalidCallError("account and idempotency key are needed")


def _wanted(account_id: str) -> Wanted:
    return Wanted([account_id], [account_id], [], [], [], [])


def _told(account_id: str, offer: Offer, change: str, source: str, ends_ms: int, paid: int) -> PlanChanged:
    return PlanChanged.model_validate(
        {
            "account_id": account_id,
            "plan_id": offer.plan_id,
            "plan_name": offer.name,
            "change": change,
            "source": source,
            "ends_at_ms": ends_ms,
            "paid_micro_idr": paid,
        }
    )


def _pay(account: Account, price: int, now_ms: int, effects: Effects) -> None:
    """Take a plan's price out of the balance, bonus first; it is no spending of the PAYG limit's."""
    wallet = account.wallet
    assert wallet is not None
    bonus = min(wallet.bonus, price)
    wallet.bonus -= bonus
    wallet.paid -= price - bonus
    wallet.changed = True
    ref, day = uuid7_hex(), utc_day(now_ms)
    for seq, (bucket, amount) in enumerate(((Book.BONUS, bonus), (Book.PAID, price - bonus))):
        if amount:
            effects.transfers.append(Transfer(day, ref, 0, "plan", seq, account.id, bucket, Book.PLAN_REVENUE, amount))
    effects.tell(account.id, *alerts.low_balance(account))
