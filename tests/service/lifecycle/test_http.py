"""HTTP servers inside a service: the ops port's answers, taken and shared ports.
Run by pytest; no servers needed.
"""

import asyncio
import socket
from collections import Counter
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from libs.core.errors import ConfigError
from libs.service.http import HttpServer
from libs.service.service import Service
from tests.service.lifecycle.conftest import Part, plain_service


class DocumentedPart(Part):
    def asyncapi(self) -> dict[str, Any]:
        return {"asyncapi": "3.0.0"}


async def ops_client(service: Service) -> httpx.AsyncClient:
    ops = service._started[0]
    assert isinstance(ops, HttpServer)
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{ops.port}")


def app_saying(text: bytes) -> Any:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": text})

    return app


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("offer", ["h2c", "websocket", "TLS/1.0"])
async def test_an_offer_to_go_on_in_another_protocol_is_declined_and_the_request_answered(offer: str) -> None:
    server = HttpServer(echo, "127.0.0.1", 0)
    await server.start()
    headers = {"connection": "Upgrade, HTTP2-Settings", "upgrade": offer, "http2-settings": "AAMAAABkAAQAAP__"}
    body = b"upgrade: me\r\nupgrade: not"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        for _ in range(2):
            answer = await client.post("/", headers=headers, content=body)
            assert (answer.status_code, answer.content) == (200, body)
    await server.stop()


async def test_the_ops_port_tells_how_the_service_is(log: list[str]) -> None:
    service = plain_service()
    part = service.add(DocumentedPart("a", log))
    await service.start()
    async with await ops_client(service) as client:
        assert ((await client.get("/live")).status_code, (await client.get("/live")).text) == (200, "ok")
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()) == (200, {"ready": True, "problems": []})
        part.trouble = "no database"
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()) == (503, {"ready": False, "problems": ["no database"]})
        assert (await client.get("/live")).status_code == 200
        assert (await client.get("/version")).json()["service"] == "plain"
        assert (await client.get("/asyncapi")).json() == {"asyncapi": "3.0.0"}
        for path in ("/", "/metrics/", "/ready/x", "/%2e%2e/live"):
            assert (await client.get(path)).status_code == 404
    await service.stop()


async def test_metrics_are_valid_in_the_text_format(log: list[str]) -> None:
    service = plain_service("ledger")
    await service.start()
    async with await ops_client(service) as client:
        scraped = await client.get("/metrics")
    await service.stop()
    assert scraped.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(scraped.text)}
    assert "kenari_service_build" in names
    assert "process_cpu_seconds" in names


async def test_the_ops_port_answers_before_the_parts_are_started() -> None:
    service = plain_service()
    reached, started = asyncio.Event(), asyncio.Event()

    class Slow(Part):
        async def start(self) -> None:
            reached.set()
            await started.wait()

    service.add(Slow("slow", []))
    starting = asyncio.create_task(service.start())
    await reached.wait()
    async with await ops_client(service) as client:
        assert (await client.get("/live")).status_code == 200
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["problems"]) == (503, ["starting"])
        started.set()
        await starting
        assert (await client.get("/ready")).status_code == 200
    await service.stop()


async def test_two_services_of_one_process_report_apart() -> None:
    first, second = plain_service("first"), plain_service("second")
    await first.start()
    await second.start()
    for service in (first, second):
        async with await ops_client(service) as client:
            text = (await client.get("/metrics")).text
            assert [f'service="{name}"' in text for name in ("first", "second")] == [
                service is first,
                service is second,
            ]
    await second.stop()
    await first.stop()


async def test_a_taken_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as failed:
            await HttpServer(app_saying(b"x"), "127.0.0.1", port).start()
        assert str(failed.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use"


async def test_an_unknown_host_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no-such-host\.invalid:0: ") as failed:
        await HttpServer(app_saying(b"x"), "no-such-host.invalid", 0).start()
    assert "\n" not in str(failed.value)


async def test_a_taken_port_stops_the_start_of_the_service(log: list[str]) -> None:
    first = HttpServer(app_saying(b"x"), "127.0.0.1", 0)
    await first.start()
    service = plain_service(port=first.port)
    service.add(Part("a", log))
    with pytest.raises(ConfigError, match="cannot listen"):
        await service.start()
    assert log == []
    await first.stop()


async def test_servers_may_share_a_port_when_both_say_so() -> None:
    first = HttpServer(app_saying(b"first"), "127.0.0.1", 0, share_port=True)
    await first.start()
    second = HttpServer(app_saying(b"second"), "127.0.0.1", first.port, share_port=True)
    await second.start()
    with pytest.raises(ConfigError, match="cannot listen"):
        await HttpServer(app_saying(b"third"), "127.0.0.1", first.port).start()
    answers: Counter[str] = Counter()
    # Each answer closes its connection, so each request is a connection of its own.
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{first.port}") as client:
        for _ in range(60):
            answers[(await client.get("/")).text] += 1
        assert set(answers) == {"first", "second"}
        await first.stop()
        assert (await client.get("/")).text == "second"
    await second.stop()


async def test_stopping_lets_the_answer_under_way_finish() -> None:
    entered, finish = asyncio.Event(), asyncio.Event()

    async def slow(scope: dict[str, Any], receive: Any, send: Any) -> None:
        entered.set()
        await finish.wait()
        await app_saying(b"finished")(scope, receive, send)

    server = HttpServer(slow, "127.0.0.1", 0)
    await server.start()
    async with httpx.AsyncClient() as client:
        answer = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/"))
        await entered.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.2)
        finish.set()
        assert (await answer).text == "finished"
        await asyncio.wait_for(stopping, 5)
    assert server.problem() == "the HTTP server has ended"
