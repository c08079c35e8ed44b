"""Paid requests with an idempotency key: run and charged once, repeated as they were, refused when they differ."""

import threading
import time
from dataclasses import replace
from itertools import count
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.background import BackgroundProvider
from tests.support.provider import CUT, DONE, Pause, Received, Scripted, completion, delta, error, finish, stream, usage
from tests.support.system import Person, System, eventually

PATHS = {
    "chat": ("/v1/chat/completions", "messages"),
    "messages": ("/v1/messages", "messages"),
    "responses": ("/v1/responses", "input"),
}
_words = count(1)


@pytest.fixture
def payer(system: System) -> Person:
    """Somebody whose usage log nobody else touches."""
    return system.person()


def said(request: Received) -> Scripted:
    """An answer unlike all others, whole or streamed as it was asked."""
    word = f"answer {next(_words)}"
    if request.json.get("stream"):
        return stream(delta(word, role="assistant"), Pause(0.05), delta("!"), finish(), usage(10, 2), DONE)
    return completion(word, usage=(10, 2))


def late(seconds: float) -> Scripted:
    """A whole answer that comes after that time."""
    answer = completion("late", usage=(10, 2))
    return replace(answer, steps=(Pause(seconds), *answer.steps))


def ask(
    system: System, person: Person, key: str | None = "k-1", format: str = "chat", content: str = "Hi", **members: Any
) -> httpx.Response:
    path, turns = PATHS[format]
    body = {"model": "fx-oai", turns: [{"role": "user", "content": content}], "max_tokens": 50, **members}
    if format == "responses":
        body.pop("max_tokens")
    headers = {} if key is None else {"idempotency-key": key}
    with system.http(person) as client:
        return client.post(path, json=body, headers=headers)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"].get("code", answer.json()["error"]["type"])


def replayed(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("idempotency-replayed") == "true")


@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", PATHS)
def test_a_repeat_gets_the_answer_there_was_and_costs_nothing(
    system: System, payer: Person, first: BackgroundProvider, format: str, streamed: bool
) -> None:
    first.answers(said)
    answer = ask(system, payer, format=format, stream=streamed)
    assert answer.status_code == 200 and not replayed(answer)
    assert answer.headers["x-kenari-request-id"] == answer.headers["x-request-id"]
    for _ in range(2):
        again = ask(system, payer, format=format, stream=streamed)
        assert again.status_code == 200 and replayed(again)
        assert again.content == answer.content
        for name in ("content-type", "cache-control"):
            assert again.headers.get(name) == answer.headers.get(name)
        assert again.headers["x-kenari-request-id"] == answer.headers["x-request-id"]
        assert again.headers["x-request-id"] == again.headers["request-id"] != answer.headers["x-request-id"]
    assert len(first.requests) == 1
    rows = eventually(lambda: system.usage(payer))
    assert [row["id"] for row in rows] == [answer.headers["x-request-id"]]


@pytest.mark.parametrize("format", PATHS)
def test_a_key_that_stands_for_something_else_is_refused_in_the_callers_format(
    system: System, payer: Person, first: BackgroundProvider, format: str
) -> None:
    first.answers(said)
    answer = ask(system, payer, format=format)
    other = ask(system, payer, format=format, content="Hello")
    code = "invalid_request_error" if format == "messages" else "idempotency_key_reused"
    assert refusal(other) == (422, code)
    assert answer.headers["x-request-id"] in other.text
    # The same body means something else at another endpoint.
    with system.http(payer) as client:
        body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
        headers = {"idempotency-key": "both"}
        assert client.post("/v1/chat/completions", json=body, headers=headers).status_code == 200
        assert client.post("/v1/messages", json=body, headers=headers).status_code == 422
    assert len(first.requests) == 2


@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
def test_a_repeat_while_the_first_runs_is_told_to_wait(
    system: System, payer: Person, first: BackgroundProvider, streamed: bool
) -> None:
    slow = stream(Pause(1.5), delta("done", role="assistant"), finish(), usage(10, 2), DONE)
    first.answers(slow if streamed else late(1.5))
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(ask(system, payer, stream=streamed)))
    asking.start()
    first.wait_requests(1)
    waiting = ask(system, payer, stream=streamed)
    assert refusal(waiting) == (409, "idempotency_in_progress")
    assert waiting.headers["retry-after"] == "1"
    asking.join()
    assert answers[0].status_code == 200
    again = ask(system, payer, stream=streamed)
    assert replayed(again) and again.content == answers[0].content
    assert len(first.requests) == 1


def test_many_at_once_are_run_once(system: System, payer: Person, first: BackgroundProvider) -> None:
    first.answers(said)
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(system, payer))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(first.requests) == 1
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1


