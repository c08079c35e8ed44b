"""Every 429 of the limiter as a client gets it: status, headers and body in all three formats."""

import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.e2e.limits.asking import CHAT, COUNT, FORMATS, ask, at_once, check_refused, pace, shared_key
from tests.support.system import Person, System, eventually

formats = pytest.mark.parametrize("format", FORMATS)


def until_refused(make: Callable[[], httpx.Response], most: int = 10) -> httpx.Response:
    """The first refusal; what makes it so may be told when the answer before it is out already."""
    for _ in range(most):
        answer = make()
        if answer.status_code != 200:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"still allowed after {most}")


@formats
@pytest.mark.rule("LIMIT-002", "LIMIT-008", "LIMIT-009", "LIMIT-010")
def test_an_account_over_its_pace(system: System, format: str) -> None:
    person = system.person()
    pace(system, person, 1)
    refused = until_refused(lambda: ask(system, person, FORMATS[format]))
    check_refused(refused, format, "rate_limit_exceeded")
    assert "retry-after" not in refused.headers and "x-should-retry" not in refused.headers


@formats
@pytest.mark.rule("LIMIT-003", "LIMIT-008", "LIMIT-009", "LIMIT-022")
def test_free_models_over_the_minute(system: System, format: str) -> None:
    person = system.person(rupiahs=0)
    first = ask(system, person, FORMATS[format], "fx-minute:free")
    assert first.status_code == 200
    told = {name: first.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "reset")}
    assert (told["limit"], told["remaining"]) == ("1", "0")
    refused = ask(system, person, FORMATS[format], "fx-minute:free")
    check_refused(refused, format, "free_quota_rpm")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert abs(time.time() + int(refused.headers["retry-after"]) - int(told["reset"])) <= 2
    assert "x-should-retry" not in refused.headers


@formats
@pytest.mark.rule("LIMIT-001", "LIMIT-004", "LIMIT-008", "LIMIT-009", "LIMIT-025")
def test_free_models_over_the_day(system: System, format: str) -> None:
    person = system.person(rupiahs=0)
    refused = until_refused(lambda: ask(system, person, FORMATS[format], "fx-day:free"))
    check_refused(refused, format, "free_quota_daily")
    left = 86_400 - time.time() % 86_400
    assert abs(int(refused.headers["retry-after"]) - math.ceil(left)) <= 2
    assert refused.headers["x-should-retry"] == "false"


@formats
@pytest.mark.rule("LIMIT-002", "LIMIT-008", "LIMIT-009", "LIMIT-028")
def test_a_flood_of_free_requests(system: System, format: str) -> None:
    person = system.person(rupiahs=0)
    answers = at_once([(system, person, FORMATS[format], "fx-free:free")] * 24, workers=24)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert refused and len(refused) < 24
    for answer in refused:
        check_refused(answer, format, "rate_limit_exceeded")
        assert "retry-after" not in answer.headers


@formats
@pytest.mark.rule("LIMIT-002", "LIMIT-008", "LIMIT-009", "LIMIT-029")
def test_a_free_model_without_tokens_left(system: System, format: str) -> None:
    model = f"fx-tokens-{format}:free"
    one, other = system.person(rupiahs=0), system.person(rupiahs=0)
    assert ask(system, one, FORMATS[format], model).status_code == 200
    refused = until_refused(lambda: ask(system, other, FORMATS[format], model))
    check_refused(refused, format, "rate_limit_exceeded")
    assert "retry-after" not in refused.headers
    assert ask(system, other, FORMATS[format], "fx-free:free").status_code == 200


@formats
@pytest.mark.parametrize("limit", [{"requests_per_minute": 2}, {"tokens_per_minute": 12}], ids=["requests", "tokens"])
def test_a_key_over_its_own_pace(system: System, format: str, limit: dict[str, int]) -> None:
    person = system.person(**limit)
    other = _another(system, person)
    refused = until_refused(lambda: ask(system, person, FORMATS[format]))
    check_refused(refused, format, "rate_limit_exceeded")
    assert "key" in refused.json()["error"].get("message", refused.text)
    assert "retry-after" not in refused.headers
    assert ask(system, other, FORMATS[format]).status_code == 200


def test_a_keys_pace_is_changed_and_lifted(system: System) -> None:
    person = system.person(requests_per_minute=1)
    until_refused(lambda: ask(system, person))
    with system.accounts() as accounts:
        accounts.SetKeyLimits(accounts_pb2.SetKeyLimitsRequest(key_id=person.key_id, requests_per_minute=0), timeout=10)
    eventually(lambda: ask(system, person).status_code == 200)


