"""A plan from purchase to end, as clients of its owner see it: quota, header, settings, renewal, what is told."""

from typing import Any

import grpc
import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from libs.events.ledger import PlanChanged
from tests.cases.answers import says_ok
from tests.cases.caller import FORMATS, KYARA, Caller, join
from tests.support.background import BackgroundProvider
from tests.support.purse import DAY_MS, RUPIAH, Purse
from tests.support.system import System, eventually

BALANCE, LEFT = "x-kenari-balance-micro-idr", "x-kenari-plan-remaining"
OK = 10 * 4_200 + 2 * 24_000
PRICE = 50_000 * RUPIAH
FREE = {"fx-think:free", "fx-free:free", "sim-1:free"}


@pytest.fixture
def provider(first: BackgroundProvider) -> BackgroundProvider:
    """Answers "ok" for 10 and 2 tokens."""
    first.answers(says_ok)
    return first


@pytest.fixture
def purse(system: System, provider: BackgroundProvider) -> Purse:
    """Of an account with Rp 100,000."""
    return Purse(system, system.person())


@pytest.fixture
def caller(system: System, purse: Purse) -> Caller:
    return Caller(system, purse.person)


def settled(system: System, answer: httpx.Response) -> str:
    """Who paid for an answered request, once its usage is in the books."""
    assert answer.status_code == 200, answer.text
    request_id = answer.headers["x-request-id"]
    books = eventually(lambda: (found := system.request(request_id)).usage and found)
    return str(books.usage[0].billing_kind)


def spend_quota(system: System, caller: Caller) -> None:
    """One request that crosses a ceiling of one micro-Rupiah."""
    assert settled(system, caller.chat()) == "plan"


@pytest.mark.rule("SUB-001", "SUB-003", "BILL-037", "NOTE-078", "NOTE-079", "NOTE-080", "NOTE-084", "USE-026")
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_plan_pays_and_says_what_is_left(
    system: System, first: BackgroundProvider, format: str, streamed: bool
) -> None:
    first.answers(says_ok)
    person = system.person(rupiahs=0)
    purse, caller = Purse(system, person), Caller(system, person)
    # The month takes three requests of this size, the week one and a half.
    purse.give_plan(week_micro_idr=OK * 3 // 2, month_micro_idr=OK * 3)
    for said in ("week=1.00, month=1.00", "week=0.33, month=0.66"):
        answer = caller.ask(format, "fx-oai", stream=streamed)
        assert settled(system, answer) == "plan"
        assert answer.headers[LEFT] == said
        assert BALANCE not in answer.headers
    assert purse.windows() == {"week": (2 * OK, 0), "month": (2 * OK, 0)}
    assert caller.settled() == 0


@pytest.mark.rule("NOTE-078", "NOTE-081", "NOTE-082", "SUB-011", "FREE-001")
def test_the_header_is_for_the_owners_whole_keys_alone(system: System, purse: Purse, caller: Caller) -> None:
    purse.give_plan(week_micro_idr=1_000 * RUPIAH)
    assert caller.kyara(model="fx-oai").status_code == 200
    restricted = {
        "scope": purse.key(models=["fx-oai", "fx-free:free"]),
        "spend": purse.key(spend_cap_micro_idr=10_000 * RUPIAH),
        "tokens": purse.key(token_cap=1_000_000),
        "shared": purse.key(models=["fx-oai"], kind=accounts_pb2.KEY_KIND_SHARED, expires_in_days=1),
    }
    for key in restricted.values():
        answer = Caller(system, key).chat()
        assert settled(system, answer) == "plan"
        assert LEFT not in answer.headers
    # A model the plan does not list is paid from the balance, with both headers.
    other = caller.chat("fx-two")
    assert settled(system, other) == "payg"
    assert {BALANCE, LEFT} <= set(other.headers)
    used = purse.windows()
    # Once the edge has heard of the plan.
    free = eventually(lambda: (answer := caller.chat("fx-free:free")) and LEFT in answer.headers and answer)
    assert settled(system, free) == "free"
    assert BALANCE not in free.headers
    assert purse.windows() == used


@pytest.mark.rule("SUB-002", "SUB-004", "SUB-005", "SUB-006", "SUB-007", "SUB-040", "LIMIT-033")
@pytest.mark.parametrize(
    ("window", "length_ms"), [("five_hour", 5 * 3_600_000), ("week", 7 * DAY_MS), ("month", 30 * DAY_MS)]
)
def test_one_spent_window_stops_requests_until_it_resets(
    system: System, purse: Purse, caller: Caller, window: str, length_ms: int
) -> None:
    ceilings: dict[str, Any] = {f"{name}_micro_idr": 1_000 * RUPIAH for name in ("five_hour", "week", "month")}
    purse.give_plan(days=90, **(ceilings | {f"{window}_micro_idr": 1}))
    spend_quota(system, caller)
    assert purse.windows()[window] == (OK, 0)
    assert caller.chat().status_code == 429
    purse.later(length_ms)
    assert purse.windows()[window] == (0, 0)
    assert settled(system, caller.chat()) == "plan"
    assert purse.windows()[window] == (OK, 0)


@pytest.mark.rule("SUB-037", "SUB-038", "USE-025", "NOTE-082")
@pytest.mark.parametrize("free", [False, True])
def test_spent_quota_goes_on_from_the_balance_when_its_owner_keeps_using_it(
    system: System, purse: Purse, caller: Caller, free: bool
) -> None:
    purse.give_plan(week_micro_idr=1)
    purse.choose(keep_balance=True, free_fallback=free)
    spend_quota(system, caller)
    answer = caller.chat()
    assert settled(system, answer) == "payg"
    assert BALANCE in answer.headers and answer.headers[LEFT] == "week=0.00"
    assert caller.settled() == 100_000 * RUPIAH - OK
    poor = Caller(system, system.person(rupiahs=1))
    pennies = Purse(system, poor.person)
    pennies.give_plan(week_micro_idr=1)
    pennies.choose(keep_balance=True, free_fallback=free)
    spend_quota(system, poor)
    assert poor.chat().status_code == 402


@pytest.mark.rule("SUB-042", "BILL-024", "BILL-028")
def test_the_payg_limit_holds_after_the_quota_and_not_within_it(system: System, purse: Purse, caller: Caller) -> None:
    plan = purse.give_plan(week_micro_idr=1_000 * RUPIAH)
    purse.choose(keep_balance=True, payg=(0, "month"))
    assert settled(system, caller.chat()) == "plan"
    assert settled(system, caller.chat("fx-free:free")) == "free"
    purse.put_plan(plan, week_micro_idr=1)
    refused = caller.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "payg_limit_reached")


