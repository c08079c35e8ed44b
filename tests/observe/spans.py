"""Finished spans as callers and callees, read from the file that services without a collector write.
Used by the tests of traces.
"""

import json
from dataclasses import dataclass
from pathlib import Path

CLIENT = "client"
"""Who stands above a request that came with a traceparent."""


@dataclass(frozen=True)
class Span:
    """A finished span."""

    trace_id: str
    span_id: str
    parent_id: str | None
    service: str
    name: str
    kind: str
    attributes: dict[str, object]

    @property
    def label(self) -> str:
        """Who did what, e.g. ``ledger server: ledger.settle``."""
        return f"{self.service} {self.kind}: {self.name}"


def read_spans(file: Path) -> list[Span]:
    """All spans written so far."""
    fields = Span.__dataclass_fields__
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [Span(**{name: row[name] for name in fields}) for row in rows]


def edges(spans: list[Span], trace_id: str, client_span: str) -> set[tuple[str, str]]:
    """Caller and callee of every span of a trace; ``client_span`` is the id in the request's traceparent."""
    own = [span for span in spans if span.trace_id == trace_id]
    labels = {span.span_id: span.label for span in own} | {client_span: CLIENT}
    return {(labels.get(span.parent_id or "", "nobody"), span.label) for span in own}
