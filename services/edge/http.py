"""The public HTTP application: hot paths on plain ASGI, everything else on FastAPI.

Made by app.py. FastAPI's routing costs a multiple of a whole plain ASGI request, so the chat endpoints bypass
it; the OpenAPI description covers both.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

from fastapi import FastAPI

from libs.ops.tracing import Tracing
from services.edge.exchange import TEXT, Exchange, Header, Receive, Scope, Send

# Of a path nobody described: it is told 404 when it is read and 405 otherwise.
_READING = {"GET", "HEAD"}

KYARA = "/kyara"
"""Where the strict second dialect is mounted; under its own host names the prefix is left out."""

_API = ("/v1", KYARA + "/v1")

Hot = Callable[[Exchange], Awaitable[None]]


class PublicApp:
    """Dispatches by path and method; answers preflights, wrong methods and unknown paths."""

    def __init__(self, hot: Mapping[str, Hot], rest: FastAPI, kyara_hosts: Collection[str], tracing: Tracing) -> None:
        self._hot = hot
        self._kyara_hosts = kyara_hosts
        self._rest = rest
        self._tracing = tracing
        described = rest.openapi()["paths"]
        self._rest_methods = {path: {method.upper() for method in methods} for path, methods in described.items()}
        # By what comes before the id that ends them.
        self._of_one = {
            path.partition("{")[0]: methods for path, methods in self._rest_methods.items() if path.endswith("}")
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method: str = scope["method"]
        path: str = scope["path"]
        if self._kyara_hosts and _host(scope) in self._kyara_hosts and not path.startswith(KYARA):
            path = scope["path"] = KYARA + path
        endpoint = self._hot.get(path)
        if endpoint is not None and method == "POST":
            await endpoint(Exchange(scope, receive, send))
        elif method == "OPTIONS" and path.startswith(_API):
            await self._preflight(Exchange(scope, receive, send))
        elif endpoint is not None or method not in self._methods(path):
            # A POST to an unknown path is told 405 too: the usual cause is a doubled or missing /v1.
            known = {"POST"} if endpoint is not None else self._methods(path)
            allow = () if known is _READING else _allow(known)
            await Exchange(scope, receive, send).respond(405, b"method not allowed", TEXT, allow)
        else:
            await self._read(Exchange(scope, receive, send), send)

    def _methods(self, path: str) -> Collection[str]:
        """The methods of a path that FastAPI serves; those of reading when it is unknown."""
        known = self._rest_methods.get(path)
        if known is None:
            folder, slash, one = path.rpartition("/")
            known = self._of_one.get(folder + slash) if one else None
        return _READING if known is None else known

    async def _read(self, exchange: Exchange, send: Send) -> None:
        scope = exchange.scope
        scope["state"] = {"exchange": exchange}
        sending = _with_ids(exchange, send)
        if not scope["path"].startswith(_API):
            await self._rest(scope, exchange.receive, sending)
            return
        with self._tracing.serve(scope["method"], exchange.header(b"traceparent")) as span:
            await self._rest(scope, exchange.receive, sending)
            exchange.describe(span)
            if span is not None and (route := scope.get("route")) is not None:
                # Not the path itself: it can be anything, and names are for counting.
                span.update_name(f"{scope['method']} {route.path}")

    async def _preflight(self, exchange: Exchange) -> None:
        asked = exchange.header(b"access-control-request-headers")
        extra = [(b"access-control-allow-methods", b"GET, POST, OPTIONS"), (b"access-control-max-age", b"86400")]
        if asked is not None:
            extra.append((b"access-control-allow-headers", asked.encode("latin-1")))
        await exchange.respond(204, b"", TEXT, tuple(extra))


def _allow(methods: Collection[str]) -> tuple[Header, ...]:
    """The header that goes with 405 where something is there at all."""
    return ((b"allow", ", ".join(sorted({*methods, "OPTIONS"})).encode()),)


def _host(scope: Scope) -> str:
    """The host name that was asked, without its port."""
    named = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    host: str = named.rpartition(":")[0] if named.rpartition(":")[2].isdigit() else named
    return host.lower()


def _with_ids(exchange: Exchange, send: Send) -> Send:
    """Adds the request id and CORS headers to what FastAPI answers."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *exchange.id_headers]
        await send(message)

    return sending
