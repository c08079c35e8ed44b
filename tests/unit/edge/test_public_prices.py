"""The public price list and the list of plans: every field, and what is said while a peer is away."""

from typing import Any, cast

import pytest
from kenari.ledger.v1 import funding_pb2
from kenari.limiter.v1 import limiter_pb2

from libs.core.errors import Transient
from libs.events.router import ModelPublished, Price, PriceChange, PriceLine, Revision
from services.edge import public_prices
from services.edge.public_prices import PublicPrices
from tests.unit.edge.published import card, catalog

TIERS = limiter_pb2.GetFreeTiersResponse(
    new_account=limiter_pb2.FreeTier(rpm=10, daily=50),
    qualified=limiter_pb2.FreeTier(rpm=30, daily=500),
    with_plan=limiter_pb2.FreeTier(rpm=60, daily=1_000),
    threshold_idr=50_000,
)


class Said:
    """Limiter and ledger that say what a test puts here, or nothing."""

    def __init__(self) -> None:
        self.tiers: limiter_pb2.GetFreeTiersResponse | None = TIERS
        self.asked = 0

    async def free_tiers(self) -> limiter_pb2.GetFreeTiersResponse:
        self.asked += 1
        if self.tiers is None:
            raise Transient("away", reason="unavailable")
        return self.tiers

    async def plans(self) -> list[funding_pb2.Plan]:
        own = funding_pb2.Plan(plan_id="p1", name="Indie", week_micro_idr=7, models=["m"], free_daily=0, on_sale=True)
        usual = funding_pb2.Plan(plan_id="p2", name="Pro", price_micro_idr=5, free_cache=["m"], daily_searches=9)
        return [own, usual]


def prices(*models: ModelPublished, said: Said | None = None) -> PublicPrices:
    peers: Any = said or Said()
    return PublicPrices(catalog(*models), cast("Any", peers), cast("Any", peers))


async def item(model: ModelPublished) -> dict[str, Any]:
    (found,) = (await prices(model).pricing())["items"]
    return dict(found)


@pytest.mark.rule("MODEL-077", "MODEL-078", "MODEL-080", "MODEL-083", "CHANGE-077")
async def test_an_item_has_every_field() -> None:
    line = PriceLine(endpoint="chat", billable="input", unit="token_1m", micro_idr=5)
    price = Price(version="p", input=5, output=6, cache_read=1)
    found = await item(card("m", price=price, price_lines=(line,), subscribers_only=True, sunset_at=1_900_000_000))
    assert found == {
        "model": "m",
        "provider": "v",
        "free": False,
        "subscriber_only": True,
        "endpoints": ["chat"],
        "price_in_micro_idr_per_1m": 5,
        "price_out_micro_idr_per_1m": 6,
        "price_cached_micro_idr_per_1m": 1,
        "price_cache_write_micro_idr_per_1m": None,
        "image_micro_idr_per_image": None,
        "market_in_micro_idr_per_1m": None,
        "market_out_micro_idr_per_1m": None,
        "pricing_lines": [line.model_dump()],
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "sunset_at": 1_900_000_000,
        "upcoming_price": None,
        "revision": None,
        "revision_at": None,
        "revision_note": None,
    }


@pytest.mark.rule("MODEL-079", "MODEL-081")
async def test_an_image_has_its_price_and_what_it_will_cost() -> None:
    coming = PriceChange(effective_at=1_900_000_000, price=Price(version="q", input=0, output=0, unit=600))
    price = Price(version="p", input=0, output=0, unit=500)
    found = await item(card("painter", "images", price=price, upcoming_price=coming))
    assert (found["image_micro_idr_per_image"], found["price_in_micro_idr_per_1m"]) == (500, None)
    assert found["upcoming_price"]["image_micro_idr_per_image"] == 600
    assert found["upcoming_price"]["effective_at"] == 1_900_000_000


@pytest.mark.rule("MODEL-082")
async def test_the_market_is_shown_on_the_side_where_it_is_dearer() -> None:
    price = Price(version="p", input=5, output=6)
    found = await item(card("m", price=price, market_input=8, market_output=6))
    assert (found["market_in_micro_idr_per_1m"], found["market_out_micro_idr_per_1m"]) == (8, None)


@pytest.mark.rule("CHANGE-077")
async def test_a_revision_has_its_moment_and_note() -> None:
    found = await item(card("m", revision=Revision(name="r2", at=1_800_000_000, note_en="better")))
    assert (found["revision"], found["revision_at"]) == ("r2", 1_800_000_000)
    assert found["revision_note"] == {"id": None, "en": "better"}


@pytest.mark.rule("MODEL-084", "MODEL-085", "MODEL-086")
async def test_everything_for_sale_is_listed_but_specialized_models_and_what_is_no_model() -> None:
    rate = card("usd_idr", kind="rate", price=Price(version="r", input=0, output=0, unit=16_500_000_000))
    models = (card("m"), card("m:free", free=True), card("e", "embeddings"), card("web_search", kind="fee"), rate)
    told = await prices(*models).pricing()
    assert [found["model"] for found in told["items"]] == ["m", "m:free"]
    assert told["usd_idr_rate"] == 16_500
    assert (await prices(card("m")).pricing())["usd_idr_rate"] is None


@pytest.mark.rule("MODEL-076", "FREE-024", "FREE-027", "FREE-028")
async def test_free_accounts_are_described_as_the_limiter_has_them() -> None:
    said = Said()
    told = (await prices(said=said).pricing())["free_tier"]
    assert told == {
        "daily": 50,
        "rpm": 10,
        "threshold_idr": 50_000,
        "next": {"daily": 500, "rpm": 30},
        "plan": {"daily": 1_000, "rpm": 60},
    }
    said.tiers = limiter_pb2.GetFreeTiersResponse(new_account=TIERS.qualified, with_plan=TIERS.with_plan)
    assert (await prices(said=said).pricing())["free_tier"]["next"] is None


@pytest.mark.rule("FREE-029")
async def test_a_plan_without_a_quota_of_its_own_has_that_of_all_plans() -> None:
    own, usual = (await prices().plans())["plans"]
    assert (own["free_daily_quota"], own["free_daily_quota_effective"]) == (0, 0)
    assert (usual["free_daily_quota"], usual["free_daily_quota_effective"]) == (None, 1_000)
    assert (own["week_micro_idr"], own["month_micro_idr"], own["models"]) == (7, None, ["m"])


async def test_a_peer_is_asked_now_and_then_and_its_last_word_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Said()
    feed = prices(said=said)
    await feed.pricing()
    await feed.pricing()
    assert said.asked == 1
    monkeypatch.setattr(public_prices, "FRESH_S", -1.0)
    said.tiers = None
    assert (await feed.pricing())["free_tier"]["daily"] == 50
    assert said.asked == 2
    with pytest.raises(Transient):
        await prices(said=said).pricing()
