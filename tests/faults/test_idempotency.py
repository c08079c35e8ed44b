"""Idempotency keys when edge or ledger die: a key frees itself, and nothing that was charged is run again."""

import threading
from typing import Any

import httpx

from tests.support.background import BackgroundProvider
from tests.support.provider import DONE, HANG, Pause, completion, delta, finish, stream, usage
from tests.support.system import Person, System, eventually

KEY = {"idempotency-key": "k-1"}


def ask(system: System, person: Person, **members: Any) -> httpx.Response:
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50, **members}
    with system.http(person) as client:
        return client.post("/v1/chat/completions", json=body, headers=KEY)


def swallowed(system: System, person: Person, **members: Any) -> None:
    """Ask, whatever becomes of it."""
    try:
        ask(system, person, **members)
    except httpx.HTTPError:
        return


def code(answer: httpx.Response) -> Any:
    return answer.json()["error"]["code"]


def test_the_key_of_an_edge_that_was_killed_frees_itself(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    first.answers(stream(HANG), completion("ok"))
    asking = threading.Thread(target=lambda: swallowed(system, person))
    asking.start()
    first.wait_requests(1)
    system.services["edge"].kill()
    asking.join()
    system.start_service("edge")
    answer = eventually(lambda: (found := ask(system, person)).status_code == 200 and found, within_s=30)
    assert "idempotency-replayed" not in answer.headers
    assert ask(system, person).headers["idempotency-replayed"] == "true"
    system.reconcile()


def test_a_long_request_keeps_its_key_and_its_outcome_outlives_the_edge(
    system: System, first: BackgroundProvider
) -> None:
    person = system.person()
    pauses = [step for number in range(5) for step in (delta(f"{number} "), Pause(1.0))]
    first.answers(stream(*pauses, finish(), usage(10, 5), DONE), completion("another"))
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(ask(system, person, stream=True)))
    asking.start()
    first.wait_requests(1)
    told = set()
    while asking.is_alive():
        repeat = ask(system, person, stream=True)
        told.add(repeat.status_code)
        asking.join(0.4)
    assert 409 in told and told <= {409, 200}
    system.services["edge"].kill()
    system.start_service("edge")
    again = ask(system, person, stream=True)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.content == answers[0].content
    assert len(first.requests) == 1


def test_without_the_ledger_a_keyed_request_is_not_run_and_others_say_what_they_always_say(
    system: System, first: BackgroundProvider
) -> None:
    person = system.person()
    system.services["ledger"].kill()
    try:
        answer = ask(system, person)
        assert (answer.status_code, code(answer)) == (503, "internal_error")
        assert ask(system, person, model="sim-1:free").status_code == 200
        assert not first.requests
    finally:
        system.start_service("ledger")
    assert eventually(lambda: ask(system, person).status_code == 200)
