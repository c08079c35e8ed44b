"""What the bench leaves behind: goals with met or not met, tables on the terminal, build/bench.json.
Called by tests.bench.run and tests.bench.comparison when they have their figures.
"""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from tests.bench.measure import MARKED_STRANGERS, Effort, Figures, Samples

_PACKAGES = ("aiohttp", "aiokafka", "asyncpg", "fastapi", "grpcio", "msgspec", "uvicorn", "uvloop", "valkey")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound from the project's speed goals and the figure held against it."""

    text: str
    value: float
    bound: float
    kind: Literal["at least", "at most"]

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.kind == "at least" else self.value <= self.bound

    def as_json(self) -> dict[str, Any]:
        return {
            "goal": f"{self.text} {self.kind} {self.bound:g}",
            "value": round(self.value, 3),
            "bound": self.bound,
            "met": self.met,
        }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first to the left, figures to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def speed_row(figures: Figures) -> list[str]:
    """Cells for SPEED_HEAD after the first column or columns."""
    share = f"{figures.strangers:.0%}" + (" !" if figures.strangers > MARKED_STRANGERS else "")
    return [
        f"{figures.per_second:,.1f}",
        f"{figures.p50_ms:.2f}",
        f"{figures.p99_ms:.2f}",
        str(figures.failed),
        f"{figures.cpu_ms_total:.3f}",
        share,
    ]


SPEED_HEAD = ("per second", "p50 ms", "p99 ms", "failed", "CPU-ms", "strangers")
STRANGERS_NOTE = "strangers: share of the machine taken by unrelated processes in the worst round; ! above 10 %"


def by_process(columns: Mapping[str, Mapping[str, float]], digits: int) -> str:
    """A table of figures by process name (rows) and column, with a sum at the end."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[name, *(f"{column.get(name, 0.0):.{digits}f}" for column in columns.values())] for name in names]
    rows.append(["together", *(f"{sum(column.values()):.{digits}f}" for column in columns.values())])
    return table(["process", *columns], rows)


def goals_text(goals: Sequence[Goal]) -> str:
    """One line a goal."""
    return "\n".join(
        f"  {'met' if goal.met else 'NOT MET':7}  {goal.text}: {goal.value:,.2f} ({goal.kind} {goal.bound:g})"
        for goal in goals
    )


def machine_facts() -> dict[str, Any]:
    """Cores, memory, kernel, Python, and versions of the libraries on the hot path that are installed."""
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cores": os.cpu_count(),
        "processor": _first_value("/proc/cpuinfo", "model name"),
        "memory": _first_value("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": versions,
    }


def _first_value(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def conditions(effort: Effort) -> dict[str, Any]:
    """When, on what machine and how long was measured."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rounds": effort.rounds,
        "seconds_a_step": effort.seconds,
        "machine": machine_facts(),
    }


def raw_samples(samples: Samples) -> list[dict[str, Any]]:
    """Every single run, for whoever doubts a median."""
    return [
        {
            "target": target,
            "case": case,
            "round": number,
            "per_second": round(sample.outcome.per_second, 1),
            "p50_ms": sample.outcome.p50_ms,
            "p99_ms": sample.outcome.p99_ms,
            "bad_status": sample.outcome.bad_status,
            "socket_errors": sample.outcome.socket_errors,
            "cpu_ms_per_request": round(sample.cpu_ms_total, 4),
            "strangers_share": round(sample.strangers, 3),
        }
        for (target, case), runs in samples.items()
        for number, sample in enumerate(runs, start=1)
    ]


def write_part(path: Path, name: str, part: Mapping[str, Any]) -> None:
    """Put `part` under `name` into the JSON document at `path`, keeping the other parts of earlier runs."""
    document = json.loads(path.read_text()) if path.exists() else {}
    document[name] = part
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document, indent=2) + "\n")
    fresh.replace(path)
