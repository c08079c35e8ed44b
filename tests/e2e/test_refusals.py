"""Every refusal for want of money, quota or membership, in every client format: nothing runs and nothing is taken."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2
from kenari.ledger.v1 import ledger_pb2

from tests.cases.answers import says_ok
from tests.cases.caller import FORMATS, Caller
from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.purse import RUPIAH, Purse
from tests.support.system import Person, System, eventually

ALL = (*FORMATS, "kyara")
SHARED = {"kind": accounts_pb2.KEY_KIND_SHARED, "expires_in_days": 1}


@pytest.fixture
def provider(first: BackgroundProvider) -> BackgroundProvider:
    """Answers "ok" for 10 and 2 tokens."""
    first.answers(says_ok)
    return first


def ask(system: System, person: Person, format: str, model: str = "fx-oai", **members: Any) -> httpx.Response:
    caller = Caller(system, person)
    return caller.kyara(model=model, **members) if format == "kyara" else caller.ask(format, model, **members)


def broke(purse: Purse) -> Person:
    return purse.system.person(rupiahs=1)


def limited(purse: Purse) -> Person:
    purse.choose(payg=(0, "day"))
    return purse.person


def spend_capped(purse: Purse) -> Person:
    return purse.key(spend_cap_micro_idr=RUPIAH)


def token_capped(purse: Purse) -> Person:
    return purse.key(token_cap=20)


def used_up(purse: Purse) -> Person:
    """A key whose spend cap is passed by what it has spent."""
    key = purse.key(spend_cap_micro_idr=30 * RUPIAH)
    assert ask(purse.system, key, "chat").status_code == 200
    eventually(lambda: purse.system.usage(key))
    return key


def capped_member(purse: Purse) -> Person:
    member = purse.member()
    with purse.system.accounts() as accounts:
        request = accounts_pb2.ListMembersRequest(account_id=purse.person.account_id)
        ids = [one.person.person_id for one in accounts.ListMembers(request, timeout=10).members]
    for member_id in ids:
        purse.cap_member(member_id, 0)
    return member


def nobody(purse: Purse) -> Person:
    return purse.person


def spent(purse: Purse) -> Person:
    purse.give_plan(week_micro_idr=1)
    assert ask(purse.system, purse.person, "chat").status_code == 200
    eventually(lambda: purse.windows()["week"][0] > 0)
    return purse.person


def spent_without_free_models(purse: Purse) -> Person:
    purse.choose(free_fallback=True)
    spent(purse)
    return purse.key(models=["fx-oai"])


def shared_of_a_broke_owner(purse: Purse) -> Person:
    return purse.system.person(rupiahs=1, models=["fx-oai"], **SHARED)


@dataclass(frozen=True)
class Cause:
    """Who is refused, and how the refusal reads: in the OpenAI envelopes, on Messages, in the strict dialect."""

    who: Callable[[Purse], Person]
    status: int
    code: str
    messages_kind: str
    strict: tuple[int, str, str]
    says: tuple[str, ...] = ()
    model: str = "fx-oai"
    headers: dict[str, str | None] = field(default_factory=dict)


PAY = "payment_required"
NO_MONEY = (403, "permission_error", "insufficient_balance")
NO_PLAN = (403, "permission_error", "no_active_plan")
NO_QUOTA = (429, "rate_limit_error", "rate_limit_exceeded")
STAY = {"retry-after": None, "x-should-retry": "false"}

CAUSES = {
    "balance": Cause(broke, 402, "insufficient_balance", PAY, NO_MONEY, ("Rp 1 is available", "max_tokens", "top up")),
    "payg-limit": Cause(limited, 402, "payg_limit_reached", PAY, NO_MONEY, ("limit",)),
    "key-spend": Cause(spend_capped, 402, "key_spend_cap_reached", PAY, NO_MONEY, ("key",)),
    "key-spent": Cause(used_up, 402, "key_spend_cap_reached", PAY, NO_MONEY),
    "key-spent-free": Cause(used_up, 402, "key_spend_cap_reached", PAY, NO_MONEY, model="fx-free:free"),
    "key-tokens": Cause(token_capped, 402, "key_spend_cap_reached", PAY, NO_MONEY),
    "key-tokens-free": Cause(token_capped, 402, "key_spend_cap_reached", PAY, NO_MONEY, model="fx-free:free"),
    "member": Cause(capped_member, 402, "member_spend_cap_reached", PAY, NO_MONEY, ("workspace",)),
    "members-only": Cause(nobody, 403, "subscribers_only", "permission_error", NO_PLAN, model="fx-members"),
    "quota": Cause(spent, 429, "plan_limit_reached", "rate_limit_error", NO_QUOTA, ("Kuota",), headers=STAY),
    "quota-scope": Cause(
        spent_without_free_models, 429, "plan_limit_reached", "rate_limit_error", NO_QUOTA, ("kuota",), headers=STAY
    ),
    "shared": Cause(shared_of_a_broke_owner, 402, "insufficient_balance", PAY, NO_MONEY, ("owner",)),
}


@pytest.mark.rule(
    "AUTH-059", "AUTH-060", "BILL-024", "BILL-028", "BILL-035", "BILL-036", "ERR-001", "ERR-002", "ERR-006", "ERR-007",
    "ERR-008", "ERR-009", "ERR-012", "ERR-064", "ERR-068", "LIMIT-005", "LIMIT-033", "LIMIT-034", "LIMIT-047",
    "NOTE-084", "SUB-036", "SUB-040", "SUB-041", "SUB-066",
)  # fmt: skip
@pytest.mark.parametrize("cause", CAUSES)
def test_a_refusal_says_what_it_is_and_takes_nothing(system: System, provider: BackgroundProvider, cause: str) -> None:
    if cause.startswith("key-spent"):
        provider.answers(completion("ok", usage=(1_000, 1_250)))
    wanted, purse = CAUSES[cause], Purse(system, system.person())
    person = wanted.who(purse)
    owner = Person(person.account_id, purse.person.key_id, purse.person.key)
    before = funds(system, owner)
    provider.answers(says_ok)
    for format in ALL:
        for streamed in (False, True):
            answer = ask(system, person, format, wanted.model, stream=streamed)
            check(answer, format, wanted)
            books = system.request(answer.headers["x-request-id"])
            assert not (books.holds or books.usage or books.transfers)
    assert not provider.requests
    assert funds(system, owner) == before


def check(answer: httpx.Response, format: str, wanted: Cause) -> None:
    error = answer.json()["error"]
    if format == "kyara":
        assert (answer.status_code, error["type"], error["code"]) == wanted.strict, answer.text
    elif format == "messages":
        assert (answer.status_code, set(answer.json()), set(error)) == (
            wanted.status, {"type", "error"}, {"type", "message"},
        )  # fmt: skip
        assert error["type"] == wanted.messages_kind
    else:
        told = {"type": wanted.code, "code": wanted.code, "param": None}
        assert (answer.status_code, error) == (wanted.status, told | {"message": error["message"]}), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert all(words in error["message"] for words in wanted.says), error["message"]
    assert "retry-after" not in answer.headers
    assert not {"x-kenari-balance-micro-idr", "x-kenari-plan-remaining"} & set(answer.headers)
    for name, value in wanted.headers.items():
        assert answer.headers.get(name) == value


def funds(system: System, owner: Person) -> tuple[Any, ...]:
    """Everything that a request could have moved."""
    with system.ledger() as ledger:
        balance = ledger.GetBalance(ledger_pb2.GetBalanceRequest(account_id=owner.account_id), timeout=10)
    return balance.balance_micro_idr, balance.reserved_micro_idr, Purse(system, owner).windows()


@pytest.mark.rule("BILL-036")
def test_the_refusal_names_what_is_there_and_what_the_request_could_cost(
    system: System, provider: BackgroundProvider
) -> None:
    person = system.person(rupiahs=7)
    message = ask(system, person, "chat", max_tokens=1_024).json()["error"]["message"]
    # 1,024 tokens of output at Rp 0.024 and the input, in whole Rupiah that cover it.
    assert "Rp 7 is available" in message and "up to Rp 25" in message
    assert "the estimated input plus max_tokens at the output price" in message and "http" in message


@pytest.mark.rule("BILL-036")
def test_a_shared_key_learns_nothing_of_its_owners_money(system: System, provider: BackgroundProvider) -> None:
    answer = ask(system, shared_of_a_broke_owner(Purse(system, system.person())), "chat")
    assert answer.status_code == 402
    assert "Rp" not in answer.text and "http" not in answer.text


@pytest.mark.rule("ERR-065")
def test_a_capped_key_works_again_when_its_owner_says_so(system: System, provider: BackgroundProvider) -> None:
    provider.answers(completion("ok", usage=(1_000, 1_250)))
    purse = Purse(system, system.person())
    key = used_up(purse)
    assert ask(system, key, "chat").status_code == 402
    with system.accounts() as accounts:
        accounts.ResetKeyCaps(accounts_pb2.ResetKeyCapsRequest(key_id=key.key_id), timeout=10)
    eventually(lambda: ask(system, key, "chat").status_code == 200)
    eventually(lambda: ask(system, key, "chat").status_code == 402)
    raised = accounts_pb2.SetKeyLimitsRequest(key_id=key.key_id, spend_cap_micro_idr=500 * RUPIAH)
    with system.accounts() as accounts:
        accounts.SetKeyLimits(raised, timeout=10)
    eventually(lambda: ask(system, key, "chat").status_code == 200)
