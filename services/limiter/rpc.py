"""The limiter on the wire: check streams and unary calls, both through the same use case.

Called by the edge. Refusals are answers; only a malformed question is an error.
"""

from contextlib import ExitStack
from typing import Any

from kenari.limiter.v1 import limiter_pb2, limiter_pb2_grpc

from libs.core.errors import Permanent
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import Ask, CheckServer
from services.limiter.domain import PAID_ADMITTED, Admit, Allowed, Answer, Done, Subject
from services.limiter.service import Limiter

NAME = "kenari.limiter.v1.Limiter"

_SUBJECTS = {
    limiter_pb2.SUBJECT_PAID_CHAT: Subject.PAID_CHAT,
    limiter_pb2.SUBJECT_FREE_CHAT: Subject.FREE_CHAT,
    limiter_pb2.SUBJECT_USAGE_READ: Subject.USAGE_READ,
}
_PAID_ADMITTED = limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed())
_DONE = limiter_pb2.DoneResponse()


class InvalidQuestionError(Permanent):
    """A question without what it must have."""


class LimiterRpc(limiter_pb2_grpc.LimiterServicer):
    """Servicer of ``kenari.limiter.v1.Limiter``."""

    def __init__(self, limiter: Limiter, telemetry: Telemetry) -> None:
        self._limiter = limiter
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
    if subject is not Subject.FREE_CHAT:
        return Admit(request.request_id, request.account_id, subject)
    if not request.request_id:
        raise InvalidQuestionError("a free admission needs a request id")
    return Admit(
        request.request_id,
        request.account_id,
        subject,
        request.model,
        request.model_free_rpm if request.HasField("model_free_rpm") else None,
        request.model_free_daily if request.HasField("model_free_daily") else None,
    )


def _done(request: limiter_pb2.DoneRequest) -> Done:
    if not request.request_id or not request.account_id:
        raise InvalidQuestionError("the end of a request needs its id and account")
    daily = request.model_free_daily if request.HasField("model_free_daily") else None
    return Done(request.request_id, request.account_id, request.model, request.success, daily)


def _response(answer: Answer) -> limiter_pb2.AdmitResponse:
    if answer is PAID_ADMITTED:
        return _PAID_ADMITTED
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
        refused=limiter_pb2.Refused(code=answer.code.value, retry_after_s=answer.retry_after_s)
    )
