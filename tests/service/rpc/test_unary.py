"""Unary calls between services: deadlines, errors, retries, traces, limits.
Run by pytest; servers and clients in this process.
"""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from kenari.limiter.v1 import limiter_pb2

from libs.core.errors import ConfigError, KenariError, Permanent, Transient
from libs.core.settings import RpcSettings, TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc import deadlines
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer
from tests.service.rpc.conftest import Peer, allow, allowed, peer, telemetry
from tests.unit.ops.test_tracing import SPAN, TRACE, rows


class Counted:
    """Fails as told, then answers; counts its calls."""

    def __init__(self, *errors: Exception) -> None:
        self.calls = 0
        self._errors = list(errors)

    async def __call__(self, request: limiter_pb2.AdmitRequest, context: Any) -> limiter_pb2.AdmitResponse:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return allowed(1)


async def test_a_call_without_a_deadline_is_refused() -> None:
    unary = Counted()
    async with peer(unary) as there:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await there.stub.Admit(limiter_pb2.AdmitRequest())
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failed.value.details() == "a call needs a deadline"
    assert unary.calls == 0


@pytest.mark.parametrize(
    ("error", "kind", "reason", "code"),
    [
        (Permanent("no such key", reason="not_found"), Permanent, "not_found", "NOT_FOUND"),
        (Permanent("known", reason="already_exists"), Permanent, "already_exists", "ALREADY_EXISTS"),
        (Permanent("suspended", reason="failed_precondition"), Permanent, "failed_precondition", "FAILED_PRECONDITION"),
        (Permanent("odd", reason="no_label"), Permanent, "no_label", "INVALID_ARGUMENT"),
        (Transient("later", reason="database_away"), Transient, "database_away", "UNAVAILABLE"),
        (Transient("too late", reason="deadline"), Transient, "deadline", "DEADLINE_EXCEEDED"),
        (Transient("busy", reason="overloaded"), Transient, "overloaded", "RESOURCE_EXHAUSTED"),
    ],
)
async def test_our_errors_arrive_as_themselves(
    error: KenariError, kind: type[KenariError], reason: str, code: str
) -> None:
    async with peer(Counted(error)) as there:
        with pytest.raises(kind) as failed:
            await there.admit()
    assert (type(failed.value), failed.value.reason, str(failed.value)) == (kind, reason, str(error))
    cause = failed.value.__cause__
    assert isinstance(cause, grpc.aio.AioRpcError)
    assert cause.code().name == code


