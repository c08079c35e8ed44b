"""Model and ledger side by side: each call goes to both, and their answers must be equal.

Used by the tests of this folder; without a real ledger the model runs alone.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from kenari.ledger.v1 import funding_pb2

from libs.core.ids import uuid7_hex
from tests.money.ledger import RealLedger
from tests.money.model.answers import Bought, Charged, Denied, Ended, Granted, Redirect, RefusedError, Released, Settled
from tests.money.model.book import Book
from tests.money.model.endpoints import CHAT
from tests.money.model.facts import Allocation, Ask, Coupon, Plan, Ref
from tests.money.model.settling import Report
from tests.money.model.view import slots_of, view

Answer = TypeVar("Answer")


class Pair:
    """One account in both worlds, at a time that only ``pass_ms`` moves.

    The ledger names a cycle of a plan by its millisecond, so that no two begin in one.
    """

    def __init__(self, real: RealLedger, now_ms: int, account: str = "") -> None:
        self.book = Book()
        self.real = real
        self.now = now_ms
        self.account = account or f"acct_{uuid7_hex()}"
        self.told: list[str] = []
        self._keys = (f"{self.account}-{number}" for number in itertools.count())

    def new_ref(self, line: int = 0) -> Ref:
        """An id made at the present moment."""
        return f"{self.now:012x}{uuid7_hex()[12:]}", line

    async def pass_ms(self, milliseconds: int) -> None:
        """Let time go by, and what is done by the clock be done."""
        if not milliseconds:
            return
        self.now += milliseconds
        self.told.append(f"{milliseconds} ms pass")
        await self.real.clock.set(self.now)
        self.book.expire(self.now)
        await self.real.jobs.sweep()
        self.book.renew(self.now)
        await self.real.renewals.run()

    async def credit(self, amount: int, kind: str = "top_up") -> None:
        mine = self.book.credit(self.account, amount, kind)
        assert await self.real.credit(self.account, amount, kind, next(self._keys)) == mine

    async def reserve(self, ask: Ask) -> Granted | Denied | Redirect | str:
        again = ask.ref in self.book.account(self.account).holds
        mine = _said(lambda: self.book.reserve(ask, self.now))
        theirs = await _heard(self.real.reserve(ask))
        if again and isinstance(mine, Granted):
            # What a plan has left is told once.
            mine = replace(mine, plan_left=None)
        self._agree(ask, mine, theirs)
        return mine

    async def settle(self, ask: Ask, report: Report) -> Settled | str:
        mine = _said(lambda: self.book.settle(ask, report, self.now))
        hold = self.book.account(self.account).holds.get(ask.ref)
        kind = hold.source.kind if hold else {"free": "free", "own_key": "byok"}.get(ask.funding, "payg")
        self._agree(("settle", ask.ref, report), mine, await _heard(self.real.settle(ask, kind, report)))
        return mine

    async def together(self, ends: list[tuple[Ask, Report | None]], asks: list[Ask]) -> None:
        """Calls that arrive at one moment: settlements and releases (no report) are done first, then reservations."""
        mine: list[object] = [
            _said(lambda ask=ask: self.book.release(self.account, ask.ref))  # type: ignore[misc]
            if report is None
            else _said(lambda ask=ask, report=report: self.book.settle(ask, report, self.now))  # type: ignore[misc]
            for ask, report in ends
        ]
        mine += [_said(lambda ask=ask: self.book.reserve(ask, self.now)) for ask in asks]  # type: ignore[misc]
        holds = self.book.account(self.account).holds
        calls: list[Awaitable[object]] = [_heard(self.real.reserve(ask)) for ask in asks]
        calls += [
            _heard(self.real.release(self.account, ask.ref))
            if report is None
            else _heard(self.real.settle(ask, holds[ask.ref].source.kind, report))
            for ask, report in ends
        ]
        theirs = await asyncio.gather(*calls)
        named: list[object] = [*(("end", ask.ref, report) for ask, report in ends), *asks]
        for call, one, other in zip(named, mine, theirs[len(asks) :] + theirs[: len(asks)], strict=True):
            self._agree(call, one, other)

    async def hear(self, told: list[tuple[Ask, Report]]) -> None:
        """Settlements from the bus: all of them are done or were done before."""
        said: list[tuple[Ask, str, Report]] = []
        for ask, report in told:
            self.book.settle(ask, report, self.now)
            said.append((ask, self.book.account(self.account).rows[ask.ref].hold.source.kind, report))
            self.told.append(f"heard {ask.ref} {report}")
        await self.real.hear(said)

    async def release(self, ref: Ref) -> Released | str:
        mine = _said(lambda: self.book.release(self.account, ref))
        self._agree(("release", ref), mine, await _heard(self.real.release(self.account, ref)))
        return mine

    async def touch(self, refs: list[Ref]) -> list[Ref]:
        mine = self.book.touch([(self.account, ref) for ref in refs], self.now)
        assert await self.real.touch(refs) == mine
        return mine

    async def charge(self, ask: Ask) -> Charged | Denied | Redirect | str:
        mine = _said(lambda: self.book.charge(ask, self.now))
        self._agree(ask, mine, await _heard(self.real.charge(ask)))
        return mine

    async def complete(self, ref: Ref) -> Ended | str:
        mine = _said(lambda: self.book.complete(self.account, ref))
        self._agree(("complete", ref), mine, await _heard(self.real.complete(self.account, ref)))
        return mine

    async def refund(self, ref: Ref) -> Ended | str:
        mine = _said(lambda: self.book.refund(self.account, ref))
        self._agree(("refund", ref), mine, await _heard(self.real.refund(self.account, ref)))
        return mine

    async def put_plan(self, plan: Plan) -> None:
        self.book.put_plan(plan)
        await self.real.put_plan(plan)

    async def purchase(
        self, plan_id: str, *, new_cycle: bool = False, expected: int | None = None, key: str = ""
    ) -> Bought | str:
        await self.pass_ms(1)
        key = key or next(self._keys)
        mine = _said(
            lambda: self.book.purchase(self.account, plan_id, key, self.now, new_cycle=new_cycle, expected=expected)
        )
        call = funding_pb2.PurchasePlanRequest(
            account_id=self.account,
            plan_id=plan_id,
            idempotency_key=key,
            new_cycle=new_cycle,
            expected_price_micro_idr=expected,
        )
        self._agree(call, _terms(mine), _told_terms(await _heard(self.real.call("PurchasePlan", call))))
        return mine

    async def grant(self, plan_id: str, source: str, *, days: int = 0, paid: int = 0) -> Bought | str:
        await self.pass_ms(1)
        key = next(self._keys)
        mine = _said(
            lambda: self.book.grant_plan(self.account, plan_id, key, self.now, source=source, days=days, paid=paid)
        )
        call = funding_pb2.GrantPlanRequest(
            account_id=self.account,
            plan_id=plan_id,
            idempotency_key=key,
            source=source,
            days=days,
            paid_micro_idr=paid,
        )
        self._agree(call, _terms(mine), _told_terms(await _heard(self.real.call("GrantPlan", call))))
        return mine

    async def auto_renew(self, wanted: bool) -> None:
        mine = _said(lambda: self.book.auto_renew(self.account, wanted, self.now))
        call = funding_pb2.SetAutoRenewRequest(account_id=self.account, auto_renew=wanted)
        theirs = await _heard(self.real.call("SetAutoRenew", call))
        self._agree(call, mine, theirs if isinstance(theirs, str) else None)

    async def choose(self, *, keep_balance: bool, free_fallback: bool) -> None:
        account = self.book.account(self.account)
        account.keep_balance, account.free_fallback = keep_balance, free_fallback
        await self.real.call(
            "SetFunding",
            funding_pb2.SetFundingRequest(
                account_id=self.account, keep_balance=keep_balance, free_fallback=free_fallback
            ),
        )

    async def limit(self, amount: int, window: str) -> None:
        """Set the PAYG limit; no window takes it away."""
        self.book.account(self.account).limit = (amount, window) if window else None
        limit = funding_pb2.PaygLimit(amount_micro_idr=amount, window=window)
        await self.real.call("SetFunding", funding_pb2.SetFundingRequest(account_id=self.account, payg_limit=limit))

    async def cap_member(self, member: str, cap: int | None) -> None:
        caps = self.book.account(self.account).member_caps
        if cap is None:
            caps.pop(member, None)
        else:
            caps[member] = cap
        call = funding_pb2.SetMemberCapRequest(account_id=self.account, member_id=member, cap_micro_idr=cap)
        await self.real.call("SetMemberCap", call)

    async def grant_coupon(self, models: tuple[str, ...], budget: int | None, expires: int) -> None:
        told = await self.real.call(
            "GrantCoupon",
            funding_pb2.GrantCouponRequest(
                account_id=self.account,
                idempotency_key=next(self._keys),
                name="Launch",
                models=models,
                budget_micro_idr=budget,
                expires_at_ms=expires,
            ),
        )
        self.book.grant_coupon(self.account, Coupon(told.coupon.coupon_id, models, budget, expires))

    async def grant_tokens(self, models: tuple[str, ...], tokens: int, expires: int) -> None:
        told = await self.real.call(
            "GrantTokens",
            funding_pb2.GrantTokensRequest(
                account_id=self.account,
                idempotency_key=next(self._keys),
                models=models,
                tokens=tokens,
                expires_at_ms=expires,
            ),
        )
        self.book.grant_tokens(self.account, Allocation(told.allocation.allocation_id, models, tokens, expires))

    def _agree(self, call: object, mine: object, theirs: object) -> None:
        self.told.append(f"{call} -> {mine}")
        equal = _comparable(call, mine) == _comparable(call, theirs)
        assert equal, f"{call}: the model says {mine}, the ledger {theirs}"

    async def compare(self) -> None:
        """The whole account, as read from both."""
        account = self.book.account(self.account)
        slots = slots_of(account, self.now)
        mine, theirs = view(account, self.now, slots), await self.real.state(self.account, slots)
        differing = {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}
        assert not differing, f"model and ledger (in this order) differ: {differing}"


def _said(call: Callable[[], Answer]) -> Answer | str:
    try:
        return call()
    except RefusedError as error:
        return str(error)


async def _heard(call: Awaitable[Answer]) -> Answer | str:
    try:
        return await call
    except RefusedError as error:
        return str(error)


def _comparable(call: object, answer: object) -> object:
    if isinstance(answer, Denied) and answer.code != "insufficient_balance":
        # Other refusals tell no figures.
        return answer.status, answer.code
    if (
        isinstance(answer, Granted)
        and isinstance(call, Ask)
        and not (call.endpoint in CHAT and call.funding == "order")
    ):
        # Where no plan can pay, none is looked at.
        return replace(answer, plan_left=None)
    if isinstance(answer, Settled) and not answer.cost:
        # Where nothing was taken from the balance, nothing is told of it.
        return replace(answer, available=0)
    return answer


def _told_of_plans(ask: Ask) -> bool:
    # Where no plan can pay, none is looked at.
    return ask.endpoint in CHAT and ask.funding == "order"


def _terms(bought: Bought | str) -> object:
    if isinstance(bought, str):
        return bought
    sub = bought.subscription
    return sub.plan.plan_id, sub.anchor, sub.ends, bought.paid, bought.balance, bought.duplicate


def _told_terms(told: Any) -> object:
    if isinstance(told, str):
        return told
    sub = told.subscription
    return (
        sub.plan_id,
        sub.started_at_ms,
        sub.ends_at_ms,
        told.paid_micro_idr,
        told.balance_micro_idr,
        told.duplicate,
    )
