"""Clients that stop reading or go, in every client format on two wires: their provider stops, nothing stays behind."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.support.anthropic_wire import start, text_block
from tests.support.background import BackgroundProvider
from tests.support.provider import HANG, Endless, Received, Scripted, delta, stream
from tests.support.system import Person, System, eventually

MIB = 1024 * 1024
RUPIAH_100_000 = 100_000_000_000
SAID = "y" * 1_000
ASKS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40_000_000},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40_000_000},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 40_000_000},
    "/kyara/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40_000_000},
}
MODELS = ("fx-vast", "fx-vast-ant")


@contextmanager
def asking(system: System, person: Person, path: str, **members: Any) -> Iterator[socket.socket]:
    """A connection on which a whole request has been sent, and from which nothing is read."""
    host, port = system.base_url.removeprefix("http://").split(":")
    body = json.dumps({**ASKS[path], **members}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {person.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        connection.settimeout(10)
        connection.connect((host, int(port)))
        connection.sendall(head.encode() + body)
        yield connection


def opening(request: Received) -> list[bytes]:
    """The beginning of a stream in the wire that was asked in, a first piece of text at its end."""
    if request.path.endswith("/messages"):
        return [start(10), *text_block(0, SAID)[:2]]
    return [delta("", role="assistant"), delta(SAID)]


def endless(request: Received) -> Scripted:
    return stream(*opening(request), Endless(opening(request)[-1] * 20))


def silent(request: Received) -> Scripted:
    return stream(*opening(request), HANG) if request.json.get("stream") else stream(HANG)


def is_free(system: System, person: Person) -> bool:
    """Nothing of the person's is held or served any more."""
    held = system.balance(person)["reserved_micro_idr"]
    return bool(held == 0 and system.metric("edge", "kenari_edge_requests_live") == 0)


def test_clients_that_stop_reading_stop_their_providers_and_are_left(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(endless)
    eventually(lambda: is_free(system, person))
    sent_before, memory_before = first.sent, system.metric("edge", "process_resident_memory_bytes")

    def stopped() -> bool:
        sent = first.sent
        time.sleep(0.7)
        return first.sent == sent

    with ExitStack() as stack:
        for path in ASKS:
            for model in MODELS:
                stack.enter_context(asking(system, person, path, model=model, stream=True))
        first.wait_requests(8)
        eventually(stopped)
        # They wait: none has been given up, but perhaps those that were stuck first.
        assert first.open_connections
        # What the kernel buffers on both sides of the edge, and little more.
        assert first.sent - sent_before < 8 * 16 * MIB
        assert system.metric("edge", "process_resident_memory_bytes") - memory_before < 8 * 6 * MIB
        first.wait_closed(10)
        eventually(lambda: is_free(system, person))


def test_a_client_that_reads_on_is_served_on(system: System, person: Person, first: BackgroundProvider) -> None:
    first.answers(endless)
    with asking(system, person, "/v1/messages", model="fx-vast", stream=True) as connection:
        first.wait_requests(1)
        time.sleep(1.0)
        read = 0
        while read < 30 * MIB:
            data = connection.recv(MIB)
            assert data, "the stream ended"
            read += len(data)
    first.wait_closed(1)


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "json"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", ASKS)
def test_a_client_that_leaves_ends_the_call_within_a_second(
    system: System, person: Person, first: BackgroundProvider, path: str, model: str, streamed: bool
) -> None:
    first.answers(silent)
    with asking(system, person, path, model=model, stream=streamed) as connection:
        first.wait_requests(1)
        if streamed:
            assert b" 200 " in connection.recv(100)
    first.wait_closed(1)
    eventually(lambda: is_free(system, person), within_s=3, every_s=0.05)


@pytest.mark.parametrize("path", ASKS)
def test_a_client_that_leaves_in_the_middle_of_a_fast_stream_ends_it_within_a_second(
    system: System, person: Person, first: BackgroundProvider, path: str
) -> None:
    first.answers(endless)
    with asking(system, person, path, model="fx-vast", stream=True) as connection:
        assert connection.recv(100_000)
    first.wait_requests(1)
    first.wait_closed(1)
    eventually(lambda: is_free(system, person), within_s=3, every_s=0.05)
