"""Chooses where the tests' Kafka comes from and hides the difference from them.
Called by tests/support/stack; `make run` uses TansuServer or KafkaServer directly.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from deploy.local.errors import LocalServerError, StartFailed, ToolMissing
from deploy.local.kafka import DEFAULT_LIBS, KafkaServer, java_missing, resolve_class_path
from deploy.local.kafka_container import KafkaContainer, containers_missing
from deploy.local.tansu import TansuServer
from deploy.local.wire import broker_serves

ADDRESS_SETTING = "KENARI_TEST_KAFKA"


@runtime_checkable
class Broker(Protocol):
    """What every Kafka for tests offers. `address` is `host:port` and stays the same over restarts.

    `stop`, `kill`, `pause` and `resume` raise `NotOurs` on a broker that these tests did not start.
    """

    @property
    def name(self) -> str:
        """What runs there, for messages."""

    @property
    def address(self) -> str:
        """Bootstrap server."""

    def start(self) -> Self:
        """Start, or start again on the same data; returns when the broker serves."""

    def stop(self) -> None:
        """End cleanly."""

    def kill(self) -> None:
        """End as a crash would."""

    def pause(self) -> None:
        """Freeze, connections staying open."""

    def resume(self) -> None:
        """Undo `pause`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class NotOurs(LocalServerError):
    """A fault was asked of a broker that belongs to somebody else."""

    reason = "not_ours"


class ExternalBroker:
    """A Kafka at an address from the environment: used, never stopped by `with`."""

    name = "the Kafka given by " + ADDRESS_SETTING

    def __init__(self, address: str) -> None:
        self.address = address

    def start(self) -> Self:
        """Check that it serves; raises StartFailed otherwise."""
        host, _, port = self.address.split(",")[0].rpartition(":")
        if not host or not port.isdigit():
            raise StartFailed(f"{ADDRESS_SETTING} must be host:port, not {self.address!r}")
        if not broker_serves(host, int(port), timeout=10.0):
            raise StartFailed(f"no Kafka answers at {self.address} ({ADDRESS_SETTING})")
        return self

    def stop(self) -> None:
        """Not ours to stop: raises NotOurs."""
        raise NotOurs(f"this test stops its broker, but {self.name} belongs to somebody else; unset the variable")

    kill = pause = resume = stop

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave it running."""


def choose_broker(
    directory: Path,
    environment: Mapping[str, str] = os.environ,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
) -> Broker:
    """Return the best Kafka this machine can give, not started yet, and say which and why.

    Order: the address in KENARI_TEST_KAFKA; a container where a Docker daemon answers; Apache Kafka from Maven
    artifacts on Java; the embedded broker, which keeps nothing over a restart. With CI=true the last one is
    refused with ToolMissing: what it passes says too little about Kafka.
    """
    address = environment.get(ADDRESS_SETTING, "")
    if address:
        say(f"Kafka for the tests: {address}, from {ADDRESS_SETTING}")
        return ExternalBroker(address)
    no_containers = containers_missing()
    if no_containers is None:
        say("Kafka for the tests: Apache Kafka in a container")
        return KafkaContainer()
    no_java = java_missing() or _unresolved()
    if no_java is None:
        say(f"Kafka for the tests: Apache Kafka on Java ({no_containers})")
        return KafkaServer(directory)
    why = f"{no_containers}; {no_java}"
    if environment.get("CI", "").lower() in ("true", "1"):
        raise ToolMissing(f"Kafka for the tests: only Apache Kafka counts in CI, and there is none: {why}")
    say(f"Kafka for the tests: the embedded broker, which forgets all when it stops ({why})")
    return TansuServer(directory)


def _unresolved() -> str | None:
    try:
        resolve_class_path(DEFAULT_LIBS)
    except (ToolMissing, subprocess.TimeoutExpired) as error:
        return str(error)
    return None
