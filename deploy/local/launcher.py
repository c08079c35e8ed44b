"""`make run`: stores, databases, topics, services and a demo account, in the foreground until Ctrl-C.
Called as `python -m deploy.local.launcher`; PROCESSES=1 in the environment gives each service its own process.
"""

import argparse
import asyncio
import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType

from deploy.local import (
    LocalServer,
    LocalServerError,
    PostgresServer,
    TansuServer,
    ValkeyServer,
    demo,
    precheck,
    wiring,
)
from deploy.local.addresses import KAFKA, POSTGRES, VALKEY, Ports
from deploy.local.greeting import greeting
from deploy.local.lock import DirectoryLock
from deploy.local.progress import Progress
from deploy.local.services import ServiceProcess, check_ports, end_left_over
from deploy.local.wiring import WITH_DATABASE, WITH_RPC, State
from libs.core.errors import ConfigError, KenariError
from libs.db import migrate

_LOG_KEPT_BYTES = 20_000_000
_EVERY_S = 0.5
# One request to stop can come as several signals: from the terminal or `timeout` to the group, and through make.
_SAME_REQUEST_S = 1.0
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_SERVICES = (*WITH_RPC, "edge")


class Stopped(Exception):
    """A signal came while things were starting."""


class Launcher:
    """One run. Whatever `run` started is stopped when it returns, in reverse order."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._state = State(directory)
        self._environment = environment
        self._ports = Ports.read(environment)
        self._progress = Progress()
        self._stop = threading.Event()
        self._asked_at = 0.0
        self._failed = threading.Event()
        self._started: list[LocalServer] = []
        state, ports = self._state.directory, self._ports
        self._postgres = PostgresServer(state / "postgres", ports[POSTGRES], POSTGRES)
        self._valkey = ValkeyServer(state / "valkey", ports[VALKEY], VALKEY)
        self._broker = TansuServer(state / "kafka", ports[KAFKA], KAFKA)

    def run(self) -> int:
        """Start, greet, wait for a signal or the end of a child; return the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        with DirectoryLock(self._state.directory, "run.lock"):
            try:
                self._start_everything()
                return self._wait()
            except Stopped:
                return 0
            finally:
                self._stop_everything()

    def _start_everything(self) -> None:
        self._make_room()
        # The databases' passwords are made with them, and no setting depends on them.
        precheck.check(wiring.process_environment(self._wired(f"postgresql://{self._postgres.address}/{{}}".format)))
        end_left_over(self._state)
        check_ports(self._ports, _SERVICES)
        print(f"kenari: starting, data in {self._state.directory}", flush=True)
        self._together([self._provide_databases, lambda: self._start(self._valkey), self._provide_topics])
        wired = self._wired(self._postgres.dsn)
        wiring.save(self._state, wired)
        services = self._services(wired)
        self._together([partial(self._start, service) for service in services])
        with self._progress.step("demo", "account, Rp 100,000 and key"):
            key = asyncio.run(demo.provide(self._state, self._ports))
        print(greeting(self._state, self._ports, key, self._broker.address, self._progress.seconds), flush=True)

    def _wired(self, dsn: Callable[[str], str]) -> dict[str, str]:
        dsns = {name: dsn(name) for name in WITH_DATABASE}
        wired = wiring.settings(
            self._state, self._ports, dsns, f"{self._valkey.url}0", self._broker.address, self._environment
        )
        # Tansu lets a group wait for half its session before it starts.
        wired["KENARI_KAFKA__SESSION_TIMEOUT_MS"] = "3000"
        return wired

    def _provide_databases(self) -> None:
        self._start(self._postgres)
        with self._progress.step("databases", ", ".join(WITH_DATABASE)):
            self._postgres.create_databases(WITH_DATABASE)
            for name, folder in migrate.folders().items():
                asyncio.run(migrate.migrate(self._postgres.dsn(name), folder))

    def _provide_topics(self) -> None:
        self._start(self._broker)
        with self._progress.step("topics", "as registered"):
            # Its client takes a second to import, which passes while PostgreSQL starts.
            from libs.kafka import topics

            asyncio.run(topics.apply(self._broker.address))

    def _services(self, wired: Mapping[str, str]) -> list[ServiceProcess]:
        one_each = self._environment.get("PROCESSES", "") not in ("", "0")
        groups = {name: [name] for name in _SERVICES} if one_each else {"all": list(_SERVICES)}
        return [
            ServiceProcess(
                self._state,
                what,
                group,
                self._ports,
                wired,
                report=partial(self._say_waiting, what),
                give_up=lambda: self._stop.is_set() or self._failed.is_set(),
            )
            for what, group in groups.items()
        ]

    def _say_waiting(self, what: str, text: str) -> None:
        self._progress.say(what, f"waiting for {text}")

    def _together(self, actions: Sequence[Callable[[], None]]) -> None:
        """Do in parallel; on failures wait for the others, so that all servers can be stopped, and raise one."""
        with ThreadPoolExecutor(len(actions)) as pool:
            starts = [pool.submit(action) for action in actions]
        for start in starts:
            start.result()
        self._go_on()

    def _start(self, server: LocalServer) -> None:
        name = server.what if isinstance(server, ServiceProcess) else server.name
        try:
            with self._progress.step(name, server.address):
                server.start()
        except BaseException:
            # The others may be waiting for this one.
            self._failed.set()
            raise
        self._started.append(server)

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _wait(self) -> int:
        while not self._stop.wait(_EVERY_S):
            for server in self._started:
                if not server.running:
                    name = server.what if isinstance(server, ServiceProcess) else server.name
                    tail = f"stopping the rest; end of {server.log_file}:\n{server.log_tail()}"
                    print(f"kenari: {name} ended by itself, {tail}", file=sys.stderr, flush=True)
                    return 1
        return 0

    def _stop_everything(self) -> None:
        if self._started:
            print("kenari: stopping", flush=True)
        services = [server for server in self._started if isinstance(server, ServiceProcess)]
        stores = [server for server in self._started if not isinstance(server, ServiceProcess)]
        # Edge first and its peers at once after it: what it still has to settle needs them.
        for group in ([s for s in services if s.what == "edge"], [s for s in services if s.what != "edge"], stores):
            _each([server.stop for server in group])
        if self._started:
            print("kenari: stopped", flush=True)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._stop.is_set():
            self._asked_at = time.monotonic()
            self._stop.set()
        elif time.monotonic() > self._asked_at + _SAME_REQUEST_S:
            # Asked twice: leave at once. The guard process ends the children.
            os._exit(130)

    def _make_room(self) -> None:
        """Make the folders, set long logs and traces aside, show the stores' logs beside the services'."""
        self._state.logs.mkdir(parents=True, exist_ok=True)
        for file in (self._state.traces, *self._state.logs.glob("*.log")):
            if not file.is_symlink() and file.exists() and file.stat().st_size > _LOG_KEPT_BYTES:
                file.replace(file.with_name(f"{file.name}.old"))
        for server in (self._postgres, self._valkey, self._broker):
            link = self._state.logs / f"{server.directory.name}.log"
            with contextlib.suppress(FileExistsError):
                link.symlink_to(Path("..") / server.directory.name / server.log_file.name)


def _each(actions: Sequence[Callable[[], None]]) -> None:
    if actions:
        with ThreadPoolExecutor(len(actions)) as pool:
            for done in [pool.submit(action) for action in actions]:
                done.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until stopped; return 0, or 1 after one line that says what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.launcher", description=__doc__)
    parser.add_argument("--directory", type=Path, default=wiring.DEFAULT_STATE, help="where data are kept")
    options = parser.parse_args(arguments)
    try:
        return Launcher(options.directory.resolve(), os.environ).run()
    except ConfigError as error:
        print("\n".join(f"kenari: {line}" for line in str(error).splitlines()), file=sys.stderr)
    except (LocalServerError, KenariError) as error:
        print(f"kenari: {error}", file=sys.stderr)
    except OSError as error:
        if error.filename is None and error.errno not in _STORAGE:
            raise
        print(f"kenari: {error.filename or options.directory}: {error.strerror}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
