"""The router's gRPC face: Route on the coalesced stream or alone, GetPrice.

Called by libs.rpc's server; the edge asks Route, the ledger GetPrice.
"""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kenari.router.v1 import router_pb2, router_pb2_grpc

from libs.core.errors import Transient
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import Ask, CheckServer
from services.router.answers import price_message
from services.router.routes.service import Routes
from services.router.service import Routing
from services.router.store import Store

SERVICE = "kenari.router.v1.Router"


class RouterServicer(router_pb2_grpc.RouterServicer):
    """Maps messages to the service and back; refusals are answers."""

    def __init__(self, routing: Routing, routes: Routes, store: Store, telemetry: Telemetry) -> None:
        self._routing = routing
        self._routes = routes
        self._store = store
        self._tracing = telemetry.tracing
        self._checks = CheckServer(router_pb2.CheckReplies, router_pb2.CheckReply, self._handle, telemetry)

    async def CheckStream(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await self._checks.serve(request_iterator, context)

    async def Route(self, request: router_pb2.RouteRequest, context: Any) -> router_pb2.RouteResponse:
        if self._routes.may_be(request):
            return await self._routes.answer(request)
        return self._routing.route(request)

    async def GetPrice(self, request: router_pb2.GetPriceRequest, context: Any) -> router_pb2.GetPriceResponse:
        """A price version from memory or, when it is an older one, from the database; empty when there is none."""
        price = self._routing.price(request.version) or await self._store.price(request.version)
        return router_pb2.GetPriceResponse(price=price_message(price) if price else None)

    async def Explain(self, request: router_pb2.ExplainRequest, context: Any) -> router_pb2.ExplainResponse:
        return await self._routes.explained(request.question)

    async def _handle(self, asks: list[Ask]) -> None:
        named = []
        for ask in asks:
            if self._routes.may_be(ask.question):
                named.append(ask)
                continue
            # Nothing is awaited: the answers to one message leave in one message.
            with self._traced(ask):
                if not ask.expired():
                    ask.answer(self._routing.route(ask.question))
        if named:
            await asyncio.gather(*(self._answer_named(ask) for ask in named))

    async def _answer_named(self, ask: Ask) -> None:
        with self._traced(ask):
            try:
                ask.answer(await self._routes.answer(ask.question))
            except Transient as error:
                ask.fail(error.reason)

    def _traced(self, ask: Ask) -> AbstractContextManager[Any]:
        if not ask.traceparent:
            return nullcontext()
        return self._tracing.span("router.route", parent=ask.traceparent, kind="server")
