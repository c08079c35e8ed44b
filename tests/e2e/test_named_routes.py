"""Named routes as a client sees them, through every service, with providers that fail."""

from typing import Any

import httpx
import pytest

from tests.support.background import BackgroundProvider
from tests.support.joined import join_chat
from tests.support.provider import DONE, completion, delta, error, finish, stream, usage
from tests.support.system import Person, System, eventually

ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello!"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
    "/v1/responses": {"input": "Hello!"},
}
COST = 1_000 * 4_200 + 100 * 24_000


def ask(system: System, person: Person, path: str = "/v1/chat/completions", **members: Any) -> httpx.Response:
    with system.http(person) as client:
        return client.post(path, json={"model": "mine", **ASKED[path], **members})


def rows(system: System, person: Person, count: int) -> list[dict[str, Any]]:
    return eventually(lambda: len(found := system.usage(person)) >= count and found)  # type: ignore[no-any-return]


@pytest.mark.rule("ROUTE-010", "ROUTE-024", "ROUTE-031", "ROUTE-044", "CHAT-029", "CHAT-045", "STR-020")
def test_the_first_step_answers_under_the_routes_name_and_is_paid(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    system.route(person, "mine", "fx-oai", "fx-other")
    first.answers(completion("ok", usage=(1_000, 100)))
    for path in ASKED:
        answer = ask(system, person, path)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "mine"
    first.answers(stream(delta("ok", role="assistant"), finish("stop"), usage(1_000, 100), DONE))
    assert join_chat(ask(system, person, stream=True).content).model == "mine"
    found = rows(system, person, 4)
    assert {(row["model"], row["billing_kind"], row["cost_micro_idr"]) for row in found} == {("fx-oai", "payg", COST)}
    assert not second.requests


@pytest.mark.rule("ROUTE-002", "ROUTE-024", "ROUTE-030", "ROUTE-044")
@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_a_step_that_fails_costs_nothing_and_the_next_one_answers(
    system: System, first: BackgroundProvider, second: BackgroundProvider, status: int, streamed: bool
) -> None:
    person = system.person()
    system.route(person, "mine", "fx-oai", "fx-other")
    first.answers(error(status, "no"))
    if streamed:
        second.answers(stream(delta("ok", role="assistant"), finish("stop"), usage(1_000, 100), DONE))
    else:
        second.answers(completion("ok", usage=(1_000, 100)))
    answer = ask(system, person, stream=streamed)
    assert answer.status_code == 200, answer.text
    (row,) = rows(system, person, 1)
    assert (row["model"], row["cost_micro_idr"]) == ("fx-other", COST)
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] == 100_000 * 1_000_000 - COST
    holds = {hold.line: hold.state for hold in system.request(answer.headers["x-request-id"]).holds}
    assert holds == {0: "released", 1: "settled"}


@pytest.mark.rule("ERR-076")
def test_when_every_step_fails_nothing_is_charged(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    system.route(person, "mine", "fx-oai", "fx-other")
    first.answers(error(500, "no"))
    second.answers(error(500, "no"))
    answer = ask(system, person)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "all_providers_failed")
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] == 100_000 * 1_000_000
    assert system.usage(person) == []


@pytest.mark.rule("ROUTE-043")
def test_without_money_a_free_step_serves(system: System, second: BackgroundProvider) -> None:
    person = system.person(rupiahs=0)
    system.route(person, "mine", "fx-other", "sim-1:free")
    answer = ask(system, person)
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["x-ratelimit-limit"]) > 0
    (row,) = rows(system, person, 1)
    assert (row["model"], row["billing_kind"], row["cost_micro_idr"]) == ("sim-1:free", "free", 0)
    assert not second.requests


@pytest.mark.rule("ROUTE-034")
def test_a_malformed_request_calls_no_step(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    system.route(person, "mine", "fx-oai", "fx-other")
    answer = ask(system, person, messages="Hello!")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert not first.requests + second.requests


@pytest.mark.rule("ROUTE-033")
def test_a_route_of_somebody_else_is_no_model(system: System) -> None:
    owner, other = system.person(), system.person()
    system.route(owner, "mine", "fx-oai")
    answer = ask(system, other)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "model_not_found")


@pytest.mark.rule("ROUTE-038", "ROUTE-039", "ROUTE-040", "ROUTE-041")
@pytest.mark.parametrize(
    "restricted",
    [{"models": ["fx-oai"]}, {"spend_cap_micro_idr": 10_000_000_000}, {"token_cap": 1_000_000}],
    ids=["scope", "spend-cap", "token-cap"],
)
def test_a_restricted_key_does_not_use_it(
    system: System, first: BackgroundProvider, restricted: dict[str, Any]
) -> None:
    person = system.person(**restricted)
    system.route(person, "mine", "fx-oai")
    for path in ASKED:
        assert ask(system, person, path).status_code == 400
    assert not first.requests
    assert ask(system, person, model="fx-oai").status_code == 200
