"""Which endpoint a path and a host name lead to."""

from typing import Any

import pytest
from fastapi import FastAPI

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.edge.exchange import Exchange
from services.edge.http import PublicApp


async def asked(host: str, path: str, method: str = "POST") -> str:
    """The path of the hot endpoint that was called, "" if none was."""
    called: list[str] = []

    def endpoint(name: str) -> Any:
        async def answer(exchange: Exchange) -> None:
            called.append(name)

        return answer

    hot = {name: endpoint(name) for name in ("/v1/chat/completions", "/kyara/v1/chat/completions", "/v1/messages")}
    tracing = Telemetry("edge", TelemetrySettings()).tracing
    app = PublicApp(hot, FastAPI(), frozenset({"kyara.example"}), tracing)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        return None

    headers = [(b"host", host.encode("latin-1"))]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return called[0] if called else ""


@pytest.mark.rule("KYARA-001", "KYARA-045")
@pytest.mark.parametrize(
    ("host", "path", "endpoint"),
    [
        ("kenari.example", "/v1/chat/completions", "/v1/chat/completions"),
        ("kenari.example", "/kyara/v1/chat/completions", "/kyara/v1/chat/completions"),
        ("kyara.example", "/v1/chat/completions", "/kyara/v1/chat/completions"),
        ("KYARA.example:8443", "/v1/chat/completions", "/kyara/v1/chat/completions"),
        ("kyara.example", "/kyara/v1/chat/completions", "/kyara/v1/chat/completions"),
        ("kyara.example", "/v1/messages", ""),
        ("kyara.example", "/v1/embeddings", ""),
        ("kenari.example", "/v1/messages", "/v1/messages"),
        ("[::1]:8080", "/v1/messages", "/v1/messages"),
    ],
)
async def test_the_host_or_the_mount_chooses_the_dialect(host: str, path: str, endpoint: str) -> None:
    assert await asked(host, path) == endpoint


@pytest.mark.rule("STR-073")
async def test_reading_a_chat_endpoint_opens_no_stream() -> None:
    assert await asked("kenari.example", "/v1/messages", "GET") == ""
