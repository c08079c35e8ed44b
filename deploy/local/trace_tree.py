"""One request's trace as an indented tree, from the file of finished spans that `make run` keeps.
Called by deploy.local.show.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUEST_ID = "kenari.request_id"


@dataclass(frozen=True)
class SpanRow:
    """A finished span as the file has it; times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str | None
    service: str
    name: str
    start_ns: int
    end_ns: int
    status: str
    attributes: dict[str, Any]


def read_trace(files: Iterable[Path], request_id: str) -> list[SpanRow]:
    """All spans of the trace that the request began or joined; empty when there is none (yet)."""
    rows = [row for file in files for row in _rows(file)]
    traces = {row.trace_id for row in rows if row.attributes.get(REQUEST_ID) == request_id}
    return [row for row in rows if row.trace_id in traces]


def _rows(file: Path) -> Iterator[SpanRow]:
    if not file.exists():
        return
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                fields = json.loads(line)
                yield SpanRow(**{name: fields[name] for name in SpanRow.__dataclass_fields__})
            except (ValueError, KeyError, TypeError):
                # A process that was killed can leave half a line.
                continue


def render(rows: list[SpanRow]) -> list[str]:
    """One line per span: offset from the start and duration in ms, then service and name, indented by depth.

    A span whose parent is not there (the client's own, or not written yet) stands at the outermost level.
    """
    if not rows:
        return []
    known = {row.span_id for row in rows}
    children: dict[str | None, list[SpanRow]] = {}
    for row in sorted(rows, key=lambda row: row.start_ns):
        children.setdefault(row.parent_id if row.parent_id in known else None, []).append(row)
    begin = min(row.start_ns for row in rows)
    lines: list[str] = []
    open_spans = [(row, 0) for row in reversed(children[None])]
    while open_spans:
        row, depth = open_spans.pop()
        lines.append(_line(row, depth, begin))
        open_spans += [(child, depth + 1) for child in reversed(children.get(row.span_id, []))]
    return lines


def _line(row: SpanRow, depth: int, begin_ns: int) -> str:
    at, took = (row.start_ns - begin_ns) / 1e6, (row.end_ns - row.start_ns) / 1e6
    failed = "  failed" if row.status == "error" else ""
    shown = ", ".join(f"{name}={value}" for name, value in sorted(row.attributes.items()) if name != REQUEST_ID)
    label = f"{'  ' * depth}{row.service}: {row.name}"
    return f"{at:9.1f} ms {took:9.1f} ms  {label}{f'  ({shown})' if shown else ''}{failed}"
