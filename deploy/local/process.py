"""A server as a child process: started with a log, awaited, stopped, killed, paused, restarted on its data.
Base of PostgresServer, ValkeyServer, KafkaServer and TansuServer; `make run` and the tests see this interface.
"""

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from deploy.local.errors import StartFailed
from deploy.local.guard import GUARD
from deploy.local.lock import AlreadyRunning, DirectoryLock
from deploy.local.ports import LOOPBACK, pick_free_port, require_free

_LOG_TAIL_LINES = 25


class LocalServer(ABC):
    """One server on loopback with one directory of its own.

    directory: holds `data/`, `server.log` and two lock files; made when missing, kept by `stop` and `kill`.
    port: where it listens; None picks a free one, which the object keeps over restarts.
    port_setting: the setting named in the message when the port is taken.

    `start` returns when the server answers, or raises a LocalServerError whose text can be shown as it is.
    A server ends with the process that started it, even if that one is killed. All methods block; none is for
    use by several threads on one object, but several objects may be started in parallel threads.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[int] = signal.SIGTERM
    start_seconds: ClassVar[float] = 60.0
    stop_seconds: ClassVar[float] = 30.0

    def __init__(self, directory: Path, port: int | None = None, port_setting: str = "the port") -> None:
        self.directory = directory.resolve()
        self.port = pick_free_port() if port is None else port
        self.port_setting = port_setting
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0
        self._owner_lock = DirectoryLock(self.directory, "owner.lock")
        self._server_lock = DirectoryLock(self.directory, "server.lock")

    @property
    def address(self) -> str:
        """`host:port` as clients want it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def log_file(self) -> Path:
        """Everything the server printed, over all its starts."""
        return self.directory / "server.log"

    @property
    def data(self) -> Path:
        """Where the server keeps its files."""
        return self.directory / "data"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives; says nothing about whether it answers."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start on the data of an earlier run, if any, and wait until the server answers.

        Raises PortTaken, AlreadyRunning (another live run owns the directory), ToolMissing or StartFailed.
        """
        if self.running:
            return self
        # A server that ended by itself or was killed from outside still holds this object's locks.
        self._forget()
        self._owner_lock.acquire()
        try:
            self._log_from = self._log_size()
            self._end_orphan()
            self._server_lock.acquire(wait_seconds=self.stop_seconds)
            require_free(self.name, self.port, self.port_setting)
            self._prepare()
            self._launch()
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End cleanly, all data written; a server that does not end in time is killed. Safe to call twice."""
        if self._process is not None:
            self._signal(self.stop_signal)
            # A paused server only sees the request once it runs again.
            self._signal(signal.SIGCONT)
            try:
                self._process.wait(self.stop_seconds)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._forget()

    def kill(self) -> None:
        """kill -9: what a crash leaves behind. Returns when the last process of the server is gone."""
        self._signal(signal.SIGKILL)
        self._forget()

    def pause(self) -> None:
        """Freeze: connections stay open, nothing answers, until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self._signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """The last lines that the log got since `start`, indented for a message."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_from)
                lines = log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return "\n".join(f"    {line}" for line in lines[-_LOG_TAIL_LINES:]) or "    (the log is empty)"

    def _log_size(self) -> int:
        try:
            return self.log_file.stat().st_size
        except FileNotFoundError:
            return 0

    @abstractmethod
    def _prepare(self) -> None:
        """Make what the server needs before its first start; do nothing on later ones."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Program and arguments."""

    @abstractmethod
    def _answers(self) -> bool:
        """One quick question to the server."""

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _run_tool(self, command: Sequence[str], seconds: float = 120.0) -> None:
        """Run a preparing program to its end, its output in the log; raise StartFailed when it fails."""
        with self.log_file.open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.directory,
                timeout=seconds,
                check=False,
            )
        if done.returncode != 0:
            raise StartFailed(
                f"{self.name}: {Path(command[0]).name} failed; end of {self.log_file}:\n{self.log_tail()}"
            )

    def _launch(self) -> None:
        # The server and its children inherit the lock, so it tells exactly whether any of them is alive.
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.directory,
                pass_fds=(self._server_lock.descriptor,),
                # A terminal's Ctrl-C is for the owner, which then stops its servers in order.
                start_new_session=True,
            )
        GUARD.watch(self._process.pid, self.stop_signal)
        self._server_lock.write_holder(self._process.pid)
        self._server_lock.release()

    def _wait_until_it_answers(self) -> None:
        give_up_at = time.monotonic() + self.start_seconds
        while not self._answers():
            if not self.running:
                raise StartFailed(f"{self.name} ended while starting; end of {self.log_file}:\n{self.log_tail()}")
            if time.monotonic() > give_up_at:
                raise StartFailed(
                    f"{self.name} did not answer on port {self.port} within {self.start_seconds:.0f} s; "
                    f"end of {self.log_file}:\n{self.log_tail()}"
                )
            time.sleep(0.05)

    def _end_orphan(self) -> None:
        """Stop a server whose owner was killed: the owner lock is ours, so whoever holds the other is alone."""
        try:
            self._server_lock.acquire()
        except AlreadyRunning:
            pid = self._server_lock.holder()
            if pid is not None:
                _signal_group(pid, self.stop_signal)
                _signal_group(pid, signal.SIGCONT)
        else:
            self._server_lock.release()

    def _signal(self, number: int) -> None:
        if self.running:
            _signal_group(self.pid, number)

    def _forget(self) -> None:
        """Collect the ended process and wait until its children are gone as well."""
        if self._process is not None:
            pid = self._process.pid
            self._process.wait()
            self._process = None
            GUARD.forget(pid)
            self._server_lock.acquire(wait_seconds=self.stop_seconds)
        self._server_lock.release()
        self._owner_lock.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _signal_group(pid: int, number: int) -> None:
    # macOS answers "not permitted" where Linux says "no such process" for a group that has just ended.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
