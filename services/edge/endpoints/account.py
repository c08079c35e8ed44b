"""GET /v1/account/balance and /v1/account/quota (contract: Account balance, Account quota)."""

from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter, Request
from kenari.ledger.v1 import funding_pb2
from pydantic import BaseModel

from services.edge.clients import LedgerClient
from services.edge.endpoints.reading import UnrestrictedCaller

router = APIRouter()
RUPIAH = 1_000_000


class Balance(BaseModel):
    """Amounts in micro-Rupiah."""

    object: Literal["account.balance"] = "account.balance"
    balance_micro_idr: int
    reserved_micro_idr: int
    available_micro_idr: int
    currency: Literal["IDR"] = "IDR"


@router.get("/v1/account/balance", summary="Read the prepaid balance")
async def read_balance(request: Request, caller: UnrestrictedCaller) -> Balance:
    """Balance, what running requests hold of it, and what a new request can use."""
    ledger: LedgerClient = request.app.state.ledger
    balance = await ledger.balance(caller.account_id)
    return Balance(
        balance_micro_idr=balance.balance_micro_idr,
        reserved_micro_idr=balance.reserved_micro_idr,
        available_micro_idr=balance.available_micro_idr,
    )


class QuotaWindow(BaseModel):
    """One window with a ceiling, in whole Rupiah; ``used_frac`` from 0 to 1 with 4 decimals."""

    budget_rp: int
    used_rp: int
    remaining_rp: int
    used_frac: float
    resets_at: str


class PlanQuota(BaseModel):
    """The plan in force. A window without a ceiling is left out."""

    name: str
    windows: dict[str, QuotaWindow]


class CouponQuota(BaseModel):
    """The coupon in force; ``remaining_rp`` is null when it has no limit."""

    name: str
    used_rp: int
    remaining_rp: int | None
    expires_at: str
    scope_models: list[str]


class Quota(BaseModel):
    """What is left of plan and coupon."""

    plan: PlanQuota | None
    coupon: CouponQuota | None
    alert_pct: int


@router.get("/v1/account/quota", summary="Read what is left of plan quota and coupon")
async def read_quota(request: Request, caller: UnrestrictedCaller) -> Quota:
    """The plan's windows and the coupon in force, and the share at which the quota alert fires."""
    ledger: LedgerClient = request.app.state.ledger
    funding = await ledger.funding(caller.account_id)
    exchange = request.state.exchange
    coupons = [coupon for coupon in funding.coupons if coupon.expires_at_ms > exchange.started_ms]
    plan = funding.subscription
    return Quota(
        # A plan that is no longer sold is not told of.
        plan=_plan(plan) if plan.active and plan.on_sale else None,
        coupon=_coupon(coupons[0]) if coupons else None,
        alert_pct=funding.settings.alert_pct,
    )


def _plan(plan: funding_pb2.Subscription) -> PlanQuota:
    return PlanQuota(name=plan.plan_name, windows={one.window: _window(one) for one in plan.windows})


def _window(window: funding_pb2.QuotaWindow) -> QuotaWindow:
    ceiling, used = window.ceiling_micro_idr, window.used_micro_idr
    parts = min(10_000, used * 10_000 // ceiling)
    return QuotaWindow(
        budget_rp=ceiling // RUPIAH,
        used_rp=-(-used // RUPIAH),
        remaining_rp=max(0, ceiling - used) // RUPIAH,
        used_frac=parts / 10_000,
        resets_at=_moment(window.resets_at_ms),
    )


def _coupon(coupon: funding_pb2.Coupon) -> CouponQuota:
    used = -(-coupon.used_micro_idr // RUPIAH)
    limited = coupon.HasField("budget_micro_idr")
    return CouponQuota(
        name=coupon.name,
        used_rp=used,
        remaining_rp=max(0, coupon.budget_micro_idr // RUPIAH - used) if limited else None,
        expires_at=_moment(coupon.expires_at_ms),
        scope_models=list(coupon.models),
    )


def _moment(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
