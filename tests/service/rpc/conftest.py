"""Servers and clients on free ports, with servicers that do what a test tells them.
Used by the tests of this folder.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kenari.limiter.v1 import limiter_pb2, limiter_pb2_grpc

from libs.core.settings import RpcSettings, TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import Ask, CheckClient, CheckFailedError, CheckServer
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer

NAME = "kenari.limiter.v1.Limiter"
Unary = Callable[[limiter_pb2.AdmitRequest, Any], Awaitable[limiter_pb2.AdmitResponse]]
Handle = Callable[[list[Ask]], Awaitable[None]]


async def allow(request: limiter_pb2.AdmitRequest, context: Any) -> limiter_pb2.AdmitResponse:
    return allowed(int(request.request_id or 0))


def allowed(remaining: int) -> limiter_pb2.AdmitResponse:
    return limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed(remaining=remaining))


async def answer_all(asks: list[Ask]) -> None:
    """Answer each question with the number it carries."""
    for ask in asks:
        ask.answer(allowed(int(ask.question.request_id)))


class Noting:
    """Answers every question, noting the messages they came in."""

    def __init__(self) -> None:
        self.messages: list[list[int]] = []

    async def __call__(self, asks: list[Ask]) -> None:
        self.messages.append([int(ask.question.request_id) for ask in asks])
        await answer_all(asks)


class Servicer(limiter_pb2_grpc.LimiterServicer):
    """Admit runs ``unary``; the check stream runs ``handle`` once per message."""

    def __init__(self, telemetry: Telemetry, unary: Unary, handle: Handle, **options: Any) -> None:
        self.unary = unary
        self._checks = CheckServer(limiter_pb2.CheckReplies, limiter_pb2.CheckReply, handle, telemetry, **options)

    async def Admit(self, request: limiter_pb2.AdmitRequest, context: Any) -> limiter_pb2.AdmitResponse:
        return await self.unary(request, context)

    async def Done(self, request: limiter_pb2.DoneRequest, context: Any) -> limiter_pb2.DoneResponse:
        return limiter_pb2.DoneResponse()

    async def GetFreeTiers(
        self, request: limiter_pb2.GetFreeTiersRequest, context: Any
    ) -> limiter_pb2.GetFreeTiersResponse:
        return limiter_pb2.GetFreeTiersResponse()

    async def CheckStream(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await self._checks.serve(request_iterator, context)


def telemetry(service: str = "test") -> Telemetry:
    return Telemetry(service, TelemetrySettings())


class Peer:
    """A running server with a client of each kind."""

    def __init__(self, server: RpcServer, rpc: RpcClient, checks: CheckClient) -> None:
        self.server = server
        self.rpc = rpc
        self.checks = checks
        self.stub = limiter_pb2_grpc.LimiterStub(rpc.channel)

    async def admit(self, number: int = 0, **options: Any) -> limiter_pb2.AdmitResponse:
        request = limiter_pb2.AdmitRequest(request_id=str(number))
        return await self.rpc.call("limiter.Admit", self.stub.Admit, request, **options)

    async def ask(self, number: int, timeout_s: float = 5.0) -> int:
        """Ask on the check stream; return the number that came back."""
        answer = await self.checks.ask("admit", question(number), timeout_s)
        return int(answer.allowed.remaining)


def question(number: int) -> limiter_pb2.AdmitRequest:
    return limiter_pb2.AdmitRequest(request_id=str(number), account_id="acct_1")


def check_client(rpc: RpcClient, reporting: Telemetry | None = None) -> CheckClient:
    stub = limiter_pb2_grpc.LimiterStub(rpc.channel)
    made = reporting or telemetry()
    return CheckClient("limiter", stub.CheckStream, limiter_pb2.CheckBatch, limiter_pb2.CheckItem, made)


async def wait_until(true: Callable[[], bool], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.01)


async def reason_of(asking: "asyncio.Future[Any] | asyncio.Task[int]") -> str:
    with pytest.raises(CheckFailedError) as failed:
        await asking
    return failed.value.reason


@asynccontextmanager
async def peer(
    unary: Unary = allow,
    handle: Handle = answer_all,
    *,
    asking: Telemetry | None = None,
    answering: Telemetry | None = None,
    deadline_s: float = 5.0,
    **options: Any,
) -> AsyncIterator[Peer]:
    """A server and connected clients of it."""
    answering, asking = answering or telemetry("server"), asking or telemetry("client")
    server = RpcServer(RpcSettings(port=0), answering)
    server.register(limiter_pb2_grpc.add_LimiterServicer_to_server, Servicer(answering, unary, handle, **options), NAME)
    await server.start()
    rpc = RpcClient(f"127.0.0.1:{server.port}", asking, deadline_s=deadline_s)
    checks = check_client(rpc, asking)
    await checks.start()
    await wait_until(lambda: checks.problem() is None)
    try:
        yield Peer(server, rpc, checks)
    finally:
        await checks.stop()
        await rpc.stop()
        await server.stop()


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the loop would have complained about: exceptions never retrieved, tasks destroyed while pending."""
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", lambda loop, context: heard.append(context))
    return heard
