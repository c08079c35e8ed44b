"""The router's gRPC face: Route on the coalesced stream or alone, GetPrice.

Called by libs.rpc's server; the edge asks Route, the ledger GetPrice.
"""

from typing import Any

from kenari.router.v1 import router_pb2, router_pb2_grpc

from libs.ops.telemetry import Telemetry
from libs.rpc.checks import Ask, CheckServer
from services.router.answers import price_message
from services.router.service import Routing
from services.router.store import Store

SERVICE = "kenari.router.v1.Router"


class RouterServicer(router_pb2_grpc.RouterServicer):
    """Maps messages to the service and back; refusals are answers."""

    def __init__(self, routing: Routing, store: Store, telemetry: Telemetry) -> None:
        self._routing = routing
        self._store = store
        self._tracing = telemetry.tracing
        self._checks = CheckServer(router_pb2.CheckReplies, router_pb2.CheckReply, self._handle, telemetry)

    async def CheckStream(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await self._checks.serve(request_iterator, context)

    async def Route(self, request: router_pb2.RouteRequest, context: Any) -> router_pb2.RouteResponse:
        return self._route(request)

    async def GetPrice(self, request: router_pb2.GetPriceRequest, context: Any) -> router_pb2.GetPriceResponse:
        """A price version from memory or, when it is an older one, from the database; empty when there is none."""
        price = self._routing.price(request.version) or await self._store.price(request.version)
        return router_pb2.GetPriceResponse(price=price_message(price) if price else None)

    async def _handle(self, asks: list[Ask]) -> None:
        # Nothing is awaited: the answers to one message leave in one message.
        for ask in asks:
            if ask.traceparent:
                self._handle_traced(ask)
            else:
                self._answer(ask)

    def _handle_traced(self, ask: Ask) -> None:
        with self._tracing.span("router.route", parent=ask.traceparent, kind="server"):
            self._answer(ask)

    def _answer(self, ask: Ask) -> None:
        if ask.expired():
            return
        ask.answer(self._route(ask.question))

    def _route(self, asked: router_pb2.RouteRequest) -> router_pb2.RouteResponse:
        return self._routing.route(asked)
