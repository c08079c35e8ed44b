"""Metrics and traces of one service in one object, made once by its app.py.

Called by services/*/app.py; everything else gets it as an argument.
"""

import importlib.metadata
import sys

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from libs.core.settings import TelemetrySettings
from libs.ops.metrics import GaugeSpec, Metrics
from libs.ops.tracing import Tracing

BUILD = GaugeSpec(
    "kenari.service.build", "1, with the version and the service that runs", labels=("service", "version")
)


def version() -> str:
    """The distribution's version, or ``source`` when it runs from a checkout."""
    try:
        return importlib.metadata.version("kenari")
    except importlib.metadata.PackageNotFoundError:
        return "source"


class Telemetry:
    """What a service reports about itself."""

    def __init__(self, service: str, settings: TelemetrySettings) -> None:
        self.service = service
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.tracing = Tracing(service, settings)
        if sys.platform == "linux":
            ProcessCollector(registry=self.registry)
        self.metrics.gauge(BUILD).labels(service, version()).set(1)

    def scrape(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def shutdown(self) -> None:
        """Hand over what is not exported yet. Blocks, seconds if the collector is away: call it in a thread."""
        self.tracing.shutdown()
