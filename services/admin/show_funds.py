"""What accounts pay with, as rows for show.py: plans, quota, coupons, token allocations, caps.

Used by plans.py and funding.py.
"""

from typing import Any

from kenari.ledger.v1 import funding_pb2

from services.admin.show import moment


def plan(message: funding_pb2.Plan) -> dict[str, Any]:
    """A plan as it is sold; a ceiling that is None is none."""
    return {
        "plan_id": message.plan_id,
        "name": message.name,
        "status": "on sale" if message.on_sale else "retired",
        "price_micro_idr": message.price_micro_idr,
        "five_hour_micro_idr": _given(message, "five_hour_micro_idr"),
        "week_micro_idr": _given(message, "week_micro_idr"),
        "month_micro_idr": _given(message, "month_micro_idr"),
        "models": list(message.models),
        "free_cache": list(message.free_cache) or None,
        "free_daily": _given(message, "free_daily"),
        "daily_searches": message.daily_searches or None,
    }


def funding(account_id: str, message: funding_pb2.GetFundingResponse) -> dict[str, Any]:
    """All of an account; a setting that is None is off."""
    settings = message.settings
    limit = settings.payg_limit if settings.HasField("payg_limit") else None
    return {
        "account_id": account_id,
        "keep_balance": settings.keep_balance,
        "free_fallback": settings.free_fallback,
        "payg_limit_micro_idr": limit.amount_micro_idr if limit is not None else None,
        "payg_window": limit.window if limit is not None else None,
        "payg_spent_micro_idr": message.payg_spent_micro_idr if limit is not None else None,
        "alert_pct": settings.alert_pct,
        "low_balance_micro_idr": settings.low_balance_micro_idr or None,
        "plan": subscription(message.subscription) if message.HasField("subscription") else None,
        "coupons": [coupon(one) for one in message.coupons],
        "token_allocations": [allocation(one) for one in message.token_allocations],
        "member_caps": [
            {"member_id": one.member_id, "cap_micro_idr": one.cap_micro_idr, "spent_micro_idr": one.spent_micro_idr}
            for one in message.member_caps
        ],
    }


def subscription(message: funding_pb2.Subscription) -> dict[str, Any]:
    """The plan an account has, or had last."""
    return {
        "plan_id": message.plan_id,
        "name": message.plan_name,
        "status": "active" if message.active else "ended",
        "source": message.source,
        "started": moment(message.started_at_ms),
        "ends": moment(message.ends_at_ms),
        "auto_renew": message.auto_renew,
        "on_sale": message.on_sale,
        "price_micro_idr": message.price_micro_idr,
        "daily_searches": message.daily_searches or None,
        "searches_used": message.searches_used if message.daily_searches else None,
        "windows": [
            {
                "window": one.window,
                "ceiling_micro_idr": one.ceiling_micro_idr,
                "used_micro_idr": one.used_micro_idr,
                "reserved_micro_idr": one.reserved_micro_idr,
                "resets": moment(one.resets_at_ms),
            }
            for one in message.windows
        ],
    }


def bought(message: funding_pb2.PurchasePlanResponse, idempotency_key: str) -> dict[str, Any]:
    """What a purchase or a gift led to."""
    return {
        "paid_micro_idr": message.paid_micro_idr,
        "balance_micro_idr": message.balance_micro_idr,
        "duplicate": message.duplicate,
        "idempotency_key": idempotency_key,
        "plan": subscription(message.subscription),
    }


def coupon(message: funding_pb2.Coupon) -> dict[str, Any]:
    """A coupon as a row; without a budget it has no limit."""
    return {
        "coupon_id": message.coupon_id,
        "name": message.name,
        "models": list(message.models),
        "budget_micro_idr": _given(message, "budget_micro_idr"),
        "used_micro_idr": message.used_micro_idr,
        "expires": moment(message.expires_at_ms),
    }


def allocation(message: funding_pb2.TokenAllocation) -> dict[str, Any]:
    """A token allocation as a row; without models it is for every model."""
    return {
        "allocation_id": message.allocation_id,
        "models": list(message.models) or None,
        "tokens": message.tokens,
        "used": message.used,
        "expires": moment(message.expires_at_ms),
    }


def key_use(key: dict[str, Any], message: funding_pb2.GetKeyUsageResponse) -> dict[str, Any]:
    """A capped key with what it has used; a cap that is None is none."""
    spends, counts = key["spend_cap_micro_idr"] is not None, key["token_cap"] is not None
    return {
        "key_id": key["key_id"],
        "status": key["status"],
        "label": key["label"],
        "cap_period": key["cap_period"],
        "spend_cap_micro_idr": key["spend_cap_micro_idr"],
        "spent_micro_idr": message.spent_micro_idr if spends else None,
        "spend_reserved_micro_idr": message.spend_reserved_micro_idr if spends else None,
        "token_cap": key["token_cap"],
        "tokens": message.tokens if counts else None,
        "tokens_reserved": message.tokens_reserved if counts else None,
    }


def _given(message: Any, field: str) -> int | None:
    return getattr(message, field) if message.HasField(field) else None
