"""A whole router on real stores, and what a test needs around it: questions, attempts, the topics' content.

Used by the tests of this folder.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import grpc
from kenari.router.v1 import router_pb2, router_pb2_grpc
from pydantic import SecretStr

from libs.core.ids import uuid7_hex
from libs.core.settings import DatabaseSettings, KafkaSettings, OpsSettings, RpcSettings, TelemetrySettings
from libs.events.base import encode, envelope
from libs.events.edge import AttemptFinished
from libs.events.router import ModelPublished, UpstreamHealth
from libs.events.topics import EDGE_ATTEMPTS, ROUTER_CATALOG, ROUTER_HEALTH
from libs.kafka.bus import Bus
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from libs.rpc.server import RpcServer
from libs.service.service import Service
from services.router.app import build
from services.router.settings import HealthSettings, RouterSettings

QUICK = HealthSettings(first_pause_ms=1_000, longest_pause_ms=2_000)


async def until(condition: Callable[[], Any], timeout_s: float = 15.0) -> Any:
    """Wait until ``condition`` gives something true, and return it."""
    async with asyncio.timeout(timeout_s):
        while not (found := condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


class Watcher:
    """Another service's view: reads both tables, and sends attempts as an edge does."""

    def __init__(self, bootstrap: str, spool: Path) -> None:
        telemetry = Telemetry("edge", TelemetrySettings())
        self.bus = Bus(KafkaSettings(bootstrap=bootstrap, spool_dir=spool), "edge", telemetry)
        self.catalog = self.bus.table(ROUTER_CATALOG, ModelPublished, lambda card: card.id)
        self.health = self.bus.table(ROUTER_HEALTH, UpstreamHealth, lambda said: said.upstream_id)
        self.seen: list[tuple[str, int | None]] = []
        self.catalog.on_change(lambda key, card: self.seen.append((key, card.version if card else None)))
        self._producer = self.bus.producer

    async def __aenter__(self) -> Self:
        await self.bus.start()
        await until(lambda: self.bus.problem() is None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.bus.stop()

    def tried(self, upstream_id: str, outcome: str, *, ago_ms: int = 0, **fields: Any) -> None:
        attempt = AttemptFinished(
            request_id=uuid7_hex(),
            upstream_id=upstream_id,
            outcome=outcome,
            **{"model": "m", "attempt": 1, "duration_ms": 0, **fields},
        )
        now_ms = time.time_ns() // 1_000_000 - ago_ms
        body = encode(envelope(attempt, source="edge", subject=upstream_id, now_ms=now_ms))
        self._producer.send(EDGE_ATTEMPTS, upstream_id, body)


class Router:
    """One router process: starts on ``catalog`` text, answers questions over gRPC."""

    def __init__(self, folder: Path, dsn: str, bootstrap: str, catalog: str, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "catalog.yaml").write_text(catalog)
        self.settings = RouterSettings(
            kafka=KafkaSettings(bootstrap=bootstrap, spool_dir=folder / "spool"),
            rpc=RpcSettings(port=0),
            ops=OpsSettings(port=0),
            database=DatabaseSettings(dsn=SecretStr(dsn)),
            catalog_file=folder / "catalog.yaml",
            **{"health": QUICK, **settings},
        )
        self.service: Service
        self.stub: router_pb2_grpc.RouterStub
        self.routes: router_pb2_grpc.RoutesStub
        self.checks: CheckClient

    async def __aenter__(self) -> Self:
        self.service = build(self.settings)
        await self.service.start()
        await until(lambda: not self.service.problems(), 30)
        server = next(part for part in self.service._parts if isinstance(part, RpcServer))
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        self.stub = router_pb2_grpc.RouterStub(self._channel)
        self.routes = router_pb2_grpc.RoutesStub(self._channel)
        self.checks = CheckClient(
            "router",
            self.stub.CheckStream,
            router_pb2.CheckBatch,
            router_pb2.CheckItem,
            Telemetry("edge", TelemetrySettings()),
        )
        await self.checks.start()
        await until(lambda: self.checks.problem() is None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.checks.stop()
        await self._channel.close()
        await self.service.stop()

    async def ask(self, model: str, account_id: str = "acct_1") -> router_pb2.RouteResponse:
        question = router_pb2.RouteRequest(
            request_id=uuid7_hex(), account_id=account_id, key_id="key_1", model=model, endpoint="chat"
        )
        answer: router_pb2.RouteResponse = await self.checks.ask("route", question, 2.0)
        return answer

    async def tries(self, model: str) -> list[str]:
        return [attempt.upstream_id for attempt in (await self.ask(model)).route.attempts]

    async def eventually(self, model: str, expected: list[str], timeout_s: float = 10.0) -> None:
        """Wait until ``model`` is tried at exactly these upstreams."""
        async with asyncio.timeout(timeout_s):
            while await self.tries(model) != expected:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def price(self, version: str) -> router_pb2.GetPriceResponse:
        request = router_pb2.GetPriceRequest(version=version)
        answer: router_pb2.GetPriceResponse = await self.stub.GetPrice(request, timeout=2.0)
        return answer


def unique(name: str) -> str:
    """A name no other test uses: the topics are shared by all tests of the session."""
    return f"{name}-{secrets.token_hex(4)}"
