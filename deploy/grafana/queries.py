"""PromQL from declared metrics: a query can only name what some service's telemetry.py declares.
Called by the boards of this package.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from libs.ops.metrics import CounterSpec, GaugeSpec, HistogramSpec, Spec

WINDOW = "$__rate_interval"


@dataclass(frozen=True)
class Query:
    """An expression and how its lines are called; ``{{label}}`` is filled in by Grafana."""

    expr: str
    legend: str


def selector(spec: Spec, suffix: str = "", *matchers: str) -> str:
    """The series of a metric, e.g. ``kenari_rpc_check_seconds_count{peer="router"}``."""
    total = "_total" if isinstance(spec, CounterSpec) else ""
    return f"{spec.exported}{total}{suffix}{{{','.join(matchers)}}}"


def rate(spec: CounterSpec | HistogramSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """Events per second."""
    suffix = "_count" if isinstance(spec, HistogramSpec) else ""
    return f"sum{_by(by)} (rate({selector(spec, suffix, *matchers)}[{WINDOW}]))"


def increase(spec: CounterSpec | HistogramSpec, *matchers: str, by: Sequence[str] = (), over: str = "1m") -> str:
    """How much was added within ``over``."""
    suffix = "_count" if isinstance(spec, HistogramSpec) else ""
    return f"sum{_by(by)} (increase({selector(spec, suffix, *matchers)}[{over}]))"


def quantile(share: float, spec: HistogramSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """The value that ``share`` of the observations stay below."""
    labels = (*by, "le")
    return f"histogram_quantile({share}, sum{_by(labels)} (rate({selector(spec, '_bucket', *matchers)}[{WINDOW}])))"


def mean(spec: HistogramSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """The average of the observations."""
    of = [f"sum{_by(by)} (rate({selector(spec, suffix, *matchers)}[{WINDOW}]))" for suffix in ("_sum", "_count")]
    return " / ".join(of)


def worst(spec: GaugeSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """The highest value over all processes."""
    return f"max{_by(by)} ({selector(spec, '', *matchers)})"


def lowest(spec: GaugeSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """The lowest value over all processes."""
    return f"min{_by(by)} ({selector(spec, '', *matchers)})"


def summed(spec: GaugeSpec, *matchers: str, by: Sequence[str] = ()) -> str:
    """The sum over all processes."""
    return f"sum{_by(by)} ({selector(spec, '', *matchers)})"


def or_zero(expr: str) -> str:
    """0 instead of nothing, for what may never have happened and whose labels nobody can list beforehand."""
    return f"{expr} or vector(0)"


def of(service: str) -> str:
    """Matches one service's series; the label comes from deploy/prometheus/prometheus.yml."""
    return f'service="{service}"'


def halves(spec: HistogramSpec, *matchers: str, what: str = "") -> tuple[Query, Query]:
    """Median and 99th percentile as two lines."""
    said = f"{what} " if what else ""
    return Query(quantile(0.5, spec, *matchers), f"{said}p50"), Query(quantile(0.99, spec, *matchers), f"{said}p99")


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
