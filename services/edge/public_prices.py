"""Prices and plans as anybody may read them: what is for sale, what free accounts get, which plans there are.

Called by endpoints/price_pages.py (contract: Models and pricing, Public price list; Free models, Limits).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from kenari.ledger.v1 import funding_pb2
from kenari.limiter.v1 import limiter_pb2

from libs.core.errors import Transient
from libs.events.router import ModelPublished, Price
from services.edge.catalog import Catalog
from services.edge.clients import LedgerClient, LimiterClient

T = TypeVar("T")

FRESH_S = 30.0


class _Recent(Generic[T]):
    """What a peer said last, asked for again when it is older than half a minute; kept while the peer is away."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._said: T | None = None
        self._at = float("-inf")

    async def get(self) -> T:
        if self._said is None or time.monotonic() - self._at > FRESH_S:
            try:
                self._said = await self._ask()
                self._at = time.monotonic()
            except Transient:
                if self._said is None:
                    raise
        return self._said


class PublicPrices:
    """The two feeds. Both raise Transient while what they need has never been heard."""

    def __init__(self, catalog: Catalog, limiter: LimiterClient, ledger: LedgerClient) -> None:
        self._catalog = catalog
        self._tiers = _Recent(limiter.free_tiers)
        self._plans = _Recent(ledger.plans)

    async def pricing(self) -> dict[str, Any]:
        """The body of ``GET /api/public/pricing``."""
        tiers = await self._tiers.get()
        return {
            "items": [_item(model) for model in self._catalog.listed(None)],
            "usd_idr_rate": self._catalog.usd_idr(),
            "free_tier": {
                **_limits(tiers.new_account),
                "threshold_idr": tiers.threshold_idr,
                "next": _limits(tiers.qualified) if tiers.HasField("qualified") else None,
                "plan": _limits(tiers.with_plan),
            },
        }

    async def plans(self) -> dict[str, Any]:
        """The body of ``GET /api/plans``: the plans on sale."""
        tiers = await self._tiers.get()
        return {"plans": [_plan(plan, tiers.with_plan.daily) for plan in await self._plans.get()]}


def _limits(tier: limiter_pb2.FreeTier) -> dict[str, int]:
    return {"daily": tier.daily, "rpm": tier.rpm}


def _plan(plan: funding_pb2.Plan, usual_daily: int) -> dict[str, Any]:
    own = plan.free_daily if plan.HasField("free_daily") else None
    return {
        "id": plan.plan_id,
        "name": plan.name,
        "price_micro_idr": plan.price_micro_idr,
        # None: without a ceiling.
        "five_hour_micro_idr": plan.five_hour_micro_idr if plan.HasField("five_hour_micro_idr") else None,
        "week_micro_idr": plan.week_micro_idr if plan.HasField("week_micro_idr") else None,
        "month_micro_idr": plan.month_micro_idr if plan.HasField("month_micro_idr") else None,
        "models": list(plan.models),
        "free_cache": list(plan.free_cache),
        "daily_searches": plan.daily_searches,
        "free_daily_quota": own,
        "free_daily_quota_effective": usual_daily if own is None else own,
    }


def _item(model: ModelPublished) -> dict[str, Any]:
    price, coming, revision = model.price, model.upcoming_price, model.revision
    note = {"id": revision.note_id, "en": revision.note_en} if revision is not None else None
    return {
        "model": model.id,
        "provider": model.vendor,
        "free": model.free,
        "subscriber_only": model.subscribers_only,
        "endpoints": list(model.endpoints),
        **_prices(model, price),
        # A reference is worth showing where it is more than ours.
        "market_in_micro_idr_per_1m": _if_more(model.market_input, price.input),
        "market_out_micro_idr_per_1m": _if_more(model.market_output, price.output),
        "pricing_lines": [line.model_dump() for line in model.price_lines],
        "input_modalities": list(model.input_modalities),
        "output_modalities": list(model.output_modalities),
        "sunset_at": model.sunset_at,
        "upcoming_price": _prices(model, coming.price) | {"effective_at": coming.effective_at} if coming else None,
        "revision": revision.name if revision is not None else None,
        "revision_at": revision.at if revision is not None else None,
        "revision_note": note if note and any(note.values()) else None,
    }


def _prices(model: ModelPublished, price: Price) -> dict[str, int | None]:
    by_tokens = price.unit is None or bool(price.input or price.output)
    return {
        "price_in_micro_idr_per_1m": price.input if by_tokens else None,
        "price_out_micro_idr_per_1m": price.output if by_tokens else None,
        "price_cached_micro_idr_per_1m": price.cache_read,
        "price_cache_write_micro_idr_per_1m": price.cache_write,
        "image_micro_idr_per_image": price.unit if "images" in model.endpoints else None,
    }


def _if_more(market: int | None, ours: int) -> int | None:
    return market if market is not None and market > ours else None
