"""uvicorn as a component: inside our loop and our lifetime, with a clear error for a taken port.

Called by the ops port of every service and by the edge for its public port.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from libs.core.errors import ConfigError


class HttpServer:
    """Serves an ASGI application. With ``share_port`` other processes may listen on the same port.

    ``options`` go to uvicorn. Signals are not touched: libs.service stops all parts in order.
    """

    def __init__(self, app: Any, host: str, port: int, *, share_port: bool = False, **options: Any) -> None:
        self.host = host
        self.port = port
        self._share_port = share_port
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            lifespan="off",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            **options,
        )
        self._server = _Server(config)
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
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
