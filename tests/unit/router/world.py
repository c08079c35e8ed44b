"""A router's memory around which no store, broker or wire is: catalogue, health book and routes, under a set clock.
Used by the tests of this folder.
"""

from pathlib import Path
from typing import Any

from kenari.router.v1 import router_pb2

from libs.core.settings import TelemetrySettings
from libs.events.router import UpstreamHealth
from libs.ops.telemetry import Telemetry
from services.router.catalog.cards import assemble
from services.router.catalog.load import load
from services.router.domain import HealthRules, Try, Verdict
from services.router.health import HealthBook
from services.router.service import Routing

T0 = 1_800_000_000_000


class SetClock:
    def __init__(self) -> None:
        self.ms = T0

    def now_ms(self) -> int:
        return self.ms


class World:
    """A router's memory with a clock that tests set."""

    def __init__(self, folder: Path, keys: dict[str, str], catalog: str) -> None:
        (folder / "catalog.yaml").write_text(catalog)
        self.clock = SetClock()
        self.telemetry = Telemetry("router", TelemetrySettings())
        self.book = HealthBook(HealthRules(), self.clock, self.telemetry)
        self.routing = Routing(self.book, self.clock, self.telemetry)
        self.routing.offer(assemble(load(folder / "catalog.yaml", keys), {}, T0 // 1000))

    def ask(
        self, model: str = "both", endpoint: str = "chat", account: str = "acct_1", request: str = "r", **needs: Any
    ) -> router_pb2.RouteResponse:
        asked = router_pb2.RouteRequest(model=model, endpoint=endpoint, account_id=account, request_id=request, **needs)
        return self.routing.route(asked)

    def tries(self, model: str = "both") -> list[str]:
        return [attempt.upstream_id for attempt in self.ask(model).route.attempts]

    def fails(self, upstream: str, times: int = 3) -> UpstreamHealth | None:
        said = None
        for _ in range(times):
            said = (
                self.book.tried(upstream, "other", Try(Verdict.FAILED, "failed", self.clock.ms - 50, self.clock.ms))
                or said
            )
        return said

    def answers(self, upstream: str) -> UpstreamHealth | None:
        return self.book.tried(upstream, "other", Try(Verdict.ALIVE, "completed", self.clock.ms - 50, self.clock.ms))
