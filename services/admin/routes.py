"""The commands about named routes, and why a request goes where it goes.

Registered in app.py.
"""

from typing import Any

import click
from kenari.router.v1 import router_pb2

from services.admin import show
from services.admin.action import action
from services.admin.peers import Peers

_STRATEGIES: dict[str, "router_pb2.Strategy.ValueType"] = {
    "fallback": router_pb2.STRATEGY_FALLBACK,
    "round_robin": router_pb2.STRATEGY_ROUND_ROBIN,
    "random": router_pb2.STRATEGY_RANDOM,
    "weighted": router_pb2.STRATEGY_WEIGHTED,
    "latency": router_pb2.STRATEGY_LATENCY,
}
_NAMES = {number: name for name, number in _STRATEGIES.items()}


class Step(click.ParamType[router_pb2.RouteStep]):
    """A step as MODEL or MODEL=WEIGHT, paid by the account's own funding."""

    name = "step"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> router_pb2.RouteStep:
        model, equals, weight = str(value).partition("=")
        if equals and not (weight.isascii() and weight.isdigit() and len(weight) <= 4):
            self.fail(f"{weight!r} is no weight; write MODEL or MODEL=3", param, ctx)
        return router_pb2.RouteStep(model=model, credential="balance", weight=int(weight) if equals else 1)


@click.group()
def routes() -> None:
    """Named routes of accounts, and how requests are routed."""


@action(routes, "list")
@click.argument("account_id")
async def list_routes(peers: Peers, account_id: str) -> list[dict[str, Any]]:
    """List the routes of an account, the built-in one first."""
    return [_row(route) for route in await _routes(peers, account_id)]


@action(routes, "create")
@click.argument("account_id")
@click.argument("name")
@click.option("--step", "steps", type=Step(), multiple=True, help="MODEL or MODEL=WEIGHT, in order; repeat it.")
@click.option("--strategy", type=click.Choice(list(_STRATEGIES)), default="fallback", show_default=True)
async def create_route(
    peers: Peers, account_id: str, name: str, steps: tuple[router_pb2.RouteStep, ...], strategy: str
) -> dict[str, Any]:
    """Make a route over these steps."""
    request = router_pb2.CreateRouteRequest(account_id=account_id, name=name)
    made = (await peers.routes("CreateRoute", request, retry=False)).route
    return await _save(peers, account_id, made, steps, strategy)


@action(routes, "change")
@click.argument("account_id")
@click.argument("name")
@click.option("--step", "steps", type=Step(), multiple=True, help="All steps as they are to be; without any they stay.")
@click.option("--strategy", type=click.Choice(list(_STRATEGIES)))
@click.option("--rename", help="The new name.")
async def change_route(
    peers: Peers,
    account_id: str,
    name: str,
    steps: tuple[router_pb2.RouteStep, ...],
    strategy: str | None,
    rename: str | None,
) -> dict[str, Any]:
    """Change steps, strategy or name of a route; the next request goes by it."""
    route = await _named(peers, account_id, name)
    route.name = rename or route.name
    return await _save(peers, account_id, route, steps or tuple(route.steps), strategy or _NAMES[route.strategy])


@action(routes, "delete")
@click.argument("account_id")
@click.argument("name")
async def delete_route(peers: Peers, account_id: str, name: str) -> dict[str, Any]:
    """Delete a route: its name is no model any more."""
    route = await _named(peers, account_id, name)
    request = router_pb2.DeleteRouteRequest(account_id=account_id, route_id=route.route_id)
    await peers.routes("DeleteRoute", request, retry=False)
    return _row(route)


@action(routes, "explain")
@click.argument("model")
@click.option("--account", "account_id", default="", help="Whose routes and conversations are meant.")
@click.option("--tools", is_flag=True, help="The request has tools.")
@click.option("--remote-images", is_flag=True, help="The request has pictures at addresses.")
async def explain(peers: Peers, model: str, account_id: str, tools: bool, remote_images: bool) -> list[dict[str, Any]]:
    """Who would serve a chat request to a model or route now, in which turn, and what speaks against the others."""
    question = router_pb2.RouteRequest(
        account_id=account_id, model=model, endpoint="chat", tools=tools, remote_images=remote_images
    )
    answer = await peers.router("Explain", router_pb2.ExplainRequest(question=question))
    means = f"{answer.kind} ({_NAMES[answer.strategy]})" if answer.strategy else answer.kind
    if not answer.candidates:
        return [{"name": model, "means": means}]
    return [{"name": model, "means": means, **_candidate(one)} for one in answer.candidates]


async def _routes(peers: Peers, account_id: str) -> list[router_pb2.NamedRoute]:
    request = router_pb2.ListRoutesRequest(account_id=account_id)
    return list((await peers.routes("ListRoutes", request)).routes)


async def _named(peers: Peers, account_id: str, name: str) -> router_pb2.NamedRoute:
    for route in await _routes(peers, account_id):
        if route.name == name:
            return route
    raise click.ClickException(f"the account has no route named {name!r}")


async def _save(
    peers: Peers, account_id: str, route: router_pb2.NamedRoute, steps: tuple[router_pb2.RouteStep, ...], strategy: str
) -> dict[str, Any]:
    wanted = router_pb2.NamedRoute(
        route_id=route.route_id, name=route.name, strategy=_STRATEGIES[strategy], steps=steps
    )
    request = router_pb2.SaveRouteRequest(account_id=account_id, route=wanted)
    return _row((await peers.routes("SaveRoute", request)).route)


def _row(route: router_pb2.NamedRoute) -> dict[str, Any]:
    return {
        "name": route.name,
        "strategy": _NAMES[route.strategy],
        "steps": [f"{step.model}={step.weight}" for step in route.steps] or None,
        "built_in": route.built_in or None,
    }


def _candidate(one: router_pb2.Candidate) -> dict[str, Any]:
    return {
        "model": one.model,
        "turn": one.turn or None,
        "upstream": one.upstream_id or None,
        "order": one.order if one.upstream_id else None,
        "weight": one.weight or None,
        "state": one.state,
        "until": show.moment(one.until_ms),
        "reason": one.reason or None,
    }
