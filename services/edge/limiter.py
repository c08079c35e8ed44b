"""The limiter as the edge asks it: what it has refused a moment ago is not asked again, and its absence is dealt with.

Used by limits.py (chat), callers.py (keys) and the usage endpoints (contract: Rate limits, What each limit returns).
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kenari.limiter.v1 import limiter_pb2

from libs.llm.failures import ApiError
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.absent_limiter import AbsentLimiter
from services.edge.errors import RefusedError, with_retry_after
from services.edge.refusals import Refusals
from services.edge.settings import EdgeSettings
from services.edge.telemetry import REFUSED_HERE

_END_S = 1.0
# A place of the daily quota becomes free when some other request ends: looked for so often.
_LOOK_EVERY_S = 0.25

_MESSAGES: Mapping[int, str] = MappingProxyType(
    {
        limiter_pb2.LIMIT_ACCOUNT_REQUESTS: "too many requests for this account; space them out and retry with backoff",
        limiter_pb2.LIMIT_KEY_REQUESTS: "this key's requests per minute are used up; space them out and retry",
        limiter_pb2.LIMIT_KEY_TOKENS: "this key's tokens per minute are used up; wait a little and retry with backoff",
        limiter_pb2.LIMIT_SHARED_KEY: "too many requests on this shared key by all who use it; retry with backoff",
        limiter_pb2.LIMIT_USAGE_READS: "too many usage reads for this account; wait a few seconds and retry",
        limiter_pb2.LIMIT_FREE_MINUTE: "the per-minute limit of free models is reached; retry after Retry-After",
        limiter_pb2.LIMIT_FREE_IN_FLIGHT: "requests that still run may use up the daily quota of free models; retry "
        "after Retry-After",
        limiter_pb2.LIMIT_FREE_DAY: "the daily quota of free models is used up; it starts anew at 00:00 UTC",
        limiter_pb2.LIMIT_FREE_FLOOD: "too many free requests at once; space them out and retry with backoff",
        limiter_pb2.LIMIT_MODEL_TOKENS: "this free model has given all its tokens for now; use another model or wait",
    }
)
_ANY_LIMIT = "too many requests; wait a little and retry with backoff"


class LimitedError(RefusedError):
    """The limiter refused: it has given nothing that could go back."""

    def __init__(self, refused: limiter_pb2.Refused) -> None:
        message = _MESSAGES.get(refused.limit, _ANY_LIMIT)
        super().__init__(ApiError(status=429, code=refused.code, type="rate_limit_exceeded", message=message))
        self.limit = refused.limit
        if refused.code == "free_quota_daily":
            # SDKs would otherwise sleep until midnight.
            self.headers = ((b"x-should-retry", b"false"),)
        with_retry_after(self, refused.retry_after_s)


class Asking:
    """A question under way."""

    def __init__(
        self, limiter: "Limiter", question: limiter_pb2.AdmitRequest, reply: "asyncio.Future[Any]", trace: str
    ) -> None:
        self._limiter = limiter
        self._question = question
        self._reply = reply
        self._trace = trace

    async def answer(self, patience_s: float = 0.0) -> limiter_pb2.Allowed:
        """What was allowed, once its pacing is over; raise LimitedError.

        Where only requests in flight stand between it and the daily quota, it waits for one to end, for at most
        ``patience_s``.
        """
        allowed = await self._answer(patience_s)
        if allowed.wait_ms:
            await asyncio.sleep(allowed.wait_ms / 1000)
        return allowed

    async def _answer(self, patience_s: float) -> limiter_pb2.Allowed:
        loop = asyncio.get_running_loop()
        gives_up = loop.time() + patience_s
        while True:
            try:
                return await self._limiter.read(self._question, self._reply)
            except LimitedError as refused:
                if refused.limit != limiter_pb2.LIMIT_FREE_IN_FLIGHT or loop.time() + _LOOK_EVERY_S > gives_up:
                    raise
            await asyncio.sleep(_LOOK_EVERY_S)
            self._reply = self._limiter.send(self._question, self._trace)


class Limiter:
    """Asks the limiter and tells it ends."""

    def __init__(self, checks: CheckClient, settings: EdgeSettings, telemetry: Telemetry) -> None:
        self._checks = checks
        self._timeout_s = settings.limiter_timeout_s
        self._absent = AbsentLimiter(settings, telemetry)
        self._refusals = Refusals(settings.remember_refusals_s)
        self._refused_here = telemetry.metrics.counter(REFUSED_HERE)

    def ask(self, question: limiter_pb2.AdmitRequest, trace: str = "") -> Asking:
        """Ask without waiting; raise LimitedError when the same was refused a moment ago."""
        self.check(question)
        return Asking(self, question, self.send(question, trace), trace)

    def check(self, question: limiter_pb2.AdmitRequest) -> None:
        """Raise LimitedError when the same was refused a moment ago."""
        refused = self._refusals.still(question)
        if refused is not None:
            self._refused_here.inc()
            raise LimitedError(refused)

    def send(self, question: limiter_pb2.AdmitRequest, trace: str) -> "asyncio.Future[Any]":
        """The question on its way."""
        return self._checks.begin("admit", question, self._timeout_s, trace)

    async def read(self, question: limiter_pb2.AdmitRequest, reply: "asyncio.Future[Any]") -> limiter_pb2.Allowed:
        """What the limiter, or in its absence this edge, allows; raise LimitedError."""
        try:
            answer: limiter_pb2.AdmitResponse = (await reply).admit
        except CheckFailedError:
            answer = self._absent.answer(question)
        if answer.HasField("refused"):
            self._refusals.keep(question, answer.refused)
            raise LimitedError(answer.refused)
        return answer.allowed

    def end(self, report: limiter_pb2.DoneRequest, trace: str) -> None:
        """Tell that a request has ended. Nobody waits for the answer: a report that is lost ends with its lease."""
        future = self._checks.begin("done", report, _END_S, trace, lazy=True)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
