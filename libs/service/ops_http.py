"""The ops port of a service: /live, /ready, /metrics, /asyncapi and /version.

Called by libs.service.service. Plain ASGI on uvicorn, apart from the service's own ports, so that it answers
while those are busy.
"""

import json
from collections.abc import Callable
from typing import Any

from libs.core.settings import OpsSettings
from libs.ops.telemetry import Telemetry, version
from libs.service.http import HttpServer

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Any]


class OpsApp:
    """The ASGI application behind the ops port."""

    def __init__(self, telemetry: Telemetry, problems: Callable[[], list[str]], asyncapi: dict[str, Any]) -> None:
        self._telemetry = telemetry
        self._problems = problems
        self._asyncapi = asyncapi

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, kind, body = self._answer(scope["path"])
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, bytes, bytes]:
        match path:
            case "/live":
                return 200, b"text/plain", b"ok"
            case "/ready":
                problems = self._problems()
                body = json.dumps({"ready": not problems, "problems": problems}).encode()
                return (503 if problems else 200), b"application/json", body
            case "/metrics":
                return 200, b"text/plain; version=0.0.4; charset=utf-8", self._telemetry.scrape()
            case "/asyncapi":
                return 200, b"application/json", json.dumps(self._asyncapi).encode()
            case "/version":
                body = json.dumps({"service": self._telemetry.service, "version": version()}).encode()
                return 200, b"application/json", body
            case _:
                return 404, b"text/plain", b"not found"


def ops_server(settings: OpsSettings, app: OpsApp) -> HttpServer:
    """The component that serves ``app`` on the ops port."""
    return HttpServer(app, settings.host, settings.port)
