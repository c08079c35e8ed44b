"""The use cases of named routes: accounts keep them, requests are routed by them.

Called by rpc.py beside it (keeping), services/router/rpc.py (routing) and, periodically, services/router/app.py.
"""

from random import random

from kenari.router.v1 import router_pb2

from libs.core.clock import Clock
from libs.core.ids import prefixed_id
from services.router.routes.domain import (
    BUILT_IN,
    LONGEST_NAME,
    InvalidRouteError,
    NamedRoute,
    Strategy,
    check_name,
    check_steps,
    order,
)
from services.router.routes.latency import Latencies
from services.router.routes.store import RouteStore
from services.router.service import Routing

STRATEGIES = {
    Strategy.FALLBACK: router_pb2.STRATEGY_FALLBACK,
    Strategy.ROUND_ROBIN: router_pb2.STRATEGY_ROUND_ROBIN,
    Strategy.RANDOM: router_pb2.STRATEGY_RANDOM,
    Strategy.WEIGHTED: router_pb2.STRATEGY_WEIGHTED,
    Strategy.LATENCY: router_pb2.STRATEGY_LATENCY,
}
"""The strategies on the wire."""


class Routes:
    """Named routes. What is asked for is read from the database each time: a change counts for the next request."""

    def __init__(self, store: RouteStore, routing: Routing, latencies: Latencies, clock: Clock) -> None:
        self._store = store
        self._routing = routing
        self._latencies = latencies
        self._clock = clock
        # Routes that were there before a model of their name: they go on winning.
        self._older_than_models: set[tuple[str, str]] = set()

    async def create(self, account_id: str, name: str) -> NamedRoute:
        """A new route without steps; raise InvalidRouteError or RouteExistsError."""
        self._check_name(name)
        route = NamedRoute(prefixed_id("route"), name, Strategy.FALLBACK, ())
        await self._store.create(account_id, route)
        return route

    async def save(self, account_id: str, route: NamedRoute) -> NamedRoute:
        """Make the route what is given; raise InvalidRouteError, RouteExistsError or RouteNotFoundError."""
        kept = {one.route_id: one.name for one in await self._store.of(account_id)}
        if kept.get(route.route_id) != route.name:
            self._check_name(route.name)
        check_steps(route.steps)
        for place, step in enumerate(route.steps, start=1):
            endpoints = self._routing.endpoints_of(step.model)
            if not endpoints:
                raise InvalidRouteError(f"step {place}: there is no model {step.model!r}")
            if "chat" not in endpoints:
                raise InvalidRouteError(f"step {place}: {step.model!r} is not a chat model")
        await self._store.save(account_id, route)
        return route

    async def delete(self, account_id: str, route_id: str) -> None:
        """Forget the route; raise RouteNotFoundError."""
        await self._store.delete(account_id, route_id)

    async def of(self, account_id: str) -> list[NamedRoute]:
        """The account's routes by name, behind the built-in one."""
        return [BUILT_IN, *await self._store.of(account_id)]

    def _check_name(self, name: str) -> None:
        check_name(name)
        if self._routing.endpoints_of(name):
            raise InvalidRouteError(f"there is a model of the name {name!r}")

    async def find_overlaps(self) -> None:
        """Look which routes have the name of a model that came later; raise Transient without a database."""
        self._older_than_models = await self._store.holders_of(self._routing.known())

    def may_be(self, asked: router_pb2.RouteRequest) -> bool:
        """Whether the request may name a route, so that ``answer`` has to be awaited."""
        if asked.endpoint != "chat" or asked.model == BUILT_IN.name:
            return False
        if len(asked.model) > LONGEST_NAME or not asked.model.isprintable():
            return False
        if not self._routing.endpoints_of(asked.model):
            return True
        return bool(self._older_than_models) and (asked.account_id, asked.model) in self._older_than_models

    async def answer(self, asked: router_pb2.RouteRequest) -> router_pb2.RouteResponse:
        """Who serves a request that may name a route; raise Transient without a database."""
        route = await self._store.named(asked.account_id, asked.model)
        if route is None:
            return self._routing.route(asked)
        # Steps whose model has left the catalogue are passed over.
        steps = [step for step in route.steps if self._routing.endpoints_of(step.model)]
        turn = await self._store.next_turn(route.route_id) if route.strategy is Strategy.ROUND_ROBIN else 0
        now_ms = self._clock.now_ms()
        latencies = [self._latencies.of(step.model, now_ms) for step in steps]
        weights = [step.weight for step in steps]
        places = order(route.strategy, weights, latencies, turn, random()) if steps else []
        return self._routing.by_steps(asked, route.name, [steps[place].model for place in places])

    async def explained(self, asked: router_pb2.RouteRequest) -> router_pb2.ExplainResponse:
        """What the request's name means, and every way to serve it; raise Transient without a database."""
        route = await self._store.named(asked.account_id, asked.model) if self.may_be(asked) else None
        if asked.model == BUILT_IN.name:
            kind, models = "free route", self._routing.free_models()
        elif route is not None:
            kind, models = "route", [step.model for step in route.steps]
        else:
            kind = "model" if self._routing.endpoints_of(asked.model) else "nothing that is known"
            models = [asked.model] if kind == "model" else []
        candidates = [one for model in models for one in self._routing.explained(asked, model)]
        strategy = STRATEGIES[route.strategy] if route is not None else router_pb2.STRATEGY_UNSPECIFIED
        return router_pb2.ExplainResponse(kind=kind, strategy=strategy, candidates=candidates)
