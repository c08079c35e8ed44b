"""May this request run, where, and with how many tokens: limiter and router together, then the ledger.

Called by the chat endpoint once per request. Refusing gives back what was taken (a place of the free quota, a
hold). What does not answer is dealt with as stated in the README: no limiter, a local share; no router or
ledger, a clear 503.
"""

from functools import partial

from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.canonical import Effort
from libs.llm.reasoning import FREE_SUFFIX, ReasoningControl
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.admitted import Admitted, Asked
from services.edge.errors import RefusedError, refuse, unavailable, with_retry_after
from services.edge.fitting import fitting_max_tokens, forwarded_header, gated_header
from services.edge.free_route import FreeRoute, limit_headers, quota_spent
from services.edge.funds import Funds, funds_headers
from services.edge.levels import control
from services.edge.limiter import Asking, LimitedError
from services.edge.limits import ChatLimits
from services.edge.named_route import NamedRoute
from services.edge.patience import ask_patiently
from services.edge.scope import FREE_ROUTE, check_route
from services.edge.settings import EdgeSettings
from services.edge.settlement import Settlement


class Admission:
    """Asks the three peers in the order that wastes least."""

    def __init__(
        self,
        limits: ChatLimits,
        router: CheckClient,
        funds: Funds,
        settlement: Settlement,
        settings: EdgeSettings,
    ) -> None:
        self._limits = limits
        self._router = router
        self._funds = funds
        self._settlement = settlement
        self._settings = settings

    async def admit(self, asked: Asked) -> Admitted:
        """Admit the request or raise RefusedError with the contract's status, code and headers."""
        request = asked.request
        if asked.on_free_route:
            return await self._on_free_route(asked)
        # Both at once: in one loop turn each travels in its own stream's next message.
        asking = self._limits.ask(asked, request.model)
        try:
            route = await self._route(_route_question(asked), asked.trace)
            if route.route_name:
                return await self._by_steps(asked, route, asking)
            reasoning = control(request, asked.level, route.model)
            allowed = await asking.answer(self._settings.free_place_wait_s)
            return await self._with_funds(asked, route, reasoning, allowed)
        except LimitedError:
            raise
        except BaseException:
            # Whatever ended it, what was given, or is just being given, goes back: a place of the free quota, tokens.
            self.done(asked, request.model, success=False)
            raise

    async def _on_free_route(self, asked: Asked) -> Admitted:
        _check_route_level(asked)
        return await self.to_free(asked)

    async def _by_steps(self, asked: Asked, route: router_pb2.Route, asking: Asking) -> Admitted:
        _check_route_level(asked)
        check_route(asked.caller)
        allowed = await asking.answer(self._settings.free_place_wait_s)
        steps = NamedRoute(
            asked,
            route,
            self._funds,
            self._settlement,
            self._free_place,
            partial(self.done, success=False),
            self.to_free,
            leased=allowed.leased,
        )
        return await steps.first()

    async def to_free(self, asked: Asked) -> Admitted:
        """Serve the request by the free models its key may use: counted and limited as free, without a hold.

        Raise RefusedError; ``plan_limit_reached`` when the key has a scope without a free model that is for sale.
        """
        scope = asked.caller.models
        only = sorted(model for model in scope if model.endswith(FREE_SUFFIX))
        if scope and not only:
            raise quota_spent()
        question = _route_question(asked)
        question.model = FREE_ROUTE
        question.models.extend(only)
        try:
            route = await self._route(question, asked.trace)
        except RefusedError as refused:
            if scope and refused.reason == "no_wire_for_modality":
                raise quota_spent() from refused
            raise
        give_back = partial(self.done, success=False)
        admitted = await FreeRoute(asked, route, self._free_place, give_back, self._limits.unused).first()
        if asked.caller.caps is not None:
            await self._note_capped(asked, admitted)
        return admitted

    async def _note_capped(self, asked: Asked, admitted: Admitted) -> None:
        """Hold a capped key's tokens for a request that became a free one."""
        try:
            granted = await self._funds.note_free(asked, admitted.route.model, admitted.max_tokens)
        except BaseException:
            self.done(asked, admitted.route.model.id, success=False)
            raise
        admitted.granted, admitted.max_tokens = granted, _granted_tokens(granted, admitted.max_tokens)

    async def _free_place(self, asked: Asked, model_id: str) -> limiter_pb2.Allowed:
        asking = self._limits.ask(asked, model_id)
        try:
            return await asking.answer()
        except LimitedError:
            raise
        except BaseException:
            self.done(asked, model_id, success=False)
            raise

    async def _route(self, question: router_pb2.RouteRequest, trace: str) -> router_pb2.Route:
        try:
            settings = self._settings
            routed = await ask_patiently(
                self._router, "route", question, settings.route_timeout_s, settings.check_patience_s, trace
            )
        except CheckFailedError as error:
            raise unavailable("routing") from error
        if routed.HasField("refusal"):
            raise _route_refused(routed.refusal)
        route: router_pb2.Route = routed.route
        return route

    async def _with_funds(
        self, asked: Asked, route: router_pb2.Route, reasoning: ReasoningControl, allowed: limiter_pb2.Allowed
    ) -> Admitted:
        model, request = route.model, asked.request
        max_tokens = fitting_max_tokens(request, model)
        headers = gated_header(request, reasoning) + forwarded_header(request, model)
        if model.free:
            granted = await self._funds.note_free(asked, model, max_tokens)
            headers += limit_headers(allowed) + funds_headers(asked.caller, granted)
            return Admitted(route, granted, _granted_tokens(granted, max_tokens), reasoning, allowed.leased, headers)
        granted = await self._funds.reserve(asked, model, max_tokens)
        if granted is None:
            return await self.to_free(asked)
        headers += funds_headers(asked.caller, granted)
        return Admitted(route, granted, granted.max_tokens, reasoning, allowed.leased, headers)

    def done(self, asked: Asked, model_id: str, *, success: bool, tokens: int = 0) -> None:
        """Tell the limiter that an admitted request has ended, after so many tokens."""
        self._limits.done(asked, model_id, success=success, tokens=tokens)


def _route_question(asked: Asked) -> router_pb2.RouteRequest:
    request = asked.request
    return router_pb2.RouteRequest(
        request_id=asked.request_id,
        account_id=asked.caller.account_id,
        key_id=asked.caller.key_id,
        model=request.model,
        endpoint="chat",
        stream=request.stream,
        session=asked.session,
        tools=request.uses_tools,
        remote_images=request.remote_images > 0,
    )


def _check_route_level(asked: Asked) -> None:
    """Contract: Reasoning, Set the level in the model id."""
    if asked.level in (Effort.NONE, Effort.MINIMAL):
        raise refuse(400, "bad_request", f"a route does not take the level {asked.level}; it takes low to max")


def _granted_tokens(granted: ledger_pb2.Granted | None, asked: int) -> int:
    return granted.max_tokens if granted is not None else asked


def _route_refused(refusal: router_pb2.Refusal) -> RefusedError:
    status = 400 if refusal.code in ("model_not_found", "bad_request") else 503
    return with_retry_after(refuse(status, refusal.code, refusal.message), refusal.retry_after_s)
