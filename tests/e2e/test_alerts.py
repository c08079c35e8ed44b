"""What the owner of an account hears of its money: each alert once, on the ledger's topic."""

from typing import Any

from kenari.accounts.v1 import accounts_pb2

from libs.events.ledger import AlertRaised, UsageSettled
from tests.cases.answers import says_ok
from tests.cases.caller import Caller
from tests.e2e.test_plans import settled
from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.purse import DAY_MS, RUPIAH, Purse
from tests.support.system import System, eventually

OK = 10 * 4_200 + 2 * 24_000


def until_told(purse: Purse, requests: int) -> None:
    eventually(lambda: len(purse.told(UsageSettled)) == requests)


def alerts(purse: Purse, *kinds: str) -> list[dict[str, Any]]:
    """The account's alerts, which are exactly these, once all its usage has been told."""
    eventually(lambda: len(purse.told(AlertRaised)) >= len(kinds))
    found = purse.told(AlertRaised)
    assert [one.kind for one in found] == list(kinds)
    return [one.model_dump() for one in found]


def test_the_owner_hears_once_of_each_window(system: System, first: BackgroundProvider) -> None:
    first.answers(says_ok)
    purse = Purse(system, system.person())
    caller = Caller(system, purse.person)
    purse.give_plan(five_hour_micro_idr=OK, week_micro_idr=3 * OK, month_micro_idr=100 * OK)
    purse.choose(alert_pct=50)
    for used in (1, 2, 3):
        assert settled(system, caller.chat()) == "plan"
        purse.later(5 * 3_600_000)
        until_told(purse, used)
    warned, out = alerts(purse, "quota.week.warn", "quota.week.out")
    assert (warned["used_micro_idr"], warned["limit_micro_idr"]) == (2 * OK, 3 * OK)
    assert out["used_micro_idr"] == 3 * OK
    assert caller.chat().status_code == 429
    purse.later(7 * DAY_MS)
    for _ in range(2):
        assert settled(system, caller.chat()) == "plan"
        purse.later(5 * 3_600_000)
    alerts(purse, "quota.week.warn", "quota.week.out", "quota.week.warn")


def test_the_owner_hears_once_of_a_low_balance(system: System, first: BackgroundProvider) -> None:
    first.answers(completion("ok", usage=(1_000, 1_000)))
    purse = Purse(system, system.person(rupiahs=20_020))
    caller = Caller(system, purse.person)
    for _ in range(2):
        assert settled(system, caller.chat()) == "payg"
    alerts(purse, "wallet.low")
    system.credit(purse.person.account_id, 40)
    assert settled(system, caller.chat()) == "payg"
    alerts(purse, "wallet.low", "wallet.low")


def test_the_owner_hears_once_of_a_cap(system: System, first: BackgroundProvider) -> None:
    first.answers(completion("ok", usage=(1_000, 1_250)))
    purse = Purse(system, system.person())
    key, member = purse.key(spend_cap_micro_idr=30 * RUPIAH), purse.member()
    capped = Caller(system, key)
    assert settled(system, capped.chat()) == "payg"
    assert {capped.chat().status_code for _ in range(3)} == {402}
    (hit,) = alerts(purse, "key.cap.hit")
    assert (hit["subject"], hit["limit_micro_idr"]) == (key.key_id, 30 * RUPIAH)
    with system.accounts() as accounts:
        listed = accounts.ListMembers(accounts_pb2.ListMembersRequest(account_id=member.account_id), timeout=10).members
    member_id = next(one.person.person_id for one in listed if one.role == accounts_pb2.ROLE_MEMBER)
    purse.cap_member(member_id, 0)
    assert {Caller(system, member).chat().status_code for _ in range(3)} == {402}
    assert alerts(purse, "key.cap.hit", "member.cap.hit")[1]["subject"] == member_id
