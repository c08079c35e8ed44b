"""Clients and providers that misbehave on the wire: memory and money stay bounded."""

import concurrent.futures
import socket
import time
from typing import Any

import httpx
import pytest

from tests.support.background import BackgroundProvider
from tests.support.provider import HANG, completion, delta, error, finish, stream, usage
from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"
MIB = 1024 * 1024


def ask(system: System, person: Person, **fields: Any) -> httpx.Response:
    body = {"model": "fx-two", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1000, **fields}
    with system.http(person) as client:
        return client.post(CHAT, json=body)


def half_a_request(system: System, person: Person, length: int, sent: bytes) -> socket.socket:
    host, port = system.base_url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {person.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    connection.sendall(head.encode() + sent)
    return connection


def whole(connection: socket.socket) -> str:
    """All that comes until the other side hangs up."""
    return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


@pytest.mark.rule("ERR-033")
def test_a_body_that_stalls_is_408(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    with half_a_request(system, person, 100, b'{"model":') as connection:
        answer = whole(connection)
    assert answer.startswith("HTTP/1.1 408")
    assert answer.endswith("request body timed out")
    assert not first.requests


@pytest.mark.rule("ERR-037")
def test_too_many_large_bodies_at_once_are_503(system: System) -> None:
    person = system.person()
    with half_a_request(system, person, 30 * MIB, b" " * 1000):
        time.sleep(0.2)
        with half_a_request(system, person, 30 * MIB, b" " * 1000) as second:
            answer = whole(second)
    assert answer.startswith("HTTP/1.1 503")
    assert answer.endswith("server busy, try again shortly")
    eventually(lambda: system.metric("edge", "kenari_edge_body_large_bytes") == 0)


def test_large_bodies_leave_memory_bounded(system: System) -> None:
    person = system.person()
    before = system.metric("edge", "process_resident_memory_bytes")
    big = b'{"model":"fx-oai","messages":[{"role":"user","content":"' + b"x" * (8 * MIB) + b'"}]}'

    def send() -> int:
        with system.http(person) as client:
            return client.post(CHAT, content=big).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = [work.result() for work in [pool.submit(send) for _ in range(16)]]
    assert set(statuses) <= {400, 503}
    assert system.metric("edge", "process_resident_memory_bytes") - before < 200 * MIB


def test_a_client_that_does_not_read_bounds_memory_and_is_left(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    piece = delta("y" * 60_000)
    first.answers(stream(delta("", role="assistant"), *[piece] * 600, finish("stop"), usage(1, 1)))
    before = system.metric("edge", "process_resident_memory_bytes")
    body = b'{"model":"fx-vast","stream":true,"messages":[{"role":"user","content":"x"}]}'
    with half_a_request(system, person, len(body), body):
        first.wait_requests(1)
        time.sleep(1.0)
        assert system.metric("edge", "process_resident_memory_bytes") - before < 30 * MIB
        first.wait_closed(5.0)
        eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)


@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
def test_a_usage_that_cannot_be_true_is_not_charged(system: System, first: BackgroundProvider, streamed: bool) -> None:
    person = system.person()
    for count in (2_000_000_000, 5_000_000_000, -7):
        first.answers(
            stream(delta("four", role="assistant"), finish("stop"), usage(10, count), b"data: [DONE]\n\n")
            if streamed
            else completion("four", usage=(10, count))
        )
        assert ask(system, person, model="fx-oai", stream=streamed, max_tokens=16).status_code == 200
    eventually(lambda: len(system.usage(person)) == 3)
    assert [row["completion_tokens"] for row in system.usage(person)] == [1, 1, 1]
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] > 99_999 * 1_000_000


def test_a_stream_far_past_its_limit_is_cut_and_costs_nothing(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    first.answers(stream(delta("", role="assistant"), *[delta("y" * 4_000)] * 100, HANG))
    answer = ask(system, person, model="fx-oai", stream=True, max_tokens=16)
    assert "stream_interrupted" in answer.text
    assert len(answer.text) < 250_000
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] == 100_000 * 1_000_000


def test_a_dead_provider_is_left_and_a_healed_one_used_again(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    first.answers(error(500))
    second.answers(completion("from the second"))
    for _ in range(10):
        assert ask(system, person).status_code == 200

    def left() -> bool:
        first.requests.clear()
        assert [ask(system, person).status_code for _ in range(5)] == [200] * 5
        return len(first.requests) <= 1

    # The router hears of attempts within half a second or so, which a busy machine stretches.
    eventually(left)
    first.answers(completion("from the first"))

    def healed() -> bool:
        return bool(ask(system, person).json()["choices"][0]["message"]["content"] == "from the first")

    eventually(healed, within_s=10, every_s=0.3)


@pytest.mark.rule("ROUTE-002", "ROUTE-004")
def test_a_provider_that_refuses_or_hangs_is_passed_over(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    second.answers(completion("from the second"))
    first.refuse()
    try:
        assert ask(system, person).status_code == 200
    finally:
        first.listen_again()
    first.answers(stream(HANG))
    assert ask(system, person).status_code == 200
