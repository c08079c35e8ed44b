"""Apache Kafka in a container, for the tests where a Docker daemon answers.
Called by deploy.local.brokers; the same single node as deploy/kafka/server.properties describes.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deploy.local.errors import StartFailed
from deploy.local.ports import LOOPBACK, pick_free_port
from deploy.local.wire import broker_serves

_IMAGE = "apache/kafka:4.1.2"
_PROPERTIES = Path(__file__).resolve().parents[1] / "kafka" / "server.properties"
_START_SECONDS = 90.0


class KafkaContainer:
    """Same interface as KafkaServer. Records survive `stop`, `kill` and `start`; leaving `with` removes all."""

    name = "Apache Kafka in a container"

    def __init__(self) -> None:
        self._port = pick_free_port()
        self._container: Any = None

    @property
    def address(self) -> str:
        """Bootstrap server."""
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> Self:
        """Create the container, or start it again with its data; returns when the broker serves."""
        if self._container is None:
            self._container = self._create()
        else:
            self._container.get_wrapped_container().start()
        give_up_at = time.monotonic() + _START_SECONDS
        while not broker_serves(LOOPBACK, self._port):
            if time.monotonic() > give_up_at:
                said = self._container.get_wrapped_container().logs(tail=25).decode(errors="replace")
                raise StartFailed(f"{self.name} did not answer within {_START_SECONDS:.0f} s; it said:\n{said}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        """End cleanly, keeping container and data."""
        self._container.get_wrapped_container().stop(timeout=30)

    def kill(self) -> None:
        """kill -9."""
        self._container.get_wrapped_container().kill()

    def pause(self) -> None:
        """Freeze."""
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self._container.get_wrapped_container().unpause()

    def _create(self) -> Any:
        from testcontainers.core.container import DockerContainer

        # The image turns KAFKA_A_B into a.b; the advertised address must be known before the start, so the port
        # is chosen here and not by the daemon.
        container = DockerContainer(_IMAGE).with_bind_ports(9092, self._port)
        for key, value in _settings(self.address).items():
            container = container.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
        return container.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._container.stop()
        self._container = None


def containers_missing() -> str | None:
    """Why containers cannot be used here (no client package, no daemon), or None when they can."""
    try:
        import docker  # type: ignore[import-untyped]
        import testcontainers.core.container  # noqa: F401
    except ImportError as error:
        return f"no container client ({error.name} is not installed)"
    try:
        client = docker.from_env(timeout=5)
        try:
            client.ping()
        finally:
            client.close()
    except (docker.errors.DockerException, OSError):
        return "no Docker daemon answers"
    return None


def _settings(advertised: str) -> dict[str, str]:
    lines = (line.strip() for line in _PROPERTIES.read_text().splitlines())
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {
        **{key.strip(): value.strip() for key, value in pairs},
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": f"PLAINTEXT://{advertised}",
        "controller.quorum.voters": "1@localhost:9093",
    }
