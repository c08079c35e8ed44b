"""What price pages read, through every service and without a key."""

import httpx
import pytest

from tests.support.system import System


@pytest.mark.rule("MODEL-076", "FREE-024")
def test_prices_and_free_limits_are_public(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/api/public/pricing")
    assert answer.status_code == 200
    told = answer.json()
    items = {item["model"]: item for item in told["items"]}
    assert items["fx-oai"]["price_in_micro_idr_per_1m"] == 4_200_000_000
    assert items["fx-image"]["image_micro_idr_per_image"] == 500_000_000
    assert items["fx-free:free"]["free"] is True
    assert set(told["free_tier"]) == {"daily", "rpm", "threshold_idr", "next", "plan"}
    assert told["free_tier"]["rpm"] > 0


@pytest.mark.rule("AUTH-032")
def test_pages_of_others_may_not_read_the_dashboards_api(system: System) -> None:
    origin = {"origin": "https://elsewhere.example", "access-control-request-method": "GET"}
    for path in ("/api/public/pricing", "/api/plans", "/api/nothing"):
        read = httpx.get(f"{system.base_url}{path}", headers=origin)
        asked = httpx.options(f"{system.base_url}{path}", headers=origin)
        for answer in (read, asked):
            assert not [name for name in answer.headers if name.startswith("access-control")]
        assert asked.status_code == 405


def test_plans_are_public(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/api/plans")
    assert answer.status_code == 200
    assert isinstance(answer.json()["plans"], list)
