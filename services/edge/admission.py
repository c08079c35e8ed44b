"""May this request run, where, and with how many tokens: limiter and router together, then the ledger.

Called by the chat endpoint once per request. Refusing gives back what was taken (a place of the free quota, a
hold). What does not answer is dealt with as stated in the README: no limiter, a local share; no router or
ledger, a clear 503.
"""

import asyncio
from functools import partial
from typing import Any

from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2

from libs.llm.canonical import Effort
from libs.llm.failures import ApiError
from libs.llm.reasoning import FREE_SUFFIX, ReasoningControl
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.absent_limiter import AbsentLimiter
from services.edge.admitted import Admitted, Asked
from services.edge.catalog import Catalog
from services.edge.errors import RefusedError, refuse, unavailable, with_retry_after
from services.edge.fitting import fitting_max_tokens, gated_header
from services.edge.free_route import FreeRoute, limit_headers, quota_spent
from services.edge.funds import Funds, funds_headers
from services.edge.keys import Caller
from services.edge.levels import control
from services.edge.patience import ask_patiently
from services.edge.scope import FREE_ROUTE
from services.edge.settings import EdgeSettings


class LimitedError(RefusedError):
    """The limiter refused: it has given nothing that could go back."""


class Admission:
    """Asks the three peers in the order that wastes least."""

    def __init__(
        self,
        limiter: CheckClient,
        router: CheckClient,
        funds: Funds,
        catalog: Catalog,
        settings: EdgeSettings,
        telemetry: Telemetry,
    ) -> None:
        self._limiter = limiter
        self._router = router
        self._funds = funds
        self._catalog = catalog
        self._settings = settings
        self._absent = AbsentLimiter(settings.free_rpm_without_limiter, telemetry)

    async def admit(self, asked: Asked) -> Admitted:
        """Admit the request or raise RefusedError with the contract's status, code and headers."""
        request, caller = asked.request, asked.caller
        if asked.on_free_route:
            return await self._on_free_route(asked)
        # Both at once: in one loop turn each travels in its own stream's next message.
        timeout_s = self._settings.limiter_timeout_s
        question = self._limit_question(asked, request.model)
        admitting = self._limiter.begin("admit", question, timeout_s, asked.trace)
        try:
            route = await self._route(_route_question(asked), asked.trace)
            reasoning = control(request, asked.level, route.model)
            limits = await self._limits(admitting, caller, free=asked.free)
            return await self._with_funds(asked, route, reasoning, limits)
        except LimitedError:
            raise
        except BaseException:
            # Whatever ended it, a place of the free quota that was given, or is just being given, goes back.
            if asked.free:
                self.done(asked, request.model, success=False)
            raise

    async def _on_free_route(self, asked: Asked) -> Admitted:
        if asked.level in (Effort.NONE, Effort.MINIMAL):
            raise refuse(400, "bad_request", f"a route does not take the level {asked.level}; it takes low to max")
        return await self.to_free(asked)

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
        admitted = await FreeRoute(asked, route, self._free_place, partial(self.done, success=False)).first()
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
        question, timeout_s = self._limit_question(asked, model_id), self._settings.limiter_timeout_s
        admitting = self._limiter.begin("admit", question, timeout_s, asked.trace)
        try:
            return await self._limits(admitting, asked.caller, free=True)
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

    def _limit_question(self, asked: Asked, model_id: str) -> limiter_pb2.AdmitRequest:
        free = model_id.endswith(FREE_SUFFIX)
        question = limiter_pb2.AdmitRequest(
            request_id=asked.request_id,
            account_id=asked.caller.account_id,
            subject=limiter_pb2.SUBJECT_FREE_CHAT if free else limiter_pb2.SUBJECT_PAID_CHAT,
            model=model_id,
        )
        if free and (model := self._catalog.get(model_id)) is not None:
            if model.free_rpm is not None:
                question.model_free_rpm = model.free_rpm
            if model.free_daily is not None:
                question.model_free_daily = model.free_daily
        return question

    async def _limits(self, admitting: "asyncio.Future[Any]", caller: Caller, *, free: bool) -> limiter_pb2.Allowed:
        try:
            answer = (await admitting).admit
        except CheckFailedError:
            return self._absent.allow(caller.account_id, free=free)
        if answer.HasField("refused"):
            raise _limited(answer.refused)
        allowed: limiter_pb2.Allowed = answer.allowed
        if allowed.wait_ms:
            await asyncio.sleep(allowed.wait_ms / 1000)
        return allowed

    async def _with_funds(
        self, asked: Asked, route: router_pb2.Route, reasoning: ReasoningControl, allowed: limiter_pb2.Allowed
    ) -> Admitted:
        model, request = route.model, asked.request
        max_tokens = fitting_max_tokens(request, model)
        headers = gated_header(request, reasoning)
        if model.free:
            granted = await self._funds.note_free(asked, model, max_tokens)
            headers += limit_headers(allowed) + funds_headers(asked.caller, granted)
            return Admitted(route, granted, _granted_tokens(granted, max_tokens), reasoning, allowed.leased, headers)
        granted = await self._funds.reserve(asked, model, max_tokens)
        if granted is None:
            return await self.to_free(asked)
        headers += funds_headers(asked.caller, granted)
        return Admitted(route, granted, granted.max_tokens, reasoning, allowed.leased, headers)

    def done(self, asked: Asked, model_id: str, *, success: bool) -> None:
        """Tell the limiter that a request to a free model has ended; only a success uses up the daily quota.

        Nobody waits for the answer: a report that is lost ends with its lease.
        """
        report = limiter_pb2.DoneRequest(
            request_id=asked.request_id,
            account_id=asked.caller.account_id,
            model=model_id,
            success=success,
        )
        model = self._catalog.get(model_id)
        if model is not None and model.free_daily is not None:
            report.model_free_daily = model.free_daily
        _forget(self._limiter.begin("done", report, 1.0, asked.trace, lazy=True))


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


def _granted_tokens(granted: ledger_pb2.Granted | None, asked: int) -> int:
    return granted.max_tokens if granted is not None else asked


def _forget(future: "asyncio.Future[Any]") -> None:
    future.add_done_callback(lambda done: done.cancelled() or done.exception())


_LIMIT_MESSAGES = {
    "rate_limit_exceeded": "too many requests for this account; space them out and retry with backoff",
    "free_quota_rpm": "the per-minute limit for free models is reached; retry after the time in Retry-After",
    "free_quota_daily": "the daily quota for free models is used up; it starts anew at 00:00 UTC",
}


def _limited(refused: limiter_pb2.Refused) -> RefusedError:
    limit = ApiError(status=429, code=refused.code, type="rate_limit_exceeded", message=_LIMIT_MESSAGES[refused.code])
    error = LimitedError(limit)
    if refused.code == "free_quota_daily":
        # SDKs would otherwise sleep until midnight.
        error.headers = ((b"x-should-retry", b"false"),)
    return with_retry_after(error, refused.retry_after_s)


def _route_refused(refusal: router_pb2.Refusal) -> RefusedError:
    status = 400 if refusal.code in ("model_not_found", "bad_request") else 503
    return with_retry_after(refuse(status, refusal.code, refusal.message), refusal.retry_after_s)
