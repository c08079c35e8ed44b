"""GET /v1/account/quota: what is left of plan and coupon, to the Rupiah."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.cases.caller import Caller
from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.purse import DAY_MS, RUPIAH, Purse
from tests.support.system import Person, System, eventually

PATH = "/v1/account/quota"
INPUT, OUTPUT = 4_200, 24_000
NOTHING = {"plan": None, "coupon": None, "alert_pct": 80}
LENGTHS = {"five_hour": 5 * 3_600_000, "week": 7 * DAY_MS, "month": 30 * DAY_MS}


@pytest.fixture
def purse(system: System) -> Purse:
    return Purse(system, system.person())


def quota(system: System, person: Person, query: str = "") -> dict[str, Any]:
    with system.http(person) as client:
        answer = client.get(PATH + query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def use(purse: Purse, first: BackgroundProvider, prompt: int, completion_tokens: int) -> int:
    """Run one request of that size and return its list price."""
    first.answers(completion("ok", usage=(prompt, completion_tokens)))
    answer = Caller(purse.system, purse.person).chat()
    assert answer.status_code == 200, answer.text
    eventually(lambda: purse.system.request(answer.headers["x-request-id"]).usage)
    return prompt * INPUT + completion_tokens * OUTPUT


def moment(text: str) -> int:
    """Milliseconds of an RFC 3339 moment in UTC."""
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.rule("ACC-026", "ACC-027", "ACC-036", "ACC-040", "ACC-043")
def test_an_account_that_has_nothing(system: System, purse: Purse) -> None:
    assert quota(system, purse.person) == NOTHING
    assert quota(system, purse.person, "?colour=red&start=x") == NOTHING
    with system.http(purse.person) as client:
        assert client.request("GET", PATH, content=b"{").json() == NOTHING


@pytest.mark.rule("ACC-029", "ACC-030", "ACC-031", "ACC-032", "ACC-033", "ACC-034", "ACC-042")
def test_the_windows_of_a_plan(system: System, purse: Purse, first: BackgroundProvider) -> None:
    name = purse.give_plan(week_micro_idr=75_000 * RUPIAH, month_micro_idr=300_000 * RUPIAH)
    fresh = quota(system, purse.person)["plan"]
    assert fresh["name"] == name
    assert set(fresh["windows"]) == {"week", "month"}
    for window in fresh["windows"].values():
        assert (window["used_rp"], window["used_frac"]) == (0, 0)
    # 12,000 Rupiah at list price.
    used = use(purse, first, 0, 8_000) + use(purse, first, 100_000, 8_000)
    purse.sql(
        "update plan_window set used = used + $2 where account_id = $1", purse.person.account_id, 12_000 * RUPIAH - used
    )
    windows = quota(system, purse.person)["plan"]["windows"]
    assert set(windows["week"]) == {"budget_rp", "used_rp", "remaining_rp", "used_frac", "resets_at"}
    read = {name: tuple(window.values())[:4] for name, window in windows.items()}
    assert read == {"week": (75_000, 12_000, 63_000, 0.16), "month": (300_000, 12_000, 288_000, 0.04)}
    cycle = purse.read().subscription.started_at_ms
    for kind, window in windows.items():
        assert moment(window["resets_at"]) == (cycle + LENGTHS[kind]) // 1000 * 1000


@pytest.mark.rule("ACC-030", "ACC-031", "ACC-032", "ACC-033", "SUB-005")
def test_figures_are_rounded_against_the_reader_and_never_below_nothing(
    system: System, purse: Purse, first: BackgroundProvider
) -> None:
    purse.give_plan(week_micro_idr=90_500_000, five_hour_micro_idr=1_900_000)
    used = use(purse, first, 10, 2)
    windows = quota(system, purse.person)["plan"]["windows"]
    assert used == 90_000
    assert tuple(windows["week"].values())[:4] == (90, 1, 90, 0.0009)
    assert tuple(windows["five_hour"].values())[:4] == (1, 1, 1, 0.0473)
    use(purse, first, 1_000, 4_000)
    passed = quota(system, purse.person)["plan"]["windows"]["week"]
    assert tuple(passed.values())[:4] == (90, 101, 0, 1)


@pytest.mark.rule("ACC-035", "SUB-006", "SUB-007")
@pytest.mark.parametrize("kind", LENGTHS)
def test_a_window_starts_anew(system: System, purse: Purse, first: BackgroundProvider, kind: str) -> None:
    ceiling: dict[str, Any] = {f"{kind}_micro_idr": 100 * RUPIAH}
    purse.give_plan(days=90, **ceiling)
    use(purse, first, 10, 2)
    before = quota(system, purse.person)["plan"]["windows"][kind]
    purse.later(LENGTHS[kind])
    after = quota(system, purse.person)["plan"]["windows"][kind]
    assert (before["used_rp"], after["used_rp"], after["used_frac"]) == (1, 0, 0)
    # On a cycle that began one length earlier the second window ends when the first one did.
    assert after["resets_at"] == before["resets_at"]
    assert moment(after["resets_at"]) > purse.read().subscription.started_at_ms + LENGTHS[kind]


@pytest.mark.rule("ACC-027", "ACC-028", "ACC-029", "ACC-036", "SUB-071")
def test_a_plan_without_ceilings_one_that_is_not_sold_and_one_that_has_ended(system: System, purse: Purse) -> None:
    plan = purse.give_plan()
    assert quota(system, purse.person)["plan"] == {"name": plan, "windows": {}}
    purse.put_plan(plan, on_sale=False)
    assert quota(system, purse.person)["plan"] is None
    purse.put_plan(plan)
    purse.coupon(budget=None)
    both = quota(system, purse.person)
    assert both["plan"] and both["coupon"]
    purse.later(6 * DAY_MS)
    assert quota(system, purse.person)["coupon"]
    purse.later(24 * DAY_MS)
    assert quota(system, purse.person) == NOTHING


@pytest.mark.rule("ACC-036", "ACC-037", "ACC-038", "ACC-039", "ACC-031")
def test_a_coupon(system: System, purse: Purse, first: BackgroundProvider) -> None:
    purse.coupon(budget=30_900_000, name="Welcome")
    told = quota(system, purse.person)
    assert told["plan"] is None
    ends = purse.read().coupons[0].expires_at_ms
    assert told["coupon"] == {
        "name": "Welcome", "used_rp": 0, "remaining_rp": 30, "expires_at": told["coupon"]["expires_at"],
        "scope_models": ["fx-oai"],
    }  # fmt: skip
    assert moment(told["coupon"]["expires_at"]) == ends // 1000 * 1000
    use(purse, first, 10, 2)
    assert (
        quota(system, purse.person)["coupon"]["used_rp"],
        quota(system, purse.person)["coupon"]["remaining_rp"],
    ) == (1, 29)
    use(purse, first, 1_000, 4_000)
    spent = quota(system, purse.person)["coupon"]
    assert (spent["used_rp"], spent["remaining_rp"]) == (101, 0)
    unlimited = Purse(system, system.person())
    unlimited.coupon(budget=None)
    assert quota(system, unlimited.person)["coupon"]["remaining_rp"] is None


@pytest.mark.rule("ACC-040", "ACC-041")
@pytest.mark.parametrize("share", [50, 80, 90])
def test_the_threshold_of_the_alert(system: System, purse: Purse, share: int) -> None:
    purse.choose(alert_pct=share)
    assert quota(system, purse.person)["alert_pct"] == share


@pytest.mark.rule("ACC-002", "ACC-004", "ACC-005", "ACC-007", "ACC-045")
def test_who_may_read_it(system: System, purse: Purse) -> None:
    purse.give_plan(week_micro_idr=RUPIAH)
    shared = {"kind": accounts_pb2.KEY_KIND_SHARED, "models": ["fx-oai"], "expires_in_days": 1}
    refused = {
        "restricted_key_not_allowed": [
            purse.key(models=["fx-oai"]), purse.key(spend_cap_micro_idr=RUPIAH), purse.key(token_cap=1),
        ],
        "shared_key_not_allowed": [purse.key(**shared), purse.key(**shared, token_cap=1)],
    }  # fmt: skip
    for code, keys in refused.items():
        for key in keys:
            with system.http(key) as client:
                answer = client.get(PATH)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["type"]) == (403, code, "permission_error")
    before = purse.read()
    assert quota(system, purse.person)["plan"]
    assert purse.read() == before
    assert system.usage(purse.person) == []
    for headers, words in ({}, "missing authorization"), ({"authorization": "Bearer kn-" + "A" * 43}, "invalid key"):
        answer = httpx.get(system.base_url + PATH, headers=headers)
        assert (answer.status_code, answer.text) == (401, words)
        assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.rule("ACC-046")
def test_a_read_that_fails_says_so(system: System, purse: Purse) -> None:
    purse.give_plan()
    system.services["ledger"].pause()
    try:
        with system.http(purse.person) as client:
            answer = client.get(PATH)
    finally:
        system.services["ledger"].resume()
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"], error["param"]) == (
        500,
        "internal_error",
        "api_error",
        None,
    )
    eventually(lambda: quota(system, purse.person)["plan"])
