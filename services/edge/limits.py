"""What the limiter is asked about a chat request, and what it is told at its end.

Called by admission, the free route, repeats of requests and the end of a request (contract: Rate limits).
"""

from kenari.limiter.v1 import limiter_pb2

from libs.llm.reasoning import FREE_SUFFIX
from services.edge.admitted import Asked
from services.edge.catalog import Catalog
from services.edge.limiter import Asking, Limiter


class ChatLimits:
    """Asks for one model of a request; the limits a free model carries itself travel with the question."""

    def __init__(self, limiter: Limiter, catalog: Catalog) -> None:
        self._limiter = limiter
        self._catalog = catalog

    def ask(self, asked: Asked, model_id: str) -> Asking:
        """Begin to ask; raise LimitedError when the same was refused a moment ago."""
        return self._limiter.ask(self._question(asked, model_id), asked.trace)

    def check(self, asked: Asked) -> None:
        """Raise LimitedError when the same was refused a moment ago; nobody is asked."""
        self._limiter.check(self._question(asked, asked.request.model))

    async def count_repeat(self, asked: Asked) -> None:
        """Let a request that is not run count as a request, and as no tokens; raise LimitedError."""
        model_id = asked.request.model
        await self.ask(asked, model_id).answer()
        self.done(asked, model_id, success=False)

    def _question(self, asked: Asked, model_id: str) -> limiter_pb2.AdmitRequest:
        caller = asked.caller
        free = model_id.endswith(FREE_SUFFIX)
        question = limiter_pb2.AdmitRequest(
            request_id=asked.request_id,
            account_id=caller.account_id,
            subject=limiter_pb2.SUBJECT_FREE_CHAT if free else limiter_pb2.SUBJECT_PAID_CHAT,
            model=model_id,
            key_shared=caller.shared,
            tokens=asked.request.input_tokens,
        )
        if caller.tokens_per_minute:
            question.key_id, question.key_tpm = caller.key_id, caller.tokens_per_minute
        if free and (model := self._catalog.get(model_id)) is not None:
            if model.free_rpm is not None:
                question.model_free_rpm = model.free_rpm
            if model.free_daily is not None:
                question.model_free_daily = model.free_daily
            if model.free_token_budget is not None:
                question.model_token_budget = model.free_token_budget
        return question

    def done(self, asked: Asked, model_id: str, *, success: bool, tokens: int = 0) -> None:
        """A request has ended after so many tokens; only a success uses up the daily quota of free models.

        Nothing is told of a request whose end counts nowhere.
        """
        caller = asked.caller
        free = model_id.endswith(FREE_SUFFIX)
        if not free and not caller.tokens_per_minute:
            return
        report = limiter_pb2.DoneRequest(
            request_id=asked.request_id,
            account_id=caller.account_id,
            model=model_id,
            success=success,
            subject=limiter_pb2.SUBJECT_FREE_CHAT if free else limiter_pb2.SUBJECT_PAID_CHAT,
            tokens=tokens,
        )
        if caller.tokens_per_minute:
            report.key_id = caller.key_id
        if free and (model := self._catalog.get(model_id)) is not None:
            if model.free_daily is not None:
                report.model_free_daily = model.free_daily
            report.model_tokens = model.free_token_budget is not None
        self._limiter.end(report, asked.trace)

    def unused(self, asked: Asked, model_id: str) -> None:
        """A model that was tried has not answered, and another does: its tokens go back, the place stays taken."""
        model = self._catalog.get(model_id)
        if model is None or model.free_token_budget is None:
            return
        report = limiter_pb2.DoneRequest(
            request_id=asked.request_id,
            account_id=asked.caller.account_id,
            model=model_id,
            subject=limiter_pb2.SUBJECT_PAID_CHAT,
            model_tokens=True,
        )
        self._limiter.end(report, asked.trace)
