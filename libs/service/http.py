"""uvicorn as a component: inside our loop and our lifetime, with a clear error for a taken port.

Called by the ops port of every service and by the edge for its public port.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from libs.core.errors import ConfigError
from libs.service.http_protocol import BoundedProtocol

_TICKS_BETWEEN_LOOKS = 10  # of uvicorn's ticks, ten a second


class HttpServer:
    """Serves an ASGI application. With ``share_port`` other processes may listen on the same port.

    A connection is closed when the head of a request is too large (400, see ``BoundedProtocol``) or not complete
    within ``head_s`` seconds. ``options`` go to uvicorn. Signals are not touched: libs.service stops all parts in
    order.
    """

    def __init__(
        self, app: Any, host: str, port: int, *, share_port: bool = False, head_s: float = 30.0, **options: Any
    ) -> None:
        self.host = host
        self.port = port
        self._share_port = share_port
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=BoundedProtocol,
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            **options,
        )
        self._server = _Server(config, head_s)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; raise ConfigError when the port is taken."""
        listening = self._listen()
        self.port = listening.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]), name=f"http-{self.port}")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise ConfigError(f"the HTTP server on port {self.port} ended while starting")
            await asyncio.sleep(0.005)

    def _listen(self) -> socket.socket:
        listening = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._share_port:
            # The kernel spreads the connections over the processes.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listening.bind((self.host, self.port))
        except OSError as error:
            listening.close()
            raise ConfigError(f"cannot listen on {self.host}:{self.port}: {error.strerror}") from error
        listening.listen(2048)
        listening.setblocking(False)
        return listening

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task

    def problem(self) -> str | None:
        return "the HTTP server has ended" if self._task is not None and self._task.done() else None


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, head_s: float) -> None:
        super().__init__(config)
        self._head_s = head_s

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            self._close_waiting()
        return await super().on_tick(counter)

    def _close_waiting(self) -> None:
        """Close the connections whose next request has been coming for too long."""
        now = time.monotonic()
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol) and connection.has_waited(now) > self._head_s:
                connection.transport.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
