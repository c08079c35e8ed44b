"""The services as child processes of `make run`: all in one process, or one process each.
Called by the launcher.
"""

import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.local.addresses import Ports
from deploy.local.errors import StartFailed
from deploy.local.lock import AlreadyRunning, DirectoryLock
from deploy.local.ports import require_free
from deploy.local.process import LocalServer
from deploy.local.wiring import State, process_environment

_PATIENCE_S = 1.0
_SILENT = "starting"


class ServiceProcess(LocalServer):
    """`python -m services WHAT`, started when every service in it answers /ready with yes.

    report: told what is not ready yet, when that changes and at most once a second. give_up: when it returns
    True, waiting ends early, so that the owner can stop what it started.
    """

    name = "services"
    start_seconds = 90.0

    def __init__(
        self,
        state: State,
        what: str,
        services: Sequence[str],
        ports: Ports,
        wired: Mapping[str, str],
        report: Callable[[str], None],
        give_up: Callable[[], bool],
    ) -> None:
        setting, port = next(iter(ports.of_service(services[0]).items()))
        super().__init__(_folder(state) / what, port, setting)
        self.what = what
        self._ops = {service: ports.ops(service) for service in services}
        self._wired = wired
        self._log_file = state.logs / f"{what}.log"
        self._report = report
        self._give_up = give_up
        self._waiting: dict[str, str] = {}

    @property
    def log_file(self) -> Path:
        return self._log_file

    def _prepare(self) -> None:
        """Services keep nothing in their directory but what they spool."""

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-m", "services", self.what]

    def _environment(self) -> dict[str, str]:
        return process_environment(self._wired)

    def _answers(self) -> bool:
        self._waiting = {name: why for name, address in self._ops.items() if (why := _not_ready(address))}
        return not self._waiting

    def _summary(self) -> str:
        """What is not ready, in one line."""
        silent = [name for name, why in self._waiting.items() if why == _SILENT]
        talking = [f"{name} ({why})" for name, why in self._waiting.items() if why != _SILENT]
        return ", ".join([*silent, *talking])

    def _wait_until_it_answers(self) -> None:
        started = time.monotonic()
        told, said = started, ""
        while not self._give_up() and not self._answers():
            now = time.monotonic()
            if not self.running:
                raise StartFailed(f"{self.what} ended while starting; end of {self.log_file}:\n{self.log_tail()}")
            if now > started + self.start_seconds:
                raise StartFailed(
                    f"{self.what} not ready within {self.start_seconds:.0f} s ({self._summary()}); "
                    f"end of {self.log_file}:\n{self.log_tail()}"
                )
            if now > told + _PATIENCE_S and self._summary() != said:
                told, said = now, self._summary()
                self._report(said)
            time.sleep(0.1)


def check_ports(ports: Ports, services: Iterable[str]) -> None:
    """Raise PortTaken when another program has a port of one of the services."""
    for service in services:
        for setting, port in ports.of_service(service).items():
            require_free(service, port, setting)


def end_left_over(state: State) -> None:
    """End the services of a killed run, however they were spread over processes, and wait for them.

    Call it while holding the lock of the whole run: then what still lives here has no owner.
    """
    for folder in sorted(_folder(state).glob("*/")):
        lock = DirectoryLock(folder, "server.lock")
        try:
            lock.acquire()
        except AlreadyRunning:
            if (pid := lock.holder()) is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGTERM)
            lock.acquire(wait_seconds=ServiceProcess.stop_seconds)
        lock.release()


def _folder(state: State) -> Path:
    return state.directory / "services"


def _not_ready(address: str) -> str | None:
    """Why the service at this ops address is not ready, or None."""
    connection = http.client.HTTPConnection(address, timeout=2)
    try:
        connection.request("GET", "/ready")
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException):
        return _SILENT
    except ValueError:
        return f"something else answers on {address}"
    finally:
        connection.close()
    return ", ".join(answer.get("problems", [])) or None
