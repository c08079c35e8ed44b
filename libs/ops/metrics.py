"""Metrics, declared before they are used.

Called by every service's telemetry.py (declares) and by code that counts (uses). Built on prometheus_client:
recording through OpenTelemetry's metric instruments cost 9 to 13 us each on the hot path, this about 1 us.
Names follow ``kenari.<service>.<noun>.<measure>`` and become ``kenari_<service>_<noun>_<measure>`` when scraped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# Labels with one value per account, key or request would grow without bound, and say who does what.
FORBIDDEN_LABELS = frozenset(
    {"account", "account_id", "user", "user_id", "key", "key_id", "key_hash", "request_id", "hold_id", "trace_id"}
)

M = TypeVar("M", Counter, Gauge, Histogram)

LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Spec:
    """A metric's name, meaning and labels.

    ``values``: the label values known beforehand, one tuple per label. The metric starts with all their combinations,
    so that the first event of a kind is a rise from 0 and not a line out of nowhere, which no rate sees.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not self.name.startswith("kenari."):
            raise ValueError(f"metric {self.name} must start with kenari.")
        if forbidden := FORBIDDEN_LABELS.intersection(self.labels):
            raise ValueError(f"metric {self.name} may not have labels {sorted(forbidden)}")
        if self.values and len(self.values) != len(self.labels):
            raise ValueError(f"metric {self.name} has {len(self.labels)} labels and values for {len(self.values)}")

    @property
    def exported(self) -> str:
        """The name as Prometheus stores it, without a counter's ``_total``."""
        return self.name.replace(".", "_")


@dataclass(frozen=True)
class CounterSpec(Spec):
    """Only grows; scraped as ``<name>_total``."""


@dataclass(frozen=True)
class GaugeSpec(Spec):
    """Goes up and down."""


@dataclass(frozen=True)
class HistogramSpec(Spec):
    """A distribution; the unit is the name's last part (``seconds``, ``bytes``, ...)."""

    buckets: tuple[float, ...] = LATENCY_S


class Metrics:
    """The metrics of one service in one process; each spec becomes one collector of its registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._made: dict[str, tuple[Spec, Counter | Gauge | Histogram]] = {}

    def counter(self, spec: CounterSpec) -> Counter:
        return self._get(spec, lambda: Counter(spec.exported, spec.help, spec.labels, registry=self._registry))

    def gauge(self, spec: GaugeSpec, value: Callable[[], float] | None = None) -> Gauge:
        """A gauge; with ``value`` it is read at scrape time instead of being set."""
        made = self._get(spec, lambda: Gauge(spec.exported, spec.help, spec.labels, registry=self._registry))
        if value is not None:
            made.set_function(value)
        return made

    def histogram(self, spec: HistogramSpec) -> Histogram:
        return self._get(
            spec,
            lambda: Histogram(spec.exported, spec.help, spec.labels, registry=self._registry, buckets=spec.buckets),
        )

    def _get(self, spec: Spec, make: Callable[[], M]) -> M:
        """The collector of ``spec``, made at its first use; raise ValueError when its name means something else."""
        known, made = self._made.get(spec.name, (spec, None))
        if known != spec:
            raise ValueError(f"metric {spec.name} is declared twice, differently")
        if made is None:
            made = make()
            self._made[spec.name] = (spec, made)
            for values in product(*spec.values) if spec.values else ():
                made.labels(*values)
        return cast(M, made)
