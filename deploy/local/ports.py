"""Which TCP port a local server listens on: a free one, or a clear word that the wanted one is taken.
Called by the servers in deploy.local and by tests that need an address nobody listens on.
"""

import errno
import random
import socket

from deploy.local.errors import LocalServerError, PortTaken

LOOPBACK = "127.0.0.1"

# Below the range from which operating systems take ports for outgoing connections: otherwise a client's own
# socket could sit on a server's port while the server restarts.
_FIRST, _LAST = 15_000, 32_000

_handed_out: set[int] = set()


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that connections of an earlier run in TIME_WAIT do not count as a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def pick_free_port() -> int:
    """Return a loopback port that is free now and was not handed out before by this process."""
    for port in random.sample(range(_FIRST, _LAST), 200):
        if port not in _handed_out and port_is_free(port):
            _handed_out.add(port)
            return port
    raise LocalServerError(f"no free port found between {_FIRST} and {_LAST}")


def require_free(server: str, port: int, setting: str) -> None:
    """Raise `PortTaken`, naming server, port and setting, when something listens on the port already."""
    if not port_is_free(port):
        raise PortTaken(server, port, setting)
