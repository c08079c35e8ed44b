"""Why a request goes where it goes: every way to serve a model with its turn, or what speaks against it. Pure.

Called by service.py for operators (``admin routes explain``).
"""

from collections.abc import Sequence

from kenari.router.v1 import router_pb2

from services.router import domain
from services.router.catalog.cards import Upstream
from services.router.domain import Health, Server


def explain(
    model: str,
    servers: Sequence[tuple[Server, Upstream]],
    health: Sequence[Health],
    asked: router_pb2.RouteRequest,
    now_ms: int,
) -> list[router_pb2.Candidate]:
    """A candidate for each server, those that are tried first in the order of their turns."""
    unable = [_unable(upstream, asked) for _, upstream in servers]
    able = [n for n, reason in enumerate(unable) if not reason]
    plan = domain.plan([servers[n][0] for n in able], [health[n] for n in able], [0] * len(able), now_ms)
    place = domain.pick(plan, f"{asked.account_id} {asked.session}") if len(plan.first) > 1 else 0
    order = [*plan.due[:1], *domain.attempts(plan, place)] if plan.first or plan.due else []
    turns = {able[n]: turn for turn, n in enumerate(order, start=1)}
    candidates = [
        router_pb2.Candidate(
            model=model,
            upstream_id=server.upstream_id,
            order=server.order,
            weight=server.weight,
            turn=turns.get(n, 0),
            state=unable[n] or _state(health[n], now_ms),
            until_ms=health[n].until_ms,
            reason=health[n].reason,
        )
        for n, (server, _) in enumerate(servers)
    ]
    return sorted(candidates, key=lambda one: (one.turn == 0, one.turn))


def _unable(upstream: Upstream, asked: router_pb2.RouteRequest) -> str:
    abilities = upstream.provider.abilities
    if asked.tools and not abilities.tools:
        return "cannot carry tools"
    if asked.remote_images and not abilities.remote_images:
        return "cannot fetch pictures"
    return ""


def _state(health: Health, now_ms: int) -> str:
    if health.takes_all():
        return "takes requests"
    return "paused" if health.until_ms > now_ms else "waits for a probe"
