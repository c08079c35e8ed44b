"""How a gRPC server ends: calls in flight are finished, streams are ended, nobody waits for the whole grace.
Run by pytest; servers and clients in this process.
"""

import asyncio
import time
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.limiter.v1 import limiter_pb2

from libs.core.errors import Transient
from libs.core.settings import RpcSettings
from libs.rpc.checks import Ask, CheckFailedError, CheckServer
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer
from tests.service.rpc.conftest import NAME, allowed, answer_all, peer, question, telemetry, wait_until

QUICKLY_S = 1.5


async def stopped_within(server: RpcServer, limit_s: float) -> None:
    started = time.monotonic()
    await server.stop()
    assert time.monotonic() - started < limit_s < server.grace_s


async def test_a_call_in_flight_is_finished() -> None:
    entered = asyncio.Event()

    async def slow(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        entered.set()
        await asyncio.sleep(0.3)
        return allowed(7)

    async with peer(slow) as there:
        calling = asyncio.create_task(there.admit())
        await entered.wait()
        await there.server.stop()
        assert (await calling).allowed.remaining == 7


async def test_a_call_longer_than_the_grace_is_ended() -> None:
    entered = asyncio.Event()

    async def endless(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        entered.set()
        await asyncio.sleep(60)
        return allowed(7)

    async with peer(endless) as there:
        there.server.grace_s = 0.2
        calling = asyncio.create_task(there.admit())
        await entered.wait()
        await asyncio.wait_for(there.server.stop(), QUICKLY_S)
        with pytest.raises(Transient):
            await calling


async def test_new_calls_are_refused_while_it_stops() -> None:
    entered, finish = asyncio.Event(), asyncio.Event()

    async def slow(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        entered.set()
        await finish.wait()
        return allowed(7)

    async with peer(slow) as there:
        calling = asyncio.create_task(there.admit())
        await entered.wait()
        stopping = asyncio.create_task(there.server.stop())
        await asyncio.sleep(0.1)
        with pytest.raises(Transient) as failed:
            await there.admit(deadline_s=1.0)
        assert failed.value.reason == "unavailable"
        finish.set()
        await calling
        await stopping


async def test_health_says_not_serving_while_it_stops() -> None:
    async with peer() as there:
        stub = health_pb2_grpc.HealthStub(there.rpc.channel)
        for name in ("", NAME):
            status = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert status.status == health_pb2.HealthCheckResponse.SERVING
        seen = []
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=NAME))
        seen.append((await watch.read()).status)
        stopping = asyncio.create_task(stopped_within(there.server, QUICKLY_S))
        seen.append((await watch.read()).status)
        await stopping
        assert seen == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]


async def test_an_open_check_stream_does_not_hold_up_the_stop() -> None:
    async with peer() as there:
        assert await there.ask(3) == 3
        await stopped_within(there.server, QUICKLY_S)
        await wait_until(lambda: there.checks.problem() is not None, 1.0)


async def test_questions_being_answered_are_answered_before_the_end() -> None:
    entered = asyncio.Event()

    async def slow(asks: list[Ask]) -> None:
        entered.set()
        await asyncio.sleep(0.3)
        await answer_all(asks)

    async with peer(handle=slow) as there:
        asking = [asyncio.create_task(there.ask(number)) for number in range(5)]
        await entered.wait()
        await stopped_within(there.server, QUICKLY_S)
        assert await asyncio.gather(*asking) == list(range(5))


async def test_a_question_that_is_never_answered_does_not_hold_up_the_stop_for_the_whole_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("libs.rpc.checks.server.DRAIN_S", 0.2)
    entered = asyncio.Event()

    async def endless(asks: list[Ask]) -> None:
        entered.set()
        await asyncio.sleep(60)

    async with peer(handle=endless) as there:
        asking = asyncio.create_task(there.ask(1))
        await entered.wait()
        await stopped_within(there.server, QUICKLY_S)
        with pytest.raises(CheckFailedError) as failed:
            await asking
        assert failed.value.reason == "unavailable"


class VanishedAsker:
    """The context of a stream whose asker sent one message and is gone."""

    def __init__(self) -> None:
        self._batches = [limiter_pb2.CheckBatch(items=[limiter_pb2.CheckItem(id=1, timeout_ms=50, admit=question(1))])]

    async def read(self) -> Any:
        return self._batches.pop() if self._batches else grpc.aio.EOF

    async def write(self, message: Any) -> None:
        pass


async def test_what_is_being_handled_is_finished_although_its_stream_ends_and_is_cancelled() -> None:
    entered, finished = asyncio.Event(), asyncio.Event()

    async def slow(asks: list[Ask]) -> None:
        entered.set()
        await asyncio.sleep(0.3)
        finished.set()

    checks = CheckServer(limiter_pb2.CheckReplies, limiter_pb2.CheckReply, slow, telemetry())
    serving = asyncio.create_task(checks.serve(None, VanishedAsker()))  # type: ignore[arg-type]
    await entered.wait()
    # By now the end of the messages is seen, and the stream waits for what is being handled.
    await asyncio.sleep(0.02)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not finished.is_set()
    await asyncio.wait_for(finished.wait(), 1.0)


class Watch(accounts_pb2_grpc.AccountsServicer):
    """Yields one key, then fails or stays silent."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = asyncio.Event()
        self._error = error

    async def WatchKeys(self, request: Any, context: Any) -> Any:
        try:
            yield accounts_pb2.WatchKeysResponse(key=accounts_pb2.Key(key_id="key_1"))
            if self._error is not None:
                raise self._error
            await asyncio.sleep(60)
        finally:
            self.closed.set()


async def watched(servicer: Watch) -> tuple[RpcServer, RpcClient, Any]:
    server = RpcServer(RpcSettings(port=0), telemetry())
    server.register(accounts_pb2_grpc.add_AccountsServicer_to_server, servicer, "kenari.accounts.v1.Accounts")
    await server.start()
    rpc = RpcClient(f"127.0.0.1:{server.port}", telemetry(), deadline_s=1)
    call = accounts_pb2_grpc.AccountsStub(rpc.channel).WatchKeys(accounts_pb2.WatchKeysRequest())
    assert (await call.read()).key.key_id == "key_1"
    return server, rpc, call


async def test_an_open_server_stream_does_not_hold_up_the_stop() -> None:
    servicer = Watch()  # type: ignore[abstract]
    server, rpc, call = await watched(servicer)
    await stopped_within(server, QUICKLY_S)
    assert servicer.closed.is_set()
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call.read()
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    await rpc.stop()


async def test_a_watcher_that_leaves_ends_its_stream() -> None:
    servicer = Watch()  # type: ignore[abstract]
    server, rpc, call = await watched(servicer)
    call.cancel()
    await asyncio.wait_for(servicer.closed.wait(), 2)
    await rpc.stop()
    await server.stop()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Transient("too slow", reason="watch_ended"), grpc.StatusCode.UNAVAILABLE, "too slow"),
        (ZeroDivisionError("kn-secret"), grpc.StatusCode.INTERNAL, "internal error"),
    ],
)
async def test_errors_of_a_stream_arrive_like_those_of_a_call(
    error: Exception, code: grpc.StatusCode, text: str
) -> None:
    server, rpc, call = await watched(Watch(error))  # type: ignore[abstract]
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call.read()
    assert (failed.value.code(), failed.value.details()) == (code, text)
    await rpc.stop()
    await server.stop()
