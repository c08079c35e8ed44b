"""Every metric that the code declares, and what an expression asks for.
Used by the tests of dashboards and alerts.
"""

import importlib
import re
from functools import cache

from libs.ops.metrics import CounterSpec, HistogramSpec, Spec
from libs.ops.telemetry import BUILD

_LISTS = (
    *(f"services.{name}.telemetry" for name in ("accounts", "edge", "ledger", "limiter", "router")),
    "libs.db.telemetry",
    "libs.kafka.telemetry",
    "libs.rpc.telemetry",
    "libs.service.component",
)
# What Prometheus and its client library say by themselves.
_GIVEN = frozenset({"up", "process_cpu_seconds_total", "process_resident_memory_bytes"})
_NAME = re.compile(r"\b(?:kenari_|process_)[a-z0-9_]+|\bup\b")
_STRINGS = re.compile(r'"[^"]*"')


@cache
def specs() -> tuple[Spec, ...]:
    """All declared metrics."""
    return (BUILD, *(spec for name in _LISTS for spec in importlib.import_module(name).ALL))


def series(spec: Spec) -> tuple[str, ...]:
    """The names of the series a metric becomes."""
    if isinstance(spec, CounterSpec):
        return (f"{spec.exported}_total",)
    if isinstance(spec, HistogramSpec):
        return tuple(f"{spec.exported}_{part}" for part in ("bucket", "count", "sum"))
    return (spec.exported,)


def undeclared(expr: str) -> set[str]:
    """The names an expression asks for that nothing declares."""
    known = _GIVEN.union(*(series(spec) for spec in specs()))
    return set(_NAME.findall(_STRINGS.sub('""', expr))) - known
