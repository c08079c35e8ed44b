"""Limiter, router and ledger as scripted answers, and an admission that asks them.
Used by the tests of this folder.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from kenari.router.v1 import router_pb2
from pydantic import SecretStr

from libs.core.settings import TelemetrySettings
from libs.llm.canonical import ChatRequest, Effort, ReasoningWish
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from services.edge.admission import Admission
from services.edge.admitted import Asked
from services.edge.catalog import Catalog
from services.edge.funds import Funds
from services.edge.keys import Caller
from services.edge.limiter import Limiter
from services.edge.limits import ChatLimits
from services.edge.settings import EdgeSettings
from services.edge.settlement import Settlement


class Scripted:
    """A check stream whose peer answers by ``answers``: the kind of question to a function of it."""

    def __init__(self, item_type: Any, **answers: Callable[[Any], Any]) -> None:
        self._item_type = item_type
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    def begin(
        self, kind: str, question: Any, timeout_s: float, traceparent: str = "", *, lazy: bool = False
    ) -> "asyncio.Future[Any]":
        self.asked.append((kind, question))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(self._item_type(**{kind: self.answers[kind](question)}))
        return future

    async def ask(self, kind: str, question: Any, timeout_s: float, traceparent: str = "") -> Any:
        return getattr(await self.begin(kind, question, timeout_s, traceparent), kind)

    def questions(self, kind: str) -> list[Any]:
        return [question for asked, question in self.asked if asked == kind]


class Peers:
    """The three peers, and what was released. Everything is allowed, paid requests are granted what they ask."""

    def __init__(self, catalog: Catalog, route: Callable[[Any], router_pb2.RouteResponse]) -> None:
        self.limiter = Scripted(limiter_pb2.CheckReply, admit=_allowed, done=lambda _: limiter_pb2.DoneResponse())
        self.router = Scripted(router_pb2.CheckReply, route=route)
        self.ledger = Scripted(ledger_pb2.CheckReply, reserve=_granted)
        self.released: list[tuple[str, int]] = []
        self.held: list[tuple[str, int]] = []
        settings = EdgeSettings(key_hash_secret=SecretStr("s" * 32))
        telemetry = Telemetry("edge", TelemetrySettings())
        self.admission = Admission(
            ChatLimits(Limiter(cast("CheckClient", self.limiter), settings, telemetry), catalog),
            cast("CheckClient", self.router),
            Funds(cast("CheckClient", self.ledger), cast("Settlement", self), cast("Any", {}), settings),
            cast("Settlement", self),
            settings,
        )

    def release(self, request_id: str, *_: Any, line: int = 0) -> None:
        self.released.append((request_id, line))

    def opened(self, request_id: str, line: int = 0) -> None:
        self.held.append((request_id, line))

    @property
    def places(self) -> list[str]:
        """The models that the limiter was asked for."""
        return [question.model for question in self.limiter.questions("admit")]

    @property
    def given_back(self) -> list[tuple[str, bool]]:
        """The models whose end the limiter was told, and whether it was a success."""
        return [(report.model, report.success) for report in self.limiter.questions("done")]


def _allowed(question: Any) -> limiter_pb2.AdmitResponse:
    leased = question.subject == limiter_pb2.SUBJECT_FREE_CHAT
    return limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed(limit=20, remaining=19, leased=leased))


def _granted(question: Any) -> ledger_pb2.ReserveResponse:
    granted = ledger_pb2.Granted(billing_kind="payg", max_tokens=question.max_tokens)
    return ledger_pb2.ReserveResponse(granted=granted)


def caller(*models: str, shared: bool = False, capped: bool = False) -> Caller:
    """A key with that scope."""
    caps = ledger_pb2.KeyCaps(spend_micro_idr=1) if capped else None
    return Caller("key_1", "acct_1", frozenset(models), "shared" if shared else "dashboard", caps)


def asked(model: str, who: Caller | None = None, *, level: Effort | None = None, input_tokens: int = 10) -> Asked:
    """A request for that model."""
    request = ChatRequest(
        dialect="openai_chat",
        model=model,
        messages=[],
        input_tokens=input_tokens,
        fields={},
        reasoning=ReasoningWish(effort=level),
    )
    return Asked("r1", who or caller(), request, level, "chat", "", "")


def routed(*models: router_pb2.Model) -> router_pb2.RouteResponse:
    """A route over these models, each at one provider of its own."""
    first, *others = [
        router_pb2.Route(model=model, attempts=[router_pb2.Attempt(upstream_id=f"of-{model.id}")]) for model in models
    ]
    first.others.extend(others)
    return router_pb2.RouteResponse(route=first)