@pytest.mark.rule("BILL-018", "BILL-024", "BILL-025", "BILL-027", "BILL-023")
def test_the_payg_limit_lets_the_crossing_request_finish_and_rolls(
    system: System, purse: Purse, caller: Caller
) -> None:
    purse.buy(purse.put_plan(models=["fx-other"], price_micro_idr=RUPIAH))
    purse.choose(payg=(OK + 1, "day"))
    assert [settled(system, caller.chat()) for _ in range(2)] == ["payg", "payg"]
    assert caller.chat().status_code == 402
    assert purse.read().payg_spent_micro_idr == 2 * OK
    purse.later(DAY_MS + 60_000)
    assert settled(system, caller.chat()) == "payg"
    purse.choose(payg=(1, "day"))
    assert caller.chat().status_code == 402
    purse.choose(payg=(0, ""))
    assert settled(system, caller.chat()) == "payg"


@pytest.mark.rule("SUB-039", "USE-025")
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", FORMATS)
def test_spent_quota_goes_on_with_free_models(
    system: System, purse: Purse, caller: Caller, format: str, streamed: bool
) -> None:
    purse.give_plan(week_micro_idr=1)
    purse.choose(free_fallback=True)
    spend_quota(system, caller)
    answer = caller.ask(format, "fx-oai", stream=streamed)
    assert settled(system, answer) == "free"
    # The client sees the model it asked for; the log has the one that served.
    model = join(format, answer).model if streamed else answer.json()["model"]
    row = caller.log(2)[-1]
    assert (model, row["billing_kind"], row["cost_micro_idr"]) == ("fx-oai", "free", 0)
    assert row["model"] in FREE
    assert BALANCE not in answer.headers and int(answer.headers["x-ratelimit-limit"]) > 0
    assert caller.settled() == 100_000 * RUPIAH
    assert purse.windows() == {"week": (OK, 0)}


@pytest.mark.rule("SUB-043", "SUB-044", "SUB-045", "SUB-059", "SUB-067", "SUB-025", "NOTE-078")
def test_when_a_plan_has_ended(system: System, purse: Purse, caller: Caller) -> None:
    purse.give_plan("trial", week_micro_idr=1_000 * RUPIAH, models=["fx-oai", "fx-members"])
    assert settled(system, caller.chat("fx-members")) == "plan"
    assert LEFT in caller.chat().headers
    purse.later(30 * DAY_MS)
    answer = caller.chat()
    assert settled(system, answer) == "payg"
    assert LEFT not in answer.headers
    refused = caller.chat("fx-members")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "subscribers_only")
    purse.choose(free_fallback=True)
    assert settled(system, caller.chat()) == "free"
    assert settled(system, caller.chat("fx-two")) == "payg"
    assert caller.chat("fx-members").status_code == 403
    assert caller.chat("fx-members", path=KYARA).status_code == 403
    purse.choose(keep_balance=True)
    assert settled(system, caller.chat()) == "payg"
    assert eventually(lambda: [event.change for event in purse.told(PlanChanged)] == ["started", "lapsed"])


