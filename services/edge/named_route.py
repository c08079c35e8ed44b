"""A route that an account built: one step after another, each with its own hold, until one answers.

Made by admission (contract: Routing and routes, Named routes).
"""

from collections.abc import Awaitable, Callable

from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.reasoning import AS_IS, gate
from services.edge.admitted import Admitted, Asked, Others
from services.edge.errors import RefusedError
from services.edge.fitting import fitting_max_tokens, gated_header
from services.edge.free_route import limit_headers
from services.edge.funds import Funds, funds_headers
from services.edge.settlement import Settlement


class NamedRoute:
    """The steps of one request. A step that cannot be paid for or has no room is passed over like one that fails.

    ``place`` asks the limiter for a free model, ``give_back`` ends what was given, ``to_free`` serves a step whose plan
    is used up by the free models.
    """

    def __init__(
        self,
        asked: Asked,
        route: router_pb2.Route,
        funds: Funds,
        settlement: Settlement,
        place: Callable[[Asked, str], Awaitable[limiter_pb2.Allowed]],
        give_back: Callable[[Asked, str], None],
        to_free: Callable[[Asked], Awaitable[Admitted]],
        *,
        leased: bool,
    ) -> None:
        self._asked = asked
        self._route = route
        self._left = enumerate((route, *route.others))
        self._funds = funds
        self._settlement = settlement
        self._place = place
        self._give_back = give_back
        self._to_free = to_free
        # The limiter wants to hear of the end of the request, whichever step serves it.
        self._leased = leased
        self._placed = False
        self._free: Others | None = None
        self._refused: RefusedError | None = None

    async def first(self) -> Admitted:
        """The request to the first step that may run; raise the first one's RefusedError when none may."""
        admitted = Admitted(self._route, None, 0, AS_IS, leased=self._leased, headers=(), others=self)
        if not await self.next(admitted):
            assert self._refused is not None
            raise self._refused
        return admitted

    async def next(self, admitted: Admitted) -> bool:
        """Make ``admitted`` a request to the next step that may run; without one nothing is held any more."""
        if self._free is not None and await self._free.next(admitted):
            return True
        self._leave(admitted)
        for line, step in self._left:
            try:
                await self._turn_to(admitted, step, line)
            except RefusedError as refused:
                self._refused = self._refused or refused
                continue
            return True
        return False

    def close(self) -> None:
        """Give back what the free models in place of a step have taken and not used."""
        if self._free is not None:
            self._free.close()

    def _leave(self, admitted: Admitted) -> None:
        asked = self._asked
        if admitted.granted is not None and admitted.granted.descriptor:
            account_id, line = asked.caller.account_id, admitted.line
            self._settlement.release(asked.request_id, account_id, asked.trace, "the route goes on", line=line)
        admitted.granted = None
        if admitted.leased and self._placed:
            self._give_back(asked, admitted.route.model.id)
        admitted.leased, self._placed = self._leased, False
        self.close()
        self._free = None

    async def _turn_to(self, admitted: Admitted, step: router_pb2.Route, line: int) -> None:
        asked, model = self._asked, step.model
        request = asked.request
        max_tokens = fitting_max_tokens(request, model)
        if model.free:
            await self._turn_to_free_model(admitted, step, max_tokens, line)
            return
        granted = await self._funds.reserve(asked, model, max_tokens, line=line)
        if granted is None:
            await self._turn_to_free_route(admitted)
            return
        reasoning = gate(request.reasoning, model.reasoning, model.reasoning_options)
        admitted.route, admitted.granted, admitted.line = step, granted, line
        admitted.max_tokens, admitted.reasoning = granted.max_tokens, reasoning
        admitted.headers = gated_header(request, reasoning) + funds_headers(asked.caller, granted)
        if granted.descriptor:
            self._settlement.opened(asked.request_id, line)

    async def _turn_to_free_model(self, admitted: Admitted, step: router_pb2.Route, max_tokens: int, line: int) -> None:
        asked, model = self._asked, step.model
        allowed = await self._place(asked, model.id)
        try:
            granted = await self._funds.note_free(asked, model, max_tokens, line=line)
        except BaseException:
            self._give_back(asked, model.id)
            raise
        reasoning = gate(asked.request.reasoning, model.reasoning, model.reasoning_options)
        admitted.route, admitted.granted, admitted.line = step, granted, line
        admitted.max_tokens, admitted.reasoning = max_tokens, reasoning
        admitted.leased, self._placed = allowed.leased, True
        admitted.headers = (
            gated_header(asked.request, reasoning) + limit_headers(allowed) + funds_headers(asked.caller, granted)
        )

    async def _turn_to_free_route(self, admitted: Admitted) -> None:
        free = await self._to_free(self._asked)
        self._free, self._placed = free.others, True
        admitted.route, admitted.granted, admitted.max_tokens = free.route, free.granted, free.max_tokens
        admitted.reasoning, admitted.leased, admitted.headers = free.reasoning, free.leased, free.headers
