"""The limiter on the wire: check streams and unary calls, both through the same use case.

Called by the edge. Refusals are answers; only a malformed question is an error.
"""

from contextlib import ExitStack
from typing import Any

from kenari.limiter.v1 import limiter_pb2, limiter_pb2_grpc

from libs.core.errors import Permanent
from libs.core.money import PER_RUPIAH
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import Ask, CheckServer
from services.limiter.domain import (
    ADMITTED,
    Admit,
    Allowed,
    Answer,
    Done,
    FreeRules,
    Limit,
    Subject,
    Tier,
    starting_tier,
)
from services.limiter.service import Limiter

NAME = "kenari.limiter.v1.Limiter"

_SUBJECTS = {
    limiter_pb2.SUBJECT_PAID_CHAT: Subject.PAID_CHAT,
    limiter_pb2.SUBJECT_FREE_CHAT: Subject.FREE_CHAT,
    limiter_pb2.SUBJECT_USAGE_READ: Subject.USAGE_READ,
    limiter_pb2.SUBJECT_KEY_REQUEST: Subject.KEY_REQUEST,
    limiter_pb2.SUBJECT_MUSIC: Subject.MUSIC,
    limiter_pb2.SUBJECT_PASSTHROUGH: Subject.PASSTHROUGH,
}
_WITH_LEASE = (Subject.FREE_CHAT, Subject.MUSIC, Subject.PASSTHROUGH)
_LIMITS = {limit: limiter_pb2.Limit.Value(f"LIMIT_{limit.name}") for limit in Limit}
_ADMITTED = limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed())
_DONE = limiter_pb2.DoneResponse()


class InvalidQuestionError(Permanent):
    """A question without what it must have."""


class LimiterRpc(limiter_pb2_grpc.LimiterServicer):
    """Servicer of ``kenari.limiter.v1.Limiter``."""

    def __init__(self, limiter: Limiter, rules: FreeRules, telemetry: Telemetry) -> None:
        self._limiter = limiter
        self._rules = rules
        self._tracing = telemetry.tracing
        self._checks = CheckServer(limiter_pb2.CheckReplies, limiter_pb2.CheckReply, self._handle, telemetry)

    async def CheckStream(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await self._checks.serve(request_iterator, context)

    async def Admit(self, request: limiter_pb2.AdmitRequest, context: Any) -> limiter_pb2.AdmitResponse:
        (answer,) = await self._limiter.answer([_admit(request)])
        assert answer is not None
        return _response(answer)

    async def Done(self, request: limiter_pb2.DoneRequest, context: Any) -> limiter_pb2.DoneResponse:
        await self._limiter.answer([_done(request)])
        return _DONE

    async def GetFreeTiers(
        self, request: limiter_pb2.GetFreeTiersRequest, context: Any
    ) -> limiter_pb2.GetFreeTiersResponse:
        rules = self._rules
        later = rules.threshold > 0
        return limiter_pb2.GetFreeTiersResponse(
            new_account=_tier(starting_tier(rules)),
            qualified=_tier(rules.qualified) if later else None,
            with_plan=_tier(rules.plan),
            threshold_idr=rules.threshold // PER_RUPIAH,
        )

    async def _handle(self, asks: list[Ask]) -> None:
        questions = []
        asked = []
        with ExitStack() as spans:
            for ask in asks:
                try:
                    question = _admit(ask.question) if ask.kind == "admit" else _done(ask.question)
                except InvalidQuestionError as error:
                    ask.fail(error.reason)
                    continue
                # Nobody would go on with the request, but the end of one counts whenever it is told.
                if isinstance(question, Admit) and ask.expired():
                    ask.fail("deadline")
                    continue
                if ask.traceparent:
                    spans.enter_context(
                        self._tracing.span(f"limiter.{ask.kind}", parent=ask.traceparent, kind="server")
                    )
                questions.append(question)
                asked.append(ask)
            if not questions:
                return
            for ask, answer in zip(asked, await self._limiter.answer(questions), strict=True):
                ask.answer(_DONE if answer is None else _response(answer))


def _admit(request: limiter_pb2.AdmitRequest) -> Admit:
    subject = _SUBJECTS.get(request.subject)
    if subject is None or not request.account_id:
        raise InvalidQuestionError("an admission needs an account and a subject")
    if not request.request_id and (subject in _WITH_LEASE or request.key_tpm):
        raise InvalidQuestionError("an admission whose end is told needs a request id")
    if not request.key_id and (subject is Subject.KEY_REQUEST or request.key_tpm):
        raise InvalidQuestionError("limits of a key need its id")
    return Admit(
        request.request_id,
        request.account_id,
        subject,
        request.model,
        request.model_free_rpm if request.HasField("model_free_rpm") else None,
        request.model_free_daily if request.HasField("model_free_daily") else None,
        request.key_id,
        request.key_shared,
        request.key_rpm,
        request.key_tpm,
        request.address,
        request.tokens,
        request.model_token_budget if request.HasField("model_token_budget") else None,
    )


def _done(request: limiter_pb2.DoneRequest) -> Done:
    if not request.request_id or not request.account_id:
        raise InvalidQuestionError("the end of a request needs its id and account")
    return Done(
        request.request_id,
        request.account_id,
        request.model,
        request.success,
        request.model_free_daily if request.HasField("model_free_daily") else None,
        # Edges that know of nothing else tell the ends of free requests.
        _SUBJECTS.get(request.subject, Subject.FREE_CHAT),
        request.key_id,
        request.model_tokens,
        request.tokens,
    )


def _response(answer: Answer) -> limiter_pb2.AdmitResponse:
    if answer is ADMITTED:
        return _ADMITTED
    if isinstance(answer, Allowed):
        return limiter_pb2.AdmitResponse(
            allowed=limiter_pb2.Allowed(
                limit=answer.limit,
                remaining=answer.remaining,
                reset_unix_s=answer.reset_unix_s,
                wait_ms=answer.wait_ms,
                leased=answer.leased,
                degraded=answer.degraded,
            )
        )
    return limiter_pb2.AdmitResponse(
        refused=limiter_pb2.Refused(
            code=answer.code.value,
            retry_after_s=answer.retry_after_s,
            limit=_LIMITS[answer.limit],
            again_ms=answer.again_ms,
        )
    )


def _tier(tier: Tier) -> limiter_pb2.FreeTier:
    return limiter_pb2.FreeTier(rpm=tier.rpm, daily=tier.daily)
