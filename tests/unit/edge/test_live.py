"""Silence in running answers: comments in streams, spaces before JSON bodies, never inside another piece."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest

from libs.core.settings import TelemetrySettings
from libs.llm.failures import ApiError
from libs.ops.telemetry import Telemetry
from services.edge.exchange import Exchange
from services.edge.live import Live, LiveRequests
from services.edge.settings import Waits


class Client:
    """The server's end of a connection: what it was told to send, and whether the client is there."""

    def __init__(self) -> None:
        self.disconnected = False
        self.transport = self
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        raise AssertionError("nothing is read here")

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


@pytest.fixture
async def requests() -> AsyncIterator[LiveRequests]:
    waits = Waits(keepalive_s=0.3, long_wait_s=0.3, space_every_s=0.2, write_stall_s=60)
    running = LiveRequests(waits, Telemetry("edge", TelemetrySettings()))
    await running.start()
    yield running
    await running.stop()


def live(requests: LiveRequests, client: Client) -> Live:
    scope = {"headers": [], "path": "/v1/chat/completions"}
    return Live(requests, Exchange(scope, client.receive, client.send))


@pytest.mark.rule("STR-009")
async def test_a_silent_stream_is_opened_and_filled_with_comments(requests: LiveRequests) -> None:
    client = Client()
    with live(requests, client) as running:
        running.await_stream((), lambda error: b"")
        await asyncio.sleep(1.0)
        await running.write(b"data: {}\n\n")
    assert client.status == 200
    *comments, last = client.body.split(b"\n\n")[:-1]
    assert comments and set(comments) == {b": keepalive"}
    assert last == b"data: {}"


@pytest.mark.rule("ERR-080", "ERR-081")
async def test_a_long_json_answer_begins_with_spaces(requests: LiveRequests) -> None:
    client = Client()
    with live(requests, client) as running:
        running.await_whole(())
        await asyncio.sleep(1.0)
        await running.finish(503, b'{"error":{}}')
    # The status line is out: the error is told in the body.
    assert client.status == 200
    assert client.body.lstrip(b" ") == b'{"error":{}}'
    assert client.body.startswith(b" ")
    headers = dict(client.sent[0]["headers"])
    assert headers[b"content-type"] == b"application/json"
    assert b"content-length" not in headers


async def test_an_answer_in_time_has_no_spaces_and_its_own_status(requests: LiveRequests) -> None:
    client = Client()
    with live(requests, client) as running:
        running.await_whole(())
        await running.finish(503, b"{}")
        await asyncio.sleep(0.6)
    assert (client.status, client.body) == (503, b"{}")


async def test_the_way_a_stream_is_broken_off_is_known_before_its_first_piece(requests: LiveRequests) -> None:
    with live(requests, Client()) as running:
        assert running.broken is None
        running.await_stream((), lambda error: error.code.encode() if error.code else b"")
        assert running.broken is not None
        assert running.broken(ApiError(status=503, code="gone", message="m")) == b"gone"
