"""Traces from HTTP over gRPC and Kafka to the database row, paid for only by requests that are sampled.

Called by every service through ``telemetry.tracing``. The trace context travels as a W3C ``traceparent``; an
empty string means "not sampled", and then a span is a no-op that touches nothing of OpenTelemetry.
"""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

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
    parts = traceparent.split("-")
    if len(parts) != 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    try:
        trace_id, span_id, flags = int(parts[1], 16), int(parts[2], 16), int(parts[3], 16)
    except ValueError:
        return None
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid and context.trace_flags.sampled else None


class FileExporter(SpanExporter):
    """Appends finished spans to a file as JSON lines; for a laptop without a trace store."""

    def __init__(self, path: Path, service: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._service = service

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(json.dumps(self._row(span)) + "\n" for span in spans)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(lines)
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


class Tracing:
    """Spans of one service. Attributes hold ids and counts, never text of a prompt, an answer or a key."""

    def __init__(self, service: str, settings: TelemetrySettings) -> None:
        self._ratio = settings.trace_ratio
        self._provider = TracerProvider(resource=Resource.create({"service.name": f"kenari-{service}"}))
        exporter: SpanExporter | None = None
        if settings.otlp_endpoint:
            exporter = OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint.rstrip('/')}/v1/traces")
        elif settings.trace_file:
            exporter = FileExporter(settings.trace_file, service)
        self._exports = exporter is not None
        if exporter is not None:
            self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
        self._tracer = self._provider.get_tracer("kenari")

    def sample(self) -> bool:
        """Whether a request that arrives without a trace starts one."""
        return self._exports and (self._ratio >= 1 or random.random() < self._ratio)

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str = "",
        kind: Kind = "internal",
        attributes: Attributes | None = None,
    ) -> Iterator[Span | None]:
        """Open a span under ``parent`` (a traceparent) or the current span; a no-op when neither is sampled.

        Yields the span (to add attributes) or None. An exception marks the span as failed and goes on.
        """
        above = _parse(parent or _current.get()) if (parent or _current.get()) else None
        if above is None or not self._exports:
            yield None
            return
        with self._open(name, above, kind, attributes) as span:
            yield span

    @contextmanager
    def root(self, name: str, *, kind: Kind = "server", attributes: Attributes | None = None) -> Iterator[Span | None]:
        """Open the first span of a new trace, if ``sample`` says so."""
        if not self.sample():
            yield None
            return
        with self._open(name, None, kind, attributes) as span:
            yield span

    @contextmanager
    def _open(self, name: str, above: SpanContext | None, kind: Kind, attributes: Attributes | None) -> Iterator[Span]:
        context = set_span_in_context(NonRecordingSpan(above)) if above else None
        span = self._tracer.start_span(name, context, _KINDS[kind], attributes)
        token = _current.set(_render(span.get_span_context()))
        try:
            yield span
        except BaseException as error:
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            _current.reset(token)
            span.end()

    def flush(self) -> None:
        """Hand over what is not exported yet."""
        self._provider.force_flush(5_000)

    def shutdown(self) -> None:
        """Export the rest and stop."""
        self._provider.shutdown()