@pytest.mark.parametrize("error", [ZeroDivisionError("kn-secret"), ConfigError("kn-secret"), KenariError("kn-secret")])
async def test_an_unexpected_error_tells_the_caller_nothing(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async with peer(Counted(error)) as there:
        with pytest.raises(Permanent) as failed:
            await there.admit()
    assert (failed.value.reason, str(failed.value)) == ("internal", "internal error")
    assert "kn-secret" not in repr(failed.value.__cause__)
    assert "call failed" in caplog.text


async def test_a_very_long_text_still_arrives_as_our_error() -> None:
    async with peer(Counted(Permanent("é" * 100_000, reason="not_found"))) as there:
        with pytest.raises(Permanent) as failed:
            await there.admit()
    assert failed.value.reason == "not_found"


async def test_a_call_that_takes_too_long_fails_at_its_deadline() -> None:
    cancelled = asyncio.Event()

    async def slow(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return allowed(1)

    async with peer(slow) as there:
        started = time.monotonic()
        with pytest.raises(Transient) as failed:
            await there.admit(deadline_s=0.2)
        assert failed.value.reason == "deadline"
        assert 0.15 < time.monotonic() - started < 1
        await asyncio.wait_for(cancelled.wait(), 2)


async def test_a_deadline_shrinks_on_its_way() -> None:
    seen: list[float] = []

    async def last(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        seen.append(context.time_remaining())
        return allowed(1)

    async with peer(last) as behind:

        async def first(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
            seen.append(context.time_remaining())
            await asyncio.sleep(0.1)
            return await behind.admit(deadline_s=5.0)

        async with peer(first) as there:
            await there.admit(deadline_s=0.48)
    arrived, onward = seen
    assert 0.3 < arrived <= 0.48
    assert onward <= arrived - 0.1


async def test_no_onward_call_is_made_when_the_time_is_up() -> None:
    behind_calls = Counted()

    async with peer(behind_calls) as behind:
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def first(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
            deadlines.enter(0.0)
            try:
                return await behind.admit()
            except Transient as error:
                outcome.set_result(error.reason)
                raise

        async with peer(first) as there:
            with pytest.raises(Transient):
                await there.admit()
        assert (await outcome, behind_calls.calls) == ("deadline", 0)


async def test_only_calls_that_may_be_repeated_are() -> None:
    unary = Counted(Transient("away"))
    async with peer(unary) as there:
        with pytest.raises(Transient):
            await there.admit()
    assert unary.calls == 1


@pytest.mark.parametrize("reason", ["unavailable", "database_away"])
async def test_an_unavailable_peer_is_asked_three_times(reason: str) -> None:
    unary = Counted(Transient("away", reason=reason), Transient("away", reason=reason))
    async with peer(unary) as there:
        assert (await there.admit(retry=True)).allowed.remaining == 1
    assert unary.calls == 3
    unary = Counted(*[Transient("away", reason=reason)] * 5)
    async with peer(unary) as there:
        with pytest.raises(Transient) as failed:
            await there.admit(retry=True)
    assert (unary.calls, failed.value.reason) == (3, reason)


@pytest.mark.parametrize(
    "error",
    [
        Permanent("no", reason="not_found"),
        Transient("x", reason="overloaded"),
        Transient("x", reason="deadline"),
        ValueError(),
    ],
)
async def test_nothing_but_unavailable_is_repeated(error: Exception) -> None:
    unary = Counted(error)
    async with peer(unary) as there:
        with pytest.raises(KenariError):
            await there.admit(retry=True)
    assert unary.calls == 1


async def test_retries_end_with_the_deadline() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        rpc = RpcClient(f"127.0.0.1:{nobody.getsockname()[1]}", telemetry(), deadline_s=0.3)
        there = Peer(None, rpc, None)  # type: ignore[arg-type]
        started = time.monotonic()
        with pytest.raises(Transient):
            await there.admit(retry=True)
        assert time.monotonic() - started < 1
        await rpc.stop()


@pytest.mark.parametrize("direction", ["request", "response"])
async def test_messages_above_four_mebibytes_are_refused_clearly(direction: str) -> None:
    async def big(request: limiter_pb2.AdmitRequest, context: Any) -> limiter_pb2.AdmitResponse:
        return limiter_pb2.AdmitResponse(refused=limiter_pb2.Refused(code="x" * len(request.model) * 2))

    size = 5 if direction == "request" else 3
    async with peer(big) as there:
        with pytest.raises(Permanent) as failed:
            request = limiter_pb2.AdmitRequest(model="x" * size * 1024 * 1024)
            await there.rpc.call("limiter.Admit", there.stub.Admit, request, retry=True)
        assert failed.value.reason == "too_large"
        assert "larger than max" in str(failed.value)
        request = limiter_pb2.AdmitRequest(model="x" * 1024 * 1024)
        assert len((await there.rpc.call("limiter.Admit", there.stub.Admit, request)).refused.code) == 2 * 1024 * 1024


async def test_one_trace_runs_from_caller_to_server(tmp_path: Path) -> None:
    spans = tmp_path / "spans"
    asking = Telemetry("client", TelemetrySettings(trace_file=spans))
    answering = Telemetry("server", TelemetrySettings(trace_file=spans))
    async with peer(asking=asking, answering=answering) as there:
        with asking.tracing.span("request", parent=f"00-{TRACE}-{SPAN}-01", kind="server"):
            await there.admit()
        await there.admit()
    asking.shutdown()
    answering.shutdown()
    by_name = {row["name"]: row for row in rows(spans)}
    server = by_name["kenari.limiter.v1.Limiter/Admit"]
    client = by_name["limiter.Admit"]
    assert len(rows(spans)) == 3
    assert {row["trace_id"] for row in by_name.values()} == {TRACE}
    assert by_name["request"]["parent_id"] == SPAN
    assert client["parent_id"] == by_name["request"]["span_id"]
    assert server["parent_id"] == client["span_id"]
    assert (client["kind"], server["kind"], server["service"]) == ("client", "server", "server")


async def test_calls_are_measured_at_both_ends() -> None:
    asking, answering = telemetry("client"), telemetry("server")
    async with peer(Counted(Permanent(reason="not_found")), asking=asking, answering=answering) as there:
        with pytest.raises(Permanent):
            await there.admit()
        await there.admit()
    for reported, method in ((asking, "limiter.Admit"), (answering, "/kenari.limiter.v1.Limiter/Admit")):
        text = reported.scrape().decode()
        for code in ("OK", "NOT_FOUND"):
            assert f'code="{code}",method="{method}"}} 1.0' in text


async def test_a_closed_channel_is_an_error_not_a_cancellation() -> None:
    entered = asyncio.Event()

    async def slow(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        entered.set()
        await asyncio.sleep(60)
        return allowed(1)

    async with peer(slow) as there:
        calling = asyncio.create_task(there.admit())
        await entered.wait()
        await there.rpc.stop()
        with pytest.raises(Transient) as failed:
            await calling
        assert failed.value.reason == "unavailable"


async def test_a_cancelled_caller_stays_cancelled() -> None:
    entered = asyncio.Event()

    async def slow(request: Any, context: Any) -> limiter_pb2.AdmitResponse:
        entered.set()
        await asyncio.sleep(60)
        return allowed(1)

    async with peer(slow) as there:
        calling = asyncio.create_task(there.admit())
        await entered.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


async def test_a_taken_port_is_one_clear_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = RpcServer(RpcSettings(port=port), telemetry())
        with pytest.raises(ConfigError) as failed:
            await server.start()
        assert str(failed.value) == f"cannot listen on 127.0.0.1:{port}: is another process using this port?"
        await server.stop()


async def test_two_servers_do_not_share_a_port() -> None:
    async with peer(allow) as there:
        with pytest.raises(ConfigError):
            await RpcServer(RpcSettings(port=there.server.port), telemetry()).start()
