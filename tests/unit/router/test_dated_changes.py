"""What time alone changes in the catalogue: prices from a moment on, retirement, and where requests go then."""

from pathlib import Path

import pytest

from libs.events.router import ModelPublished
from services.router.catalog.cards import Catalog, assemble
from services.router.catalog.load import load
from tests.unit.router.world import T0, World

DAY = 86_400
# 15 January 2027, 08:00 UTC, and days after it.
NOW = T0 // 1000
DATED = """
providers: [{id: p1, format: openai_chat, base_url: "http://p1/v1"}]
exchange: {usd_idr: 16500, as_of: 2026-11-30}
models:
  - id: old
    vendor: v
    rupiah_per_1m_tokens: {input: 10, output: 20}
    retires: {at: 2027-01-17T08:00:00Z, successor: middle, forward: true}
    served_by: [{provider: p1}]
  - id: middle
    vendor: v
    rupiah_per_1m_tokens: {input: 11, output: 21}
    retires: {at: 2027-01-18T08:00:00Z, successor: new, forward: true}
    served_by: [{provider: p1}]
  - id: new
    vendor: v
    market_rupiah_per_1m_tokens: {input: 15}
    usd_per_1m_tokens: {input: "0.1", output: "2.000001"}
    price_changes:
      - {at: 2027-01-17T08:00:00Z, rupiah_per_1m_tokens: {input: 30, output: 40}}
      - {at: 2027-01-19T08:00:00+00:00, rupiah_per_1m_tokens: {input: 31, output: 41}}
    revision: {name: 2027-01, at: 2027-01-10T00:00:00Z, note: {en: better}}
    served_by: [{provider: p1}]
  - {id: "new:free", vendor: v, free: true, served_by: [{provider: p1}]}
  - id: quiet
    vendor: v
    rupiah_per_1m_tokens: {input: 1, output: 1}
    retires: {at: 2027-01-17T08:00:00Z, successor: new}
    served_by: [{provider: p1}]
"""
FIRST, SECOND, THIRD = NOW + 2 * DAY, NOW + 3 * DAY, NOW + 4 * DAY


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "catalog.yaml").write_text(DATED)
    return tmp_path / "catalog.yaml"


def at(file: Path, moment_s: int) -> Catalog:
    return assemble(load(file, {}), {}, moment_s)


def price(catalog: Catalog, name: str) -> tuple[int, int]:
    found = catalog.offers[name].card.price
    return found.input, found.output


def card(catalog: Catalog, name: str) -> ModelPublished:
    return catalog.offers[name].card


def test_the_moments_of_this_file_are_what_its_dates_say(file: Path) -> None:
    assert [at(file, moment).changes_at for moment in (NOW, FIRST, SECOND, THIRD)] == [FIRST, SECOND, THIRD, None]


@pytest.mark.rule("MODEL-079")
def test_a_price_changes_at_its_moment_and_is_announced_before(file: Path) -> None:
    now, then = at(file, FIRST - 1), at(file, FIRST)
    assert price(now, "new") == (1_650_000_000, 33_000_016_500)
    upcoming = card(now, "new").upcoming_price
    assert upcoming is not None
    assert (upcoming.effective_at, upcoming.price.input) == (FIRST, 30_000_000)
    assert price(then, "new") == price(then, "new:free") == (30_000_000, 40_000_000)
    assert card(then, "new").price.version == upcoming.price.version
    after = card(then, "new").upcoming_price
    assert after is not None
    assert after.effective_at == THIRD
    assert card(at(file, THIRD), "new").upcoming_price is None


@pytest.mark.rule("MODEL-055", "MODEL-056")
def test_a_model_is_for_sale_until_the_second_of_its_retirement(file: Path) -> None:
    assert {"old", "quiet"} <= set(at(file, FIRST - 1).offers)
    assert card(at(file, FIRST - 1), "old").sunset_at == FIRST
    assert card(at(file, FIRST - 1), "old").successor == "middle"
    assert not {"old", "quiet"} & set(at(file, FIRST).offers)


@pytest.mark.rule("MODEL-057", "MODEL-058")
def test_requests_for_a_retired_model_go_to_the_first_successor_that_is_not(file: Path) -> None:
    assert at(file, FIRST - 1).forwards == {}
    assert at(file, FIRST).forwards == {"old": "middle"}
    assert at(file, SECOND).forwards == {"old": "new", "middle": "new"}


@pytest.mark.rule("MODEL-057", "MODEL-058", "MODEL-064")
def test_a_forwarded_request_has_the_successors_price_and_another_is_not_found(tmp_path: Path) -> None:
    world = World(tmp_path, {}, DATED)
    world.routing.offer(at(tmp_path / "catalog.yaml", FIRST))
    model = world.ask("old").route.model
    assert (model.id, model.price.input) == ("middle", 11_000_000)
    refusal = world.ask("quiet").refusal
    assert refusal.code == "model_not_found"
    assert "quiet" in refusal.message


def test_what_it_costs_elsewhere_and_which_revision_it_is_stand_on_the_card(file: Path) -> None:
    new = card(at(file, NOW), "new")
    assert (new.market_input, new.market_output) == (15_000_000, None)
    assert new.revision is not None
    assert (new.revision.name, new.revision.note_id, new.revision.note_en) == ("2027-01", None, "better")


def test_the_rate_of_exchange_is_published_and_no_model(file: Path) -> None:
    catalog = at(file, NOW)
    (rate,) = [one for one in catalog.cards() if one.kind == "rate"]
    assert (rate.id, rate.name, rate.price.unit) == ("usd_idr", "2026-11-30", 16_500_000_000)
    assert "usd_idr" not in catalog.offers
