"""A gRPC channel with what every caller needs: deadlines that shrink, safe retries, traces, metrics, our errors.

Called by services/*/clients.py.
"""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

import grpc

from libs.core.errors import Transient
from libs.core.retry import backoff
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from libs.rpc import deadlines
from libs.rpc.errors import from_call
from libs.rpc.server import OPTIONS
from libs.rpc.telemetry import CALLED

# A peer that restarts is back within the patience of whoever waits for it.
_RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]

Answer = TypeVar("Answer", covariant=True)


class Method(Protocol[Answer]):
    """A unary method of a generated stub."""

    def __call__(self, request: Any, *, timeout: float, metadata: Any) -> Awaitable[Answer]: ...


class RpcClient:
    """One channel to one peer. ``channel`` is for generated stubs; ``call`` runs a unary method of one."""

    def __init__(self, target: str, telemetry: Telemetry, *, deadline_s: float) -> None:
        self.channel = grpc.aio.insecure_channel(target, options=[*OPTIONS, *_RECONNECT])
        self._telemetry = telemetry
        self._deadline_s = deadline_s
        self._called = telemetry.metrics.histogram(CALLED)

    async def call(
        self, name: str, method: Method[Answer], request: Any, *, deadline_s: float | None = None, retry: bool = False
    ) -> Answer:
        """Call a method and return its answer; raise Transient or Permanent with the peer's reason.

        With ``retry`` (idempotent methods only) an unreachable peer is tried up to three times in all.
        """
        tries = 3 if retry else 1
        waits = backoff(0.02, 0.1)
        until = time.monotonic() + deadlines.remaining(self._deadline_s if deadline_s is None else deadline_s)
        while True:
            tries -= 1
            try:
                return await self._once(name, method, request, until - time.monotonic())
            except grpc.aio.AioRpcError as error:
                wait = next(waits)
                away = error.code() is grpc.StatusCode.UNAVAILABLE
                if not tries or not away or time.monotonic() + wait >= until:
                    raise from_call(error) from error
            await asyncio.sleep(wait)

    async def _once(self, name: str, method: Method[Answer], request: Any, timeout_s: float) -> Answer:
        if timeout_s <= 0:
            raise Transient(f"{name}: no time left", reason="deadline")
        started = time.perf_counter()
        code = "OK"
        try:
            with self._telemetry.tracing.span(name, kind="client"):
                traceparent = current_traceparent()
                metadata = (("traceparent", traceparent),) if traceparent else None
                return await method(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            raise
        except asyncio.CancelledError as error:
            code = "CANCELLED"
            # gRPC cancels the call, not the caller, when its channel is closed.
            if (task := asyncio.current_task()) is not None and not task.cancelling():
                raise Transient(f"{name}: the channel was closed") from error
            raise
        finally:
            self._called.labels(name, code).observe(time.perf_counter() - started)

    async def start(self) -> None:
        """The channel connects by itself when first used."""

    async def stop(self) -> None:
        await self.channel.close()

    def problem(self) -> str | None:
        return None
