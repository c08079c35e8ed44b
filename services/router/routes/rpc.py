"""Named routes on the wire: maps messages to use cases and back.

Called by libs.rpc's server; asked by administrators' tools, later by the dashboard.
"""

from typing import Any

from kenari.router.v1 import router_pb2, router_pb2_grpc

from services.router.routes.domain import BUILT_IN, InvalidRouteError, NamedRoute, RouteNotFoundError, Step
from services.router.routes.service import STRATEGIES, Routes

SERVICE = "kenari.router.v1.Routes"

_BY_NUMBER = {number: strategy for strategy, number in STRATEGIES.items()}


class RoutesServicer(router_pb2_grpc.RoutesServicer):
    """Servicer of ``kenari.router.v1.Routes``; what is refused travels as a status with its reason."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def CreateRoute(
        self, request: router_pb2.CreateRouteRequest, context: Any
    ) -> router_pb2.RouteChangedResponse:
        route = await self._routes.create(_account(request.account_id), request.name)
        return router_pb2.RouteChangedResponse(route=_message(route))

    async def SaveRoute(self, request: router_pb2.SaveRouteRequest, context: Any) -> router_pb2.RouteChangedResponse:
        route = await self._routes.save(_account(request.account_id), _route(request.route))
        return router_pb2.RouteChangedResponse(route=_message(route))

    async def DeleteRoute(self, request: router_pb2.DeleteRouteRequest, context: Any) -> router_pb2.DeleteRouteResponse:
        if request.route_id == BUILT_IN.route_id:
            raise InvalidRouteError(f"{BUILT_IN.name} can be neither changed nor deleted")
        await self._routes.delete(_account(request.account_id), request.route_id)
        return router_pb2.DeleteRouteResponse()

    async def ListRoutes(self, request: router_pb2.ListRoutesRequest, context: Any) -> router_pb2.ListRoutesResponse:
        routes = await self._routes.of(_account(request.account_id))
        return router_pb2.ListRoutesResponse(routes=[_message(route) for route in routes])


def _account(account_id: str) -> str:
    if not account_id:
        raise RouteNotFoundError("no account is named")
    return account_id


def _route(message: router_pb2.NamedRoute) -> NamedRoute:
    if message.route_id == BUILT_IN.route_id:
        raise InvalidRouteError(f"{BUILT_IN.name} can be neither changed nor deleted")
    strategy = _BY_NUMBER.get(message.strategy)
    if strategy is None:
        raise InvalidRouteError("the strategy is none of fallback, round_robin, random, weighted and latency")
    steps = tuple(Step(step.model, step.credential, step.weight) for step in message.steps)
    return NamedRoute(message.route_id, message.name, strategy, steps)


def _message(route: NamedRoute) -> router_pb2.NamedRoute:
    steps = [router_pb2.RouteStep(model=one.model, credential=one.credential, weight=one.weight) for one in route.steps]
    return router_pb2.NamedRoute(
        route_id=route.route_id,
        name=route.name,
        strategy=STRATEGIES[route.strategy],
        steps=steps,
        built_in=route is BUILT_IN,
    )
