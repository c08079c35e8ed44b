"""Traces from HTTP over gRPC and Kafka to the database row, paid for only by requests that are sampled.

Called by every service through ``telemetry.tracing``. The trace context travels as a W3C ``traceparent``; an
empty string means "not sampled", and then a span is a no-op that touches nothing of OpenTelemetry.
"""

import json
import random
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from libs.core.errors import KenariError
from libs.core.settings import TelemetrySettings

Kind = Literal["server", "client", "producer", "consumer", "internal"]
Attributes = dict[str, str | int | bool]

_KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_current: ContextVar[str] = ContextVar("kenari_traceparent", default="")


def current_traceparent() -> str:
    """The ``traceparent`` of the innermost open span, or "" when nothing is sampled here."""
    return _current.get()


def current_trace_id() -> str:
    """The trace id of the innermost open span, or ""."""
    return _current.get()[3:35]


def _render(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


def _parse(traceparent: str) -> SpanContext | None:
    """The context in a ``traceparent`` of any version of the format, or None when it is none."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    context = SpanContext(
        int(found[2], 16), int(found[3], 16), is_remote=True, trace_flags=TraceFlags(int(found[4], 16))
    )
    return context if context.is_valid else None


class FileExporter(SpanExporter):
    """Appends finished spans to a file as JSON lines; for a laptop without a trace store."""

    def __init__(self, path: Path, service: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._service = service

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(json.dumps(self._row(span)) + "\n" for span in spans)
        # One write: several services append to the same file, and their lines must not mix.
        with self._path.open("ab", buffering=0) as file:
            file.write(lines.encode())
        return SpanExportResult.SUCCESS

    def _row(self, span: ReadableSpan) -> dict[str, object]:
        context = span.get_span_context()
        return {
            "trace_id": f"{context.trace_id:032x}" if context else "",
            "span_id": f"{context.span_id:016x}" if context else "",
            "parent_id": f"{span.parent.span_id:016x}" if span.parent else None,
            "service": self._service,
            "name": span.name,
            "kind": span.kind.name.lower(),
            "start_ns": span.start_time,
            "end_ns": span.end_time,
            "status": span.status.status_code.name.lower(),
            "attributes": dict(span.attributes or {}),
        }


# One for all: it holds nothing, and what is not sampled makes no object at all.
_NO_SPAN: AbstractContextManager[Span | None] = nullcontext()


class _Open(AbstractContextManager[Span | None]):
    """A recorded span, current between entering and leaving."""

    def __init__(
        self, tracer: Tracer, name: str, above: SpanContext | None, kind: Kind, attributes: Attributes | None
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._above = above
        self._kind = kind
        self._attributes = attributes

    def __enter__(self) -> Span:
        # Never the context OpenTelemetry keeps itself: it is not ours, and would add parents we did not name.
        context = set_span_in_context(NonRecordingSpan(self._above), Context()) if self._above else Context()
        self._span = self._tracer.start_span(self._name, context, _KINDS[self._kind], self._attributes)
        self._token: Token[str] = _current.set(_render(self._span.get_span_context()))
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._span.set_status(StatusCode.ERROR, kind.__name__)
            self._span.set_attribute("error.type", error.reason if isinstance(error, KenariError) else kind.__name__)
        _current.reset(self._token)
        self._span.end()


class Tracing:
    """Spans of one service. Attributes hold ids and counts, never text of a prompt, an answer or a key."""

    def __init__(self, service: str, settings: TelemetrySettings) -> None:
        self._ratio = settings.trace_ratio
        # What is sampled is decided here alone, not by variables of OpenTelemetry.
        self._provider = TracerProvider(ALWAYS_ON, Resource.create({"service.name": f"kenari-{service}"}))
        exporter: SpanExporter | None = None
        if settings.otlp_endpoint:
            # A collector that is away holds up the end of the process for this long at most.
            exporter = OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces", timeout=3)
        elif settings.trace_file:
            exporter = FileExporter(settings.trace_file, service)
        self._exports = exporter is not None
        if exporter is not None:
            self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
        self._tracer = self._provider.get_tracer("kenari")

    def sample(self) -> bool:
        """Whether a request that arrives without a trace starts one."""
        return self._exports and (self._ratio >= 1 or random.random() < self._ratio)

    def span(
        self,
        name: str,
        *,
        parent: str = "",
        kind: Kind = "internal",
        attributes: Attributes | None = None,
    ) -> AbstractContextManager[Span | None]:
        """Open a span under ``parent`` (a traceparent) or the current span; a no-op when neither is sampled.

        Yields the span (to add attributes) or None. An exception marks the span as failed and goes on.
        """
        above = parent or _current.get()
        if not above or not self._exports:
            return _NO_SPAN
        context = _parse(above)
        if context is None or not context.trace_flags.sampled:
            return _NO_SPAN
        return _Open(self._tracer, name, context, kind, attributes)

    def serve(self, name: str, incoming: str | None) -> AbstractContextManager[Span | None]:
        """Open the span of a request from outside: in the trace its header names, else in a new one if sampled.

        A header that says "not sampled" is obeyed; one that cannot be read counts as none, as W3C asks.
        """
        if incoming and _parse(incoming) is not None:
            return self.span(name, parent=incoming, kind="server")
        return self.root(name)

    def root(
        self, name: str, *, kind: Kind = "server", attributes: Attributes | None = None
    ) -> AbstractContextManager[Span | None]:
        """Open the first span of a new trace, if ``sample`` says so."""
        return _Open(self._tracer, name, None, kind, attributes) if self.sample() else _NO_SPAN

    def flush(self) -> None:
        """Hand over what is not exported yet."""
        self._provider.force_flush(5_000)

    def shutdown(self) -> None:
        """Export the rest and stop. Blocks, seconds if the collector is away: call it in a thread."""
        self._provider.shutdown()
