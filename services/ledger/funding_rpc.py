"""Funding on the wire: jobs paid on acceptance, plans, coupons, settings. The life of a request is in rpc.py.

Called by the services that run long jobs, by the dashboard and by the operators' command line.
"""

from typing import Any

from kenari.ledger.v1 import funding_pb2, funding_pb2_grpc

from libs.core.clock import Clock
from libs.db.database import Database
from libs.ops.tracing import current_traceparent
from services.ledger import funding_messages as said
from services.ledger import messages
from services.ledger.charges import Charges
from services.ledger.domain.calls import Complete, Refund
from services.ledger.funding_reads import FundingReads
from services.ledger.funding_settings import FundingSettings
from services.ledger.service import Ledger
from services.ledger.subscriptions import Subscriptions

NAME = "kenari.ledger.v1.Funds"

_PLAN_DAYS = 30


class FundingRpc(funding_pb2_grpc.FundsServicer):
    """Servicer of ``kenari.ledger.v1.Funds``: what accounts pay with, and who decides about it."""

    def __init__(self, ledger: Ledger, database: Database, clock: Clock) -> None:
        self._queue = ledger
        self._charges = Charges(database, clock)
        self._subscriptions = Subscriptions(database, clock)
        self._settings = FundingSettings(database)
        self._funding = FundingReads(database)
        self._clock = clock

    async def Charge(self, request: funding_pb2.ChargeRequest, context: Any) -> funding_pb2.ChargeResponse:
        call = messages.reserve(request.job, on_acceptance=True)
        return said.charge(await self._queue.run(call, current_traceparent()))

    async def CompleteCharge(
        self, request: funding_pb2.CompleteChargeRequest, context: Any
    ) -> funding_pb2.CompleteChargeResponse:
        call = Complete(request.request_id, request.line, request.account_id, request.vendor)
        done = await self._charges.complete(call)
        return funding_pb2.CompleteChargeResponse(cost_micro_idr=done.cost, duplicate=done.duplicate)

    async def Refund(self, request: funding_pb2.RefundRequest, context: Any) -> funding_pb2.RefundResponse:
        call = Refund(request.request_id, request.line, request.account_id, request.reason)
        done = await self._charges.refund(call)
        return funding_pb2.RefundResponse(refunded_micro_idr=done.amount, duplicate=done.duplicate)

    async def GetFunding(self, request: funding_pb2.GetFundingRequest, context: Any) -> funding_pb2.GetFundingResponse:
        return said.funding(await self._funding.funding(request.account_id))

    async def SetFunding(self, request: funding_pb2.SetFundingRequest, context: Any) -> funding_pb2.GetFundingResponse:
        await self._settings.choose(request.account_id, said.choice(request))
        return said.funding(await self._funding.funding(request.account_id))

    async def SetMemberCap(
        self, request: funding_pb2.SetMemberCapRequest, context: Any
    ) -> funding_pb2.SetMemberCapResponse:
        cap = request.cap_micro_idr if request.HasField("cap_micro_idr") else None
        await self._settings.cap_member(request.account_id, request.member_id, cap)
        caps = said.funding(await self._funding.funding(request.account_id)).member_caps
        kept = next((one for one in caps if one.member_id == request.member_id), None)
        return funding_pb2.SetMemberCapResponse(member_cap=kept)

    async def GetKeyUsage(
        self, request: funding_pb2.GetKeyUsageRequest, context: Any
    ) -> funding_pb2.GetKeyUsageResponse:
        caps = messages.key_caps(request.caps)
        use = await self._funding.key_use(request.account_id, request.key_id, caps, self._clock.now_ms())
        return funding_pb2.GetKeyUsageResponse(
            spent_micro_idr=use.spent,
            spend_reserved_micro_idr=use.reserved,
            tokens=use.tokens,
            tokens_reserved=use.tokens_reserved,
        )

    async def PutPlan(self, request: funding_pb2.PutPlanRequest, context: Any) -> funding_pb2.PutPlanResponse:
        terms = said.terms(request.plan)
        await self._settings.put_plan(terms)
        return funding_pb2.PutPlanResponse(plan=said.plan(terms))

    async def ListPlans(self, request: funding_pb2.ListPlansRequest, context: Any) -> funding_pb2.ListPlansResponse:
        plans = await self._settings.plans(everything=request.all)
        return funding_pb2.ListPlansResponse(plans=[said.plan(terms) for terms in plans])

    async def PurchasePlan(
        self, request: funding_pb2.PurchasePlanRequest, context: Any
    ) -> funding_pb2.PurchasePlanResponse:
        expected = request.expected_price_micro_idr if request.HasField("expected_price_micro_idr") else None
        bought = await self._subscriptions.purchase(
            request.account_id,
            request.plan_id,
            request.idempotency_key,
            new_cycle=request.new_cycle,
            expected=expected,
        )
        return said.bought(bought, await self._funding.funding(request.account_id))

    async def GrantPlan(self, request: funding_pb2.GrantPlanRequest, context: Any) -> funding_pb2.PurchasePlanResponse:
        bought = await self._subscriptions.grant(
            request.account_id,
            request.plan_id,
            request.idempotency_key,
            request.source,
            request.days or _PLAN_DAYS,
            request.paid_micro_idr,
        )
        return said.bought(bought, await self._funding.funding(request.account_id))

    async def SetAutoRenew(
        self, request: funding_pb2.SetAutoRenewRequest, context: Any
    ) -> funding_pb2.GetFundingResponse:
        await self._subscriptions.set_auto_renew(request.account_id, on=request.auto_renew)
        return said.funding(await self._funding.funding(request.account_id))

    async def GrantCoupon(
        self, request: funding_pb2.GrantCouponRequest, context: Any
    ) -> funding_pb2.GrantCouponResponse:
        budget = request.budget_micro_idr if request.HasField("budget_micro_idr") else None
        coupon_id = await self._subscriptions.grant_coupon(
            request.account_id,
            request.idempotency_key,
            request.name,
            list(request.models),
            budget,
            request.expires_at_ms,
        )
        coupons = said.funding(await self._funding.funding(request.account_id)).coupons
        return funding_pb2.GrantCouponResponse(coupon=next(one for one in coupons if one.coupon_id == coupon_id))

    async def GrantTokens(
        self, request: funding_pb2.GrantTokensRequest, context: Any
    ) -> funding_pb2.GrantTokensResponse:
        alloc_id = await self._subscriptions.grant_tokens(
            request.account_id, request.idempotency_key, list(request.models), request.tokens, request.expires_at_ms
        )
        given = said.funding(await self._funding.funding(request.account_id)).token_allocations
        return funding_pb2.GrantTokensResponse(allocation=next(one for one in given if one.allocation_id == alloc_id))
