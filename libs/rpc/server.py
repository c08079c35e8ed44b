"""A gRPC server with what every service needs: health, reflection by choice, and the guard around every call.

Called by services/*/app.py.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from libs.core.errors import ConfigError
from libs.core.settings import RpcSettings
from libs.ops.telemetry import Telemetry
from libs.rpc.guard import Guard

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A peer that is frozen or cut off answers no ping; a long-lived stream to it ends within eight seconds.
    # Without a ping timeout of its own, gRPC did not notice for minutes, whatever the keepalive timeout.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
    # Windows stay small: megabytes of questions must not age unread inside a connection. It also saves its pings.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.so_reuseport", 0),
]

T = TypeVar("T")


class RpcServer:
    """Serves the registered servicers until stopped; says NOT_SERVING first, so that callers move away."""

    def __init__(self, settings: RpcSettings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._guard = Guard(telemetry)
        self._server = grpc.aio.server(interceptors=[self._guard], options=OPTIONS)
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
        """Take no more calls, finish those in flight within the grace, and end the streams."""
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(self.grace_s))
        # First let it refuse new calls, or the streams that end now would be opened again here.
        await asyncio.sleep(0.01)
        self._guard.end_streams()
        await stopping

    def problem(self) -> str | None:
        return None
