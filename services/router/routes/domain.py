"""What a named route may be called and consist of, and which of its steps comes first: pure rules, no IO.

Called by service.py and store.py beside it (contract: Routing and routes, Named routes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from libs.core.errors import Permanent
from services.router.catalog.fields import FREE_ROUTE, RESERVED_IDS, RESERVED_PREFIX

LONGEST_NAME = 64
MOST_STEPS = 20
MOST_ROUTES = 200
HEAVIEST = 1_000
BALANCE = "balance"
# Last parts of a name that the model field already means something by (contract: Reasoning, Free models).
_TAKEN_ENDS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "free")


class RoutesError(Permanent):
    """Base of what is refused about routes."""


class InvalidRouteError(RoutesError):
    """A name or a step cannot be used."""

    reason = "invalid"


class RouteExistsError(RoutesError):
    """The account has a route of that name."""

    reason = "already_exists"


class RouteNotFoundError(RoutesError):
    """The account has no such route."""

    reason = "not_found"


class Strategy(StrEnum):
    """Which step a request starts with."""

    FALLBACK = "fallback"
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    WEIGHTED = "weighted"
    LATENCY = "latency"


@dataclass(frozen=True)
class Step:
    """One model and who pays for it."""

    model: str
    credential: str
    weight: int = 1


@dataclass(frozen=True)
class NamedRoute:
    """A route of an account."""

    route_id: str
    name: str
    strategy: Strategy
    steps: tuple[Step, ...]


BUILT_IN = NamedRoute("route_kenari_free", FREE_ROUTE, Strategy.RANDOM, ())


def check_name(name: str) -> None:
    """Raise InvalidRouteError for what no route may be called."""
    if not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidRouteError(f"a route's name has 1 to {LONGEST_NAME} characters")
    if name != name.strip() or not name.isprintable():
        raise InvalidRouteError("a route's name has no spaces around it and only characters that can be seen")
    if name in RESERVED_IDS or name.startswith(RESERVED_PREFIX):
        raise InvalidRouteError(f"the name {name!r} is reserved")
    if ":" in name and name.rpartition(":")[2] in _TAKEN_ENDS:
        raise InvalidRouteError("a route's name does not end in a reasoning level or :free")


def check_steps(steps: Sequence[Step]) -> None:
    """Raise InvalidRouteError for steps that lack something or are too many."""
    if len(steps) > MOST_STEPS:
        raise InvalidRouteError(f"a route has at most {MOST_STEPS} steps")
    for place, step in enumerate(steps, start=1):
        if not step.model:
            raise InvalidRouteError(f"step {place} has no model")
        if not step.credential:
            raise InvalidRouteError(f"step {place} has no credential")
        if step.credential != BALANCE:
            raise InvalidRouteError(f"step {place} has the unknown credential {step.credential!r}; it can be {BALANCE}")
        if not 0 <= step.weight <= HEAVIEST:
            raise InvalidRouteError(f"step {place} has a weight that is not within 0 and {HEAVIEST}")


def order(
    strategy: Strategy, weights: Sequence[int], latencies: Sequence[float | None], turn: int, chance: float
) -> list[int]:
    """Places of the steps in the order in which they are tried.

    ``turn`` counts the requests of the route, ``chance`` is drawn from [0, 1) for this one. After the first step the
    others follow in the list's order and around its end; by latency they follow by latency, unknown ones first.
    """
    count = len(weights)
    match strategy:
        case Strategy.LATENCY:
            return sorted(range(count), key=lambda n: (latencies[n] is not None, latencies[n] or 0.0))
        case Strategy.FALLBACK:
            start = 0
        case Strategy.ROUND_ROBIN:
            start = turn % count
        case Strategy.RANDOM:
            start = int(chance * count)
        case Strategy.WEIGHTED:
            start = _by_weight(weights, chance)
    return [(start + n) % count for n in range(count)]


def _by_weight(weights: Sequence[int], chance: float) -> int:
    point = chance * sum(weights)
    for place, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return place
    return 0
