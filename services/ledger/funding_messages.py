"""Between what accounts pay with and its messages on the wire.

Called by funding_rpc.py.
"""

from kenari.ledger.v1 import funding_pb2

from services.ledger.domain import windows
from services.ledger.domain.calls import Charged, Denied
from services.ledger.domain.funding import utc_day
from services.ledger.domain.state import Allocation, Coupon, Plan, Wallet
from services.ledger.funding_reads import Funding
from services.ledger.funding_settings import WINDOWS, Choice, PlanTerms
from services.ledger.job import Answer
from services.ledger.messages import denied
from services.ledger.subscriptions import Bought

_LIMIT_NAMES = {int(length.total_seconds() * 1000): name for name, length in WINDOWS.items()}


def charge(answer: Answer) -> funding_pb2.ChargeResponse:
    """The answer to a job that asked to be paid."""
    if isinstance(answer, Denied):
        return funding_pb2.ChargeResponse(denied=denied(answer))
    assert isinstance(answer, Charged)
    charged = funding_pb2.Charged(
        cost_micro_idr=answer.cost, available_micro_idr=answer.available, duplicate=answer.duplicate
    )
    return funding_pb2.ChargeResponse(charged=charged)


def choice(request: funding_pb2.SetFundingRequest) -> Choice:
    """What a request changes of an account's settings."""
    limit = request.payg_limit
    return Choice(
        keep_balance=request.keep_balance if request.HasField("keep_balance") else None,
        free_fallback=request.free_fallback if request.HasField("free_fallback") else None,
        payg_limit=(limit.amount_micro_idr, limit.window) if request.HasField("payg_limit") else None,
        alert_pct=request.alert_pct if request.HasField("alert_pct") else None,
        low_balance=request.low_balance_micro_idr if request.HasField("low_balance_micro_idr") else None,
    )


def terms(plan: funding_pb2.Plan) -> PlanTerms:
    return PlanTerms(
        plan_id=plan.plan_id,
        name=plan.name,
        price=plan.price_micro_idr,
        five_hour=plan.five_hour_micro_idr if plan.HasField("five_hour_micro_idr") else None,
        week=plan.week_micro_idr if plan.HasField("week_micro_idr") else None,
        month=plan.month_micro_idr if plan.HasField("month_micro_idr") else None,
        models=tuple(plan.models),
        free_cache=tuple(plan.free_cache),
        free_daily=plan.free_daily if plan.HasField("free_daily") else None,
        daily_searches=plan.daily_searches,
        on_sale=plan.on_sale,
    )


def plan(said: PlanTerms) -> funding_pb2.Plan:
    return funding_pb2.Plan(
        plan_id=said.plan_id,
        name=said.name,
        price_micro_idr=said.price,
        five_hour_micro_idr=said.five_hour,
        week_micro_idr=said.week,
        month_micro_idr=said.month,
        models=said.models,
        free_cache=said.free_cache,
        free_daily=said.free_daily,
        daily_searches=said.daily_searches,
        on_sale=said.on_sale,
    )


def funding(read: Funding) -> funding_pb2.GetFundingResponse:
    """All of an account as it was read."""
    account = read.account
    response = funding_pb2.GetFundingResponse(
        settings=_settings(account.wallet),
        coupons=[_coupon(one) for one in account.coupons],
        token_allocations=[_allocation(one) for one in account.allocations],
        member_caps=[
            funding_pb2.MemberCap(member_id=row["member_id"], cap_micro_idr=row["cap"], spent_micro_idr=row["spent"])
            for row in read.members
        ],
        payg_spent_micro_idr=account.wallet.limit_spent if account.wallet is not None else 0,
    )
    if account.plan is not None:
        response.subscription.CopyFrom(_subscription(read, account.plan))
    return response


def bought(done: Bought, read: Funding) -> funding_pb2.PurchasePlanResponse:
    return funding_pb2.PurchasePlanResponse(
        subscription=funding(read).subscription,
        paid_micro_idr=done.paid,
        balance_micro_idr=done.balance,
        duplicate=done.duplicate,
    )


def _settings(wallet: Wallet | None) -> funding_pb2.FundingSettings:
    kept = wallet or Wallet("", low_threshold=20_000_000_000)
    settings = funding_pb2.FundingSettings(
        keep_balance=kept.keep_balance,
        free_fallback=kept.free_fallback,
        alert_pct=kept.alert_pct,
        low_balance_micro_idr=kept.low_threshold,
    )
    if kept.payg_limit is not None and kept.limit_ms is not None:
        settings.payg_limit.amount_micro_idr = kept.payg_limit
        settings.payg_limit.window = _LIMIT_NAMES.get(kept.limit_ms, "")
    return settings


def _subscription(read: Funding, has: Plan) -> funding_pb2.Subscription:
    today = read.account.allowances.get(utc_day(read.now_ms))
    told = funding_pb2.Subscription(
        plan_id=has.plan_id,
        plan_name=has.name,
        source=has.source,
        started_at_ms=has.cycle,
        ends_at_ms=has.ends_ms,
        active=has.active(read.now_ms),
        auto_renew=has.auto_renew,
        on_sale=has.on_sale,
        price_micro_idr=has.price,
        daily_searches=has.daily_searches,
        searches_used=today.used if today is not None else 0,
    )
    for kind, ceiling in windows.limited(has):
        window = read.account.windows.get((has.cycle, kind, windows.index(has, kind, read.now_ms)))
        told.windows.add(
            window=windows.NAMES[kind - 1],
            ceiling_micro_idr=ceiling,
            used_micro_idr=window.used if window is not None else 0,
            reserved_micro_idr=window.reserved if window is not None else 0,
            resets_at_ms=windows.resets_ms(has, kind, read.now_ms),
        )
    return told


def _coupon(one: Coupon) -> funding_pb2.Coupon:
    return funding_pb2.Coupon(
        coupon_id=one.id,
        name=one.name,
        models=one.models,
        budget_micro_idr=one.budget,
        used_micro_idr=one.used,
        expires_at_ms=one.ends_ms,
    )


def _allocation(one: Allocation) -> funding_pb2.TokenAllocation:
    return funding_pb2.TokenAllocation(
        allocation_id=one.id, models=one.models, tokens=one.tokens, used=one.used, expires_at_ms=one.ends_ms
    )
