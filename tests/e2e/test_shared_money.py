"""What a shared key spends: its owner's money, up to its caps, and what its holder is told when that is not enough."""

from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.system import Person, System, eventually


def share(system: System, owner: Person, **caps: Any) -> Person:
    """A shared key of that account."""
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(
            account_id=owner.account_id, kind=accounts_pb2.KEY_KIND_SHARED, models=["fx-oai"], expires_in_days=1, **caps
        )
        made = accounts.CreateKey(request, timeout=10)
    return Person(owner.account_id, made.key.key_id, made.secret)


def ask(system: System, person: Person) -> httpx.Response:
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
    with system.http(person) as client:
        return client.post("/v1/chat/completions", json=body)


@pytest.mark.rule("AUTH-070")
def test_a_shared_key_spends_its_owners_money_and_stands_in_its_owners_log(
    system: System, first: BackgroundProvider
) -> None:
    owner = system.person()
    before = system.balance(owner)["balance_micro_idr"]
    holder = share(system, owner)
    assert ask(system, holder).status_code == 200
    (row,) = eventually(lambda: system.usage(owner))
    assert (row["api_key_id"], row["billing_kind"]) == (holder.key_id, "payg")
    assert row["cost_micro_idr"] > 0
    assert system.balance(owner)["balance_micro_idr"] == before - row["cost_micro_idr"]


@pytest.mark.rule("AUTH-073")
@pytest.mark.parametrize("cap", ["spend_cap_micro_idr", "token_cap"])
def test_a_shared_key_whose_cap_is_reached_is_refused_and_its_owner_is_not(
    system: System, first: BackgroundProvider, cap: str
) -> None:
    owner = system.person()
    first.answers(completion("ok", usage=(10, 2)))
    holder = share(system, owner, **{cap: 1})
    answer = ask(system, holder)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "key_spend_cap_reached")
    assert ask(system, owner).status_code == 200


@pytest.mark.rule("AUTH-074")
def test_the_holder_is_told_of_the_owner_when_money_is_short(system: System, first: BackgroundProvider) -> None:
    owner = system.person(rupiahs=0)
    answer = ask(system, share(system, owner))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (402, "insufficient_balance")
    assert "owner" in error["message"]
    assert not any(letter.isdigit() for letter in error["message"])
    own = ask(system, owner).json()["error"]["message"]
    assert "owner" not in own
    assert not first.requests


@pytest.mark.rule("AUTH-003", "AUTH-004")
def test_free_models_are_found_without_a_key_and_cost_an_empty_account_nothing(
    system: System, first: BackgroundProvider
) -> None:
    person = system.person(rupiahs=0)
    with system.http() as nobody:
        models = nobody.get("/v1/models").json()["data"]
    assert all(isinstance(model["pricing"]["free"], bool) for model in models)
    free = [model["id"] for model in models if model["pricing"]["free"] and "chat" in model["endpoints"]]
    assert free
    with system.http(person) as client:
        for model in free:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
            assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert system.balance(person)["balance_micro_idr"] == 0
