"""A request on its way through the edge: as it was asked, and as it was admitted.

Made by the chat endpoint and by admission, read by all that comes after them.
"""

from dataclasses import dataclass
from typing import Protocol

from kenari.ledger.v1 import ledger_pb2
from kenari.router.v1 import router_pb2

from libs.llm.canonical import ChatRequest, Effort
from libs.llm.reasoning import FREE_SUFFIX, ReasoningControl
from services.edge.exchange import Header
from services.edge.keys import Caller
from services.edge.scope import FREE_ROUTE


@dataclass(slots=True)
class Asked:
    """A parsed request. ``level`` is the reasoning level its model id named, ``session`` its conversation."""

    request_id: str
    caller: Caller
    request: ChatRequest
    level: Effort | None
    endpoint: str
    session: str
    trace: str

    @property
    def free(self) -> bool:
        return self.request.model.endswith(FREE_SUFFIX)

    @property
    def on_free_route(self) -> bool:
        """Whether any free model will do."""
        return self.request.model == FREE_ROUTE


class Others(Protocol):
    """The further models of a route."""

    async def next(self, admitted: "Admitted") -> bool:
        """Make ``admitted`` a request to the next of them; False when none is left."""
        ...

    def close(self) -> None:
        """The request has ended: give back what was taken for models that did not serve it."""
        ...


@dataclass(slots=True)
class Admitted:
    """A request that may run. ``granted`` is None for a free model; ``leased`` means the limiter wants Done.

    ``others`` are the further models of a route, which follow when all providers of this one have failed. ``line`` is
    that of the hold within the request: each step of a named route has its own.
    """

    route: router_pb2.Route
    granted: ledger_pb2.Granted | None
    max_tokens: int
    reasoning: ReasoningControl
    leased: bool
    headers: tuple[Header, ...]
    others: Others | None = None
    line: int = 0

    async def go_on(self) -> bool:
        """Turn to the next model of the route; False when there is none."""
        return self.others is not None and await self.others.next(self)

    @property
    def billing_kind(self) -> str:
        return self.granted.billing_kind if self.granted is not None else "free"
