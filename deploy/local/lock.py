"""One owner per directory: two runs never share data, and a killed run leaves no lock behind.
Used by `make run` for .kenari/ and by every local server for its own data directory.
"""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from deploy.local.errors import LocalServerError


class AlreadyRunning(LocalServerError):
    """Another live process holds the lock. The message names its process id and the directory."""

    reason = "already_running"


class DirectoryLock:
    """An exclusive lock on a file, tied to the life of the processes that hold it open.

    The kernel lets go of it when the last holder ends, however that happens, so there is nothing to clean up
    after kill -9. The file stays; its text is the process id of the holder, for messages only.
    """

    def __init__(self, directory: Path, name: str = "owner.lock", wait_seconds: float = 0.0) -> None:
        self.directory = directory
        self.path = directory / name
        self._wait_seconds = wait_seconds
        self._descriptor: int | None = None

    def acquire(self, wait_seconds: float | None = None) -> None:
        """Take the lock or raise `AlreadyRunning` once `wait_seconds` (else the constructor's) have passed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        give_up_at = time.monotonic() + (self._wait_seconds if wait_seconds is None else wait_seconds)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    os.close(descriptor)
                    raise AlreadyRunning(self._refusal()) from None
                time.sleep(0.05)
        self._descriptor = descriptor
        self.write_holder(os.getpid())

    def write_holder(self, pid: int) -> None:
        """Note who holds the lock: a server inherits it from the process that took it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)

    def holder(self) -> int | None:
        """The process id noted last, whether or not that process still lives."""
        try:
            return int(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def descriptor(self) -> int:
        """The open file, to be passed to a child process that shall hold the lock."""
        if self._descriptor is None:
            raise RuntimeError("the lock is not held")
        return self._descriptor

    def release(self) -> None:
        """Let go. Children that inherited the descriptor keep the lock until they end."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _refusal(self) -> str:
        return f"{self.directory} is in use by process {self.holder() or 'unknown'}; stop that run first"

    def __enter__(self) -> "DirectoryLock":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