@formats
@pytest.mark.rule("LIMIT-041", "LIMIT-009")
def test_a_shared_key_over_its_pace_as_a_whole(system: System, format: str) -> None:
    owner = system.person()
    pace(system, owner, 40)
    share = shared_key(system, owner)
    time.sleep(1)
    asks = [(system, share, FORMATS[format], "fx-oai", f"198.51.100.{n}") for n in range(31)]
    answers = at_once(asks, workers=4)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == 1
    check_refused(refused[0], format, "rate_limit_exceeded")
    assert "retry-after" not in refused[0].headers
    # The owner's own pace is untouched.
    assert {answer.status_code for answer in at_once([(system, owner)] * 40, workers=4)} == {200}
    assert ask(system, owner).status_code == 429


@pytest.mark.rule("LIMIT-042", "LIMIT-044")
def test_an_address_over_its_pace_on_a_shared_key(system: System) -> None:
    owner = system.person()
    share, other = shared_key(system, owner), shared_key(system, owner)
    here, there = "198.51.100.1", "198.51.100.2"
    paths = [*FORMATS.values(), COUNT, "/v1/usage", "/v1/account/balance"]
    asks: list[tuple[Any, ...]] = [(system, share, path, "fx-oai", here) for path in paths * 5]
    statuses = [answer.status_code for answer in at_once(asks, workers=4)]
    assert sorted(set(statuses)) == [200, 403], "a shared key reads nothing of the account, and is counted there too"
    for path in paths:
        refused = ask(system, share, path, address=here)
        assert (refused.status_code, refused.text) == (429, "too many requests, try again shortly")
        assert refused.headers["content-type"].startswith("text/plain")
        assert refused.headers["request-id"]
        assert "retry-after" not in refused.headers
    assert ask(system, share, address=there).status_code == 200
    assert ask(system, other, address=here).status_code == 200
    assert ask(system, owner, address=here).status_code == 200


def test_the_strict_dialect_says_it_in_json(system: System) -> None:
    share = shared_key(system, system.person())
    address = "2001:db8:7::1"
    at_once([(system, share, COUNT, "fx-oai", f"2001:db8:7::{n:x}") for n in range(30)], workers=4)
    refused = ask(system, share, "/kyara/v1/chat/completions", address=address)
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/json"
    assert refused.json()["error"]["message"] == "too many requests, try again shortly"
    assert ask(system, share, address="2001:db8:7:1::1").status_code == 200, "the next network of that size"


@pytest.mark.rule("LIMIT-014", "LIMIT-015")
def test_what_does_not_count_against_the_accounts_pace(system: System) -> None:
    person = system.person()
    pace(system, person, 1)
    until_refused(lambda: ask(system, person))
    for path in (COUNT, "/v1/models", "/v1/account/balance", "/v1/usage"):
        assert ask(system, person, path).status_code == 200
    assert ask(system, person, CHAT, "fx-free:free").status_code == 200


@pytest.mark.rule("LIMIT-032")
def test_paid_answers_show_no_limit(system: System) -> None:
    answer = ask(system, system.person())
    assert answer.status_code == 200
    assert not {name for name in answer.headers if name.startswith("x-ratelimit")}


@pytest.mark.rule("LIMIT-047")
def test_a_used_up_day_stays_so(system: System) -> None:
    person = system.person(rupiahs=0)
    until_refused(lambda: ask(system, person, CHAT, "fx-day:free"))
    told = [ask(system, person, CHAT, "fx-day:free").json() for _ in range(3)]
    assert told[0] == told[1] == told[2]


def test_a_place_of_the_day_that_is_in_flight_is_waited_for(system: System) -> None:
    person = system.person(rupiahs=0)
    answers = at_once([(system, person, CHAT, "fx-day:free")] * 2, workers=2)
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == 1
    # Once the other one has succeeded, the day is over; it is not told to come back in some seconds.
    check_refused(refused[0], "chat", "free_quota_daily")


def test_a_flood_is_refused_at_the_edge(system: System) -> None:
    person = system.person()
    pace(system, person, 3)
    until_refused(lambda: ask(system, person))
    asked = system.metric("limiter", "kenari_limiter_admissions_total", subject="paid_chat")
    answers = at_once([(system, person)] * 60, workers=4)
    assert {answer.status_code for answer in answers} == {429}
    assert system.metric("limiter", "kenari_limiter_admissions_total", subject="paid_chat") - asked <= 4
    assert system.metric("edge", "kenari_edge_limiter_remembered_total") >= 50


@pytest.mark.rule("LIMIT-019")
def test_listing_and_revoking_keys_is_not_limited(system: System) -> None:
    login = system.person(kind=accounts_pb2.KEY_KIND_LOGIN)
    with system.http(login) as client:
        assert {client.get("/v1/account/keys").status_code for _ in range(65)} == {200}
        assert {client.delete("/v1/account/keys/key_none").status_code for _ in range(65)} == {404}


def _another(system: System, person: Person) -> Person:
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(account_id=person.account_id, label="other")
        made = accounts.CreateKey(request, timeout=10)
    return Person(person.account_id, made.key.key_id, made.secret)