@pytest.mark.rule("SUB-008", "SUB-009", "SUB-010", "SUB-014", "SUB-015", "SUB-027", "SUB-028", "SUB-029")
def test_plans_are_bought_extended_upgraded_and_restarted(system: System, purse: Purse, caller: Caller) -> None:
    small = purse.put_plan(price_micro_idr=10_000 * RUPIAH, week_micro_idr=1_000 * RUPIAH)
    large = purse.put_plan(price_micro_idr=PRICE, week_micro_idr=5_000 * RUPIAH)
    assert purse.buy(small) == 10_000 * RUPIAH
    spend_quota(system, caller)
    first = purse.read().subscription
    assert purse.buy(small) == 10_000 * RUPIAH
    longer = purse.read().subscription
    assert longer.ends_at_ms - first.ends_at_ms == 30 * DAY_MS
    assert longer.started_at_ms == first.started_at_ms and purse.windows() == {"week": (OK, 0)}
    purse.later(30 * DAY_MS)
    paid = purse.buy(large)
    # The second 30 days are almost whole.
    assert PRICE - 10_000 * RUPIAH <= paid < PRICE - 9_990 * RUPIAH
    assert purse.windows() == {"week": (0, 0)}
    with pytest.raises(grpc.RpcError, match="higher"):
        purse.buy(small)
    spend_quota(system, caller)
    with pytest.raises(grpc.RpcError, match="does not cover"):
        purse.buy(large, new_cycle=True)
    assert purse.windows() == {"week": (OK, 0)}
    system.credit(purse.person.account_id, 50_000)
    purse.later(10 * DAY_MS)
    assert purse.buy(large, new_cycle=True) == PRICE
    fresh = purse.read().subscription
    assert fresh.ends_at_ms - fresh.started_at_ms == 30 * DAY_MS
    assert purse.windows() == {"week": (0, 0)}
    assert caller.settled() == 150_000 * RUPIAH - 20_000 * RUPIAH - paid - PRICE
    eventually(lambda: len(purse.told(PlanChanged)) >= 4)
    assert [event.change for event in purse.told(PlanChanged)] == ["started", "renewed", "upgraded", "restarted"]


@pytest.mark.rule("SUB-021", "SUB-022", "SUB-023", "SUB-024", "SUB-071")
def test_a_plan_renews_itself_from_the_balance_while_it_can(system: System, purse: Purse, caller: Caller) -> None:
    plan = purse.put_plan(price_micro_idr=PRICE, week_micro_idr=1_000 * RUPIAH)
    purse.buy(plan)
    purse.auto_renew()
    started = purse.read().subscription.started_at_ms
    purse.later(30 * DAY_MS)
    renewed = eventually(lambda: (read := purse.read().subscription).active and read)
    assert renewed.ends_at_ms - (started - 30 * DAY_MS) == 60 * DAY_MS
    assert caller.balance == 0
    # Nothing is left: it ends, and is not tried again.
    purse.later(30 * DAY_MS)
    ended = eventually(lambda: not (read := purse.read().subscription).auto_renew and read)
    assert not ended.active and caller.balance == 0
    told = eventually(lambda: len(events := purse.told(PlanChanged)) >= 3 and events)
    assert [(one.change, one.paid_micro_idr) for one in told] == [
        ("started", PRICE), ("auto_renewed", PRICE), ("auto_renew_failed", 0),
    ]  # fmt: skip
    other = Purse(system, system.person())
    other.grant(plan)
    other.auto_renew()
    other.put_plan(plan, price_micro_idr=PRICE, on_sale=False)
    with pytest.raises(grpc.RpcError, match="not on sale"):
        other.buy(plan)
    assert settled(system, Caller(system, other.person).chat()) == "plan"
    other.later(30 * DAY_MS)
    eventually(lambda: not other.read().subscription.auto_renew)
    assert Caller(system, other.person).balance == 100_000 * RUPIAH
    assert eventually(lambda: [event.change for event in other.told(PlanChanged)][-1] == "auto_renew_failed")
