"""Stops the local servers of a process that died without stopping them itself (kill -9, out of memory).
Started once per process by deploy.local.process, as `python guard.py`; reads lines "+pid signal" and "-pid".

A separate process and not the kernel's parent-death signal: that one fires when the *thread* which started the
server ends, and does not exist on macOS.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

_STOP_SECONDS = 15.0


class Guard:
    """The owner's end: remembers, outside this process, which servers to stop when it is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: IO[str] | None = None
        self._owner = 0

    def watch(self, pid: int, stop_signal: int) -> None:
        """Stop the process group `pid` with `stop_signal` if this process ends before `forget(pid)`."""
        self._tell(f"+{pid} {int(stop_signal)}\n")

    def forget(self, pid: int) -> None:
        """The server has ended: its id may belong to somebody else from now on."""
        self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._pipe is None or self._owner != os.getpid():
                self._pipe, self._owner = self._spawn(), os.getpid()
            self._pipe.write(line)
            self._pipe.flush()

    @staticmethod
    def _spawn() -> IO[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            text=True,
        )
        assert process.stdin is not None
        # The guard outlives this object on purpose; it ends by itself when the pipe closes.
        process.returncode = 0
        return process.stdin


GUARD = Guard()


def _signal_group(pid: int, number: int) -> bool:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _serve() -> None:
    watched: dict[int, int] = {}
    for line in sys.stdin:
        if line.startswith("+"):
            pid, stop_signal = line[1:].split()
            watched[int(pid)] = int(stop_signal)
        else:
            watched.pop(int(line[1:]), None)
    for pid, stop_signal in watched.items():
        _signal_group(pid, stop_signal)
        # A server stopped for a fault test must run to be able to end.
        _signal_group(pid, signal.SIGCONT)
    give_up_at = time.monotonic() + _STOP_SECONDS
    while any(_signal_group(pid, 0) for pid in watched) and time.monotonic() < give_up_at:
        time.sleep(0.1)
    for pid in watched:
        _signal_group(pid, signal.SIGKILL)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _serve()
