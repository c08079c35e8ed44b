"""kenari-free as a client sees it, through every service, with providers that fail and one that never does."""

from typing import Any

import httpx
import pytest

from tests.support.background import BackgroundProvider
from tests.support.joined import join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.support.provider import completion, error
from tests.support.system import Person, System, eventually

ROUTE = "kenari-free"
FREE = {"fx-think:free", "fx-free:free", "sim-1:free"}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello!"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
    "/v1/responses": {"input": "Hello!"},
}
JOINED: dict[str, Any] = {
    "/v1/chat/completions": join_chat,
    "/v1/messages": join_messages,
    "/v1/responses": join_responses,
}


def ask(system: System, person: Person, path: str = "/v1/chat/completions", **members: Any) -> httpx.Response:
    with system.http(person) as client:
        return client.post(path, json={"model": ROUTE, **ASKED[path], **members})


def rows(system: System, person: Person, count: int) -> list[dict[str, Any]]:
    return eventually(lambda: len(found := system.usage(person)) >= count and found)  # type: ignore[no-any-return]


@pytest.mark.rule("FREE-001", "FREE-002", "FREE-006", "CHAT-029", "CHAT-045", "ROUTE-010", "STR-020")
def test_an_account_without_money_is_answered_in_every_format(system: System) -> None:
    person = system.person(rupiahs=0)
    for path, join in JOINED.items():
        whole = ask(system, person, path)
        assert whole.status_code == 200, whole.text
        assert whole.json()["model"] == ROUTE
        assert int(whole.headers["x-ratelimit-limit"]) > 0
        streamed = ask(system, person, path, stream=True)
        assert join(streamed.content).model == ROUTE
    found = rows(system, person, 6)
    assert {row["billing_kind"] for row in found} == {"free"}
    assert {row["model"] for row in found} <= FREE
    assert {row["cost_micro_idr"] for row in found} == {0}
    assert system.balance(person)["balance_micro_idr"] == 0


@pytest.mark.rule("FREE-008", "ROUTE-030")
@pytest.mark.parametrize("status", [400, 404, 429, 500])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_it_goes_on_to_a_model_that_answers(
    system: System, first: BackgroundProvider, status: int, stream: bool
) -> None:
    first.answers(error(status, "no"))
    person = system.person(rupiahs=0)
    for _ in range(4):
        answer = ask(system, person, stream=stream)
        assert answer.status_code == 200, answer.text
    assert {row["model"] for row in rows(system, person, 4)} == {"sim-1:free"}
    assert len(first.requests) >= 1


def test_its_answers_count_once_against_the_free_limits_of_the_account(
    system: System, first: BackgroundProvider
) -> None:
    first.answers(error(500, "no"))
    person = system.person(rupiahs=0)
    left = {int(ask(system, person).headers["x-ratelimit-remaining"]) for _ in range(4)}
    limit = int(ask(system, person, model="sim-1:free").headers["x-ratelimit-limit"])
    # One for each request, whether models were tried in vain before or not.
    assert left == {limit - 1, limit - 2, limit - 3, limit - 4}


@pytest.mark.rule("FREE-012", "ROUTE-040", "ROUTE-041")
def test_a_key_with_a_scope_may_not_use_it(system: System, first: BackgroundProvider) -> None:
    person = system.person(rupiahs=0, models=["fx-free:free", "sim-1:free"])
    for path in ASKED:
        answer = ask(system, person, path)
        assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"
    assert not first.requests
    assert ask(system, person, model="fx-free:free").status_code == 200


@pytest.mark.rule("FREE-009", "RSN-041")
def test_tools_and_levels_reach_the_model_that_takes_them(system: System, first: BackgroundProvider) -> None:
    person = system.person(rupiahs=0)
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    first.answers(completion("ok"))
    levels = set()
    for _ in range(10):
        answer = ask(system, person, model=f"{ROUTE}:xhigh", tools=[tool])
        assert answer.status_code == 200, answer.text
        levels.add(answer.headers.get("x-kenari-gated-effort"))
    # fx-think:free lists up to high, the others do not think.
    assert levels <= {"high", None}
    assert all(received.json["tools"] for received in first.requests)


@pytest.mark.rule("FREE-004", "FREE-005", "MODEL-047")
def test_every_free_model_of_the_list_answers_for_nothing_whatever_price_it_shows(
    system: System, first: BackgroundProvider
) -> None:
    first.answers(completion("ok"))
    person = system.person(rupiahs=0)
    listed = {entry["id"]: entry for entry in httpx.get(f"{system.base_url}/v1/models").json()["data"]}
    free = {name for name, entry in listed.items() if entry["pricing"]["free"] and "chat" in entry["endpoints"]}
    assert free == FREE
    for name in sorted(free):
        assert ask(system, person, model=name).status_code == 200
    assert listed["sim-1:free"]["pricing"]["input"] == listed["sim-1"]["pricing"]["input"] > 0
    assert {row["cost_micro_idr"] for row in rows(system, person, len(free))} == {0}


@pytest.mark.rule("MODEL-054")
def test_what_a_request_costs_follows_from_the_price_lines(system: System, first: BackgroundProvider) -> None:
    first.answers(completion("ok", usage=(1_000, 100)))
    person = system.person()
    assert ask(system, person, model="fx-oai").status_code == 200
    listed = {entry["id"]: entry for entry in httpx.get(f"{system.base_url}/v1/models").json()["data"]}
    lines = {line["billable"]: line["micro_idr"] for line in listed["fx-oai"]["pricing_lines"]}
    (row,) = rows(system, person, 1)
    assert row["cost_micro_idr"] == (1_000 * lines["input"] + 100 * lines["output"]) // 1_000_000


@pytest.mark.rule("ROUTE-002", "ROUTE-003")
@pytest.mark.parametrize("status", [429, 500])
def test_a_named_model_goes_on_to_its_next_provider_too(
    system: System, first: BackgroundProvider, second: BackgroundProvider, status: int
) -> None:
    first.answers(error(status, "no"))
    second.answers(completion("ok"))
    answer = ask(system, system.person(), model="fx-two")
    assert (answer.status_code, answer.json()["model"]) == (200, "fx-two")
    assert len(second.requests) == 1