def test_what_cost_nothing_is_run_again(system: System, payer: Person, first: BackgroundProvider) -> None:
    first.answers(error(500), error(500), error(500), error(500))
    assert ask(system, payer).status_code == 503
    first.answers(stream(delta("half", role="assistant"), CUT))
    broken = ask(system, payer, stream=True)
    assert "error" in broken.text
    first.answers(said)
    # Under the same key, and nothing says that it has to be the same request.
    answer = ask(system, payer)
    assert answer.status_code == 200 and not replayed(answer)
    poor = system.person(rupiahs=0)
    assert ask(system, poor).status_code == 402
    system.credit(poor.account_id, 1_000)
    assert ask(system, poor).status_code == 200


def test_a_refused_body_uses_up_no_key(system: System, payer: Person, first: BackgroundProvider) -> None:
    first.answers(said)
    assert ask(system, payer, temperature="warm").status_code == 400
    assert ask(system, payer, model="no-such-model").status_code == 400
    assert ask(system, payer).status_code == 200


def test_a_client_that_leaves_mid_stream_is_told_that_it_was_charged(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(stream(delta("some words that count", role="assistant"), Pause(3.0), finish(), usage(10, 5), DONE))
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50, "stream": True}
    headers = {"idempotency-key": "k-1"}
    with (
        system.http(payer) as client,
        client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        assert any("some words" in line for line in answer.iter_lines())
        request_id = answer.headers["x-request-id"]
    eventually(lambda: system.usage(payer))
    again = ask(system, payer, stream=True)
    assert refusal(again) == (409, "idempotency_outcome_not_kept")
    assert request_id in again.text and again.headers["x-should-retry"] == "false"


def test_a_client_that_leaves_before_the_answer_may_ask_again(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(late(5.0), said)
    path, _ = PATHS["chat"]
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}
    with system.http(payer, timeout=0.5) as client, pytest.raises(httpx.TimeoutException):
        client.post(path, json=body, headers={"idempotency-key": "k-1"})
    answer = eventually(lambda: (found := ask(system, payer)).status_code == 200 and found, within_s=5)
    assert not replayed(answer)
    assert len(system.usage(payer)) <= 1


def test_a_long_answer_is_not_kept_but_never_run_twice(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(completion("x" * (1024 * 1024 + 1), usage=(10, 50)))
    answer = ask(system, payer)
    assert answer.status_code == 200 and len(answer.content) > 1024 * 1024
    again = ask(system, payer)
    assert refusal(again) == (409, "idempotency_outcome_not_kept")
    assert answer.headers["x-request-id"] in again.text
    assert len(first.requests) == 1


def test_keys_are_an_accounts_and_those_of_a_shared_key_its_own(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(said)
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(account_id=payer.account_id)
        other = accounts.CreateKey(request, timeout=10)
        shared = accounts.CreateKey(
            accounts_pb2.CreateKeyRequest(
                account_id=payer.account_id, kind=accounts_pb2.KEY_KIND_SHARED, models=["fx-oai"], expires_in_days=1
            ),
            timeout=10,
        )
    answer = ask(system, payer)
    assert replayed(ask(system, Person(payer.account_id, other.key.key_id, other.secret)))
    holder = Person(payer.account_id, shared.key.key_id, shared.secret)
    assert ask(system, holder, content="Mine").status_code == 200
    assert not replayed(ask(system, system.person()))
    assert answer.content == ask(system, payer).content


def test_free_requests_and_those_without_a_key_are_run_each_time(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(said)
    for key, model in ((None, "fx-oai"), ("k-free", "fx-free:free")):
        answers = [ask(system, payer, key, model=model) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].content != answers[1].content
    assert len(first.requests) == 4


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "tab\there"])
@pytest.mark.parametrize("format", PATHS)
def test_what_is_no_key_is_a_400(system: System, person: Person, format: str, key: str) -> None:
    path, turns = PATHS[format]
    body = {"model": "fx-oai", turns: [{"role": "user", "content": "Hi"}], "max_tokens": 50}
    with system.http(person) as client:
        answer = client.post(path, json=body, headers=[(b"idempotency-key", key.encode("latin-1"))])
    assert refusal(answer) == (400, "invalid_request_error" if format == "messages" else "bad_request")


def test_a_replay_takes_no_time_of_a_provider(system: System, payer: Person, first: BackgroundProvider) -> None:
    first.answers(late(1.0))
    ask(system, payer)
    began = time.monotonic()
    assert replayed(ask(system, payer))
    assert time.monotonic() - began < 1.0


def test_repeats_count_as_requests_and_a_flood_of_them_is_refused(
    system: System, payer: Person, first: BackgroundProvider
) -> None:
    first.answers(said)
    with system.accounts() as accounts:
        limits = accounts_pb2.SetAccountLimitsRequest(account_id=payer.account_id, requests_per_minute=6)
        accounts.SetAccountLimits(limits, timeout=10)
    # The limiter hears of it by its table.
    time.sleep(2)
    answers = [ask(system, payer) for _ in range(10)]
    assert [replayed(answer) for answer in answers[:6]] == [False] + [True] * 5
    assert {refusal(answer) for answer in answers[6:]} == {(429, "rate_limit_exceeded")}
    assert len(first.requests) == 1
