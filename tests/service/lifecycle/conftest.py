"""A service that a test can fill with parts of its own.
Used by the tests of this folder.
"""

from typing import ClassVar

import pytest

from libs.core.settings import OpsSettings, ServiceSettings, TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.service.service import Service


class PlainSettings(ServiceSettings):
    NAME: ClassVar[str] = "plain"


class Part:
    """Writes down what happens to it; raises what it is told to."""

    def __init__(self, name: str, log: list[str], *, start: BaseException | None = None) -> None:
        self.name = name
        self.trouble: str | None = None
        self.stop_error: BaseException | None = None
        self._log = log
        self._start = start

    async def start(self) -> None:
        self._log.append(f"start {self.name}")
        if self._start is not None:
            raise self._start

    async def stop(self) -> None:
        self._log.append(f"stop {self.name}")
        if self.stop_error is not None:
            raise self.stop_error

    def problem(self) -> str | None:
        return self.trouble


@pytest.fixture
def log() -> list[str]:
    return []


def plain_service(name: str = "plain", port: int = 0, grace_s: float = 1.0) -> Service:
    """A service without parts, whose ops port is picked by the system."""
    settings = PlainSettings.read(shutdown_grace_s=grace_s)
    return Service(name, settings, OpsSettings(port=port), Telemetry(name, TelemetrySettings()))
