"""A gRPC server with what every service needs: health, reflection by choice, deadlines, errors, traces, metrics.

Called by services/*/app.py.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from libs.core.errors import ConfigError, KenariError
from libs.core.settings import RpcSettings
from libs.ops.telemetry import Telemetry
from libs.rpc import deadlines
from libs.rpc.errors import status_code, to_status
from libs.rpc.telemetry import SERVED

log = logging.getLogger("kenari.rpc")

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Long-lived streams over links that drop silently: notice within half a minute.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
]

T = TypeVar("T")
Handler = Callable[[Any, Any], Awaitable[Any]]


class _Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Refuses unary calls without a deadline, maps our errors, and opens a span and a measurement per call."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._tracing = telemetry.tracing
        self._served = telemetry.metrics.histogram(SERVED)

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler
        method = details.method
        traceparent = next((str(v) for k, v in details.invocation_metadata or () if k == "traceparent"), "")

        async def guarded(request: Any, context: Any) -> Any:
            return await self._call(handler.unary_unary, method, traceparent, request, context)

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

    async def _call(self, inner: Handler, method: str, traceparent: str, request: Any, context: Any) -> Any:
        remaining = context.time_remaining()
        if remaining is None and not method.startswith(("/grpc.health", "/grpc.reflection")):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a call needs a deadline")
        deadlines.enter(remaining if remaining is not None else 60.0)
        started = time.perf_counter()
        code = grpc.StatusCode.OK
        try:
            with self._tracing.span(method.lstrip("/"), parent=traceparent, kind="server"):
                return await inner(request, context)
        except KenariError as error:
            code = status_code(error)
            if code is grpc.StatusCode.INTERNAL:
                log.exception("call failed", extra={"method": method, "reason": error.reason})
            await context.abort_with_status(to_status(error))
        except (asyncio.CancelledError, grpc.aio.AbortError):
            code = grpc.StatusCode.CANCELLED
            raise
        except Exception:
            # The outermost guard: the caller learns nothing but that it failed.
            code = grpc.StatusCode.INTERNAL
            log.exception("call failed", extra={"method": method})
            await context.abort(code, "internal error")
        finally:
            self._served.labels(method, code.name).observe(time.perf_counter() - started)


class RpcServer:
    """Serves the registered servicers until stopped; says NOT_SERVING first, so that callers move away."""

    def __init__(self, settings: RpcSettings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._server = grpc.aio.server(interceptors=[_Guard(telemetry)], options=OPTIONS)
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names: list[str] = []
        self.port = settings.port
        self.grace_s = 5.0

    def register(self, add: Callable[[T, Any], None], servicer: T, name: str) -> None:
        """Add a servicer by its generated ``add_...Servicer_to_server``; ``name`` is the full service name."""
        add(servicer, self._server)
        self._names.append(name)

    async def start(self) -> None:
        if self._settings.reflection:
            reflection.enable_server_reflection([*self._names, reflection.SERVICE_NAME], self._server)
        address = f"{self._settings.host}:{self._settings.port}"
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError(f"cannot listen on {address}: is another process using this port?") from error
        await self._server.start()
        for name in ["", *self._names]:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self.grace_s)

    def problem(self) -> str | None:
        return None
