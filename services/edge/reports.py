"""What the edge tells the rest of kenari about a request: its tries, its usage, its end.

Called by attempts and the chat endpoint. The events are built as msgspec structs, since they are on the hot
path; a test holds them against the models of libs.events.
"""

import logging
import time
from typing import Any

import msgspec
from opentelemetry.trace import Span

from libs.core.clock import rfc3339
from libs.events import edge as events
from libs.events import topics
from libs.kafka.producer import Producer
from libs.llm.failures import ProviderFailure
from libs.ops.telemetry import Telemetry
from services.edge.telemetry import ATTEMPTS, FIRST_BYTE, OVERHEAD, REFUSALS, REQUESTS, TOKENS

log = logging.getLogger("kenari.edge")

_SOURCE = "edge"
_encoder = msgspec.json.Encoder()


class _Event(msgspec.Struct, gc=False):
    id: str
    type: str
    source: str
    subject: str
    time: str
    data: Any


class _Request(msgspec.Struct, gc=False):
    request_id: str
    account_id: str
    key_id: str
    endpoint: str
    client_format: str
    model: str
    stream: bool
    status: int
    error_code: str | None
    billing_kind: str | None
    upstream_id: str | None
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    started_at_ms: int
    first_byte_ms: int | None
    duration_ms: int


class _Attempt(msgspec.Struct, gc=False):
    request_id: str
    upstream_id: str
    model: str
    attempt: int
    outcome: str
    status: int | None
    retry_after_ms: int | None
    first_byte_ms: int | None
    duration_ms: int
    output_tokens: int


class Run:
    """One request as it is reported: who, what, and how it went so far."""

    __slots__ = (
        "account_id",
        "attempt_first_byte_ms",
        "attempt_model",
        "attempt_started",
        "attempts",
        "billing_kind",
        "client_format",
        "completion_tokens",
        "endpoint",
        "error_code",
        "first_byte_ms",
        "key_id",
        "model",
        "prompt_tokens",
        "request_id",
        "started",
        "started_ms",
        "stream",
        "trace",
        "upstream_id",
    )

    def __init__(self, request_id: str, started: float, started_ms: int, endpoint: str, client_format: str) -> None:
        self.request_id = request_id
        self.started = started
        self.started_ms = started_ms
        self.endpoint = endpoint
        self.client_format = client_format
        self.account_id = self.key_id = self.model = self.trace = ""
        self.stream = False
        self.billing_kind: str | None = None
        self.error_code: str | None = None
        self.upstream_id: str | None = None
        self.attempts = 0
        self.attempt_model = ""
        self.attempt_first_byte_ms: int | None = None
        self.attempt_started = 0.0
        self.first_byte_ms: int | None = None
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def describe(self, span: Span | None) -> None:
        """Say on a span, if there is one, what is being called."""
        if span is not None:
            span.set_attribute("kenari.model", self.model)
            if self.attempts:
                span.set_attribute("kenari.upstream_id", self.upstream_id or "")
                span.set_attribute("kenari.attempt", self.attempts)

    def begin_attempt(self, upstream_id: str, model_id: str) -> None:
        """The next provider is being called, for the model of that id."""
        self.upstream_id = upstream_id
        self.attempt_model = model_id
        self.attempt_first_byte_ms = None
        self.attempts += 1
        self.attempt_started = time.monotonic()

    def first_content(self) -> None:
        """The provider's first content is here."""
        now = time.monotonic()
        self.first_byte_ms = int((now - self.started) * 1000)
        self.attempt_first_byte_ms = int((now - self.attempt_started) * 1000)


class Reports:
    """Sends the events of requests and counts them."""

    def __init__(self, producer: Producer, telemetry: Telemetry) -> None:
        self._producer = producer
        metrics = telemetry.metrics
        self._requests = metrics.histogram(REQUESTS)
        self._attempts = metrics.histogram(ATTEMPTS)
        self._refusals = metrics.counter(REFUSALS)
        self._overhead = metrics.histogram(OVERHEAD)
        self._first_byte = metrics.histogram(FIRST_BYTE)
        self._tokens_in = metrics.counter(TOKENS).labels("input")
        self._tokens_out = metrics.counter(TOKENS).labels("output")
        self._bound: dict[tuple[str, int], Any] = {}

    def admitted(self, run: Run) -> None:
        """All that comes before the first call of a provider is done."""
        self._overhead.observe(time.monotonic() - run.started)

    def attempt(
        self, run: Run, outcome: str, failure: ProviderFailure | None = None, *, output_tokens: int = 0
    ) -> None:
        """A call of a provider has ended."""
        upstream_id = run.upstream_id or ""
        duration = time.monotonic() - run.attempt_started
        self._attempts.labels(outcome).observe(duration)
        if failure is not None:
            about = {"upstream_id": upstream_id, "attempt": run.attempts, "status": failure.status, "outcome": outcome}
            log.warning("attempt failed", extra={"request_id": run.request_id, "model": run.attempt_model, **about})
        data = _Attempt(
            request_id=run.request_id,
            upstream_id=upstream_id,
            model=run.attempt_model,
            attempt=run.attempts,
            outcome=outcome,
            status=failure.status if failure else None,
            retry_after_ms=failure.retry_after_ms if failure else None,
            first_byte_ms=run.attempt_first_byte_ms,
            duration_ms=int(duration * 1000),
            output_tokens=output_tokens,
        )
        event_id = f"{run.request_id}:attempt:{run.attempts}"
        self._send(topics.EDGE_ATTEMPTS, event_id, events.AttemptFinished.TYPE, upstream_id, data, run.trace)

    def usage(self, run: Run, data: events.UsageRecorded | Any) -> None:
        """What is to be settled, as the redo log has it."""
        event_id = f"{run.request_id}:usage"
        self._send(topics.EDGE_USAGE, event_id, events.UsageRecorded.TYPE, run.account_id, data, run.trace)

    def finished(self, run: Run, status: int) -> None:
        """The request has ended; ``status`` is what the client was told (499 when it was told nothing)."""
        duration = time.monotonic() - run.started
        seconds = self._bound.get((run.endpoint, status))
        if seconds is None:
            seconds = self._bound[run.endpoint, status] = self._requests.labels(run.endpoint, str(status))
        seconds.observe(duration)
        if run.first_byte_ms is not None:
            self._first_byte.observe(run.first_byte_ms / 1000)
        if run.error_code is not None:
            self._refusals.labels(run.error_code).inc()
        if run.completion_tokens:
            self._tokens_in.inc(run.prompt_tokens)
            self._tokens_out.inc(run.completion_tokens)
        if not run.account_id:
            return
        data = _Request(
            request_id=run.request_id,
            account_id=run.account_id,
            key_id=run.key_id,
            endpoint=run.endpoint,
            client_format=run.client_format,
            model=run.model,
            stream=run.stream,
            status=status,
            error_code=run.error_code,
            billing_kind=run.billing_kind,
            upstream_id=run.upstream_id,
            attempts=run.attempts,
            prompt_tokens=run.prompt_tokens,
            completion_tokens=run.completion_tokens,
            started_at_ms=run.started_ms,
            first_byte_ms=run.first_byte_ms,
            duration_ms=int(duration * 1000),
        )
        event_id = f"{run.request_id}:request"
        self._send(topics.EDGE_REQUESTS, event_id, events.RequestFinished.TYPE, run.account_id, data, run.trace)

    def _send(self, topic: topics.Topic, event_id: str, kind: str, key: str, data: Any, trace: str) -> None:
        now = rfc3339(time.time_ns() // 1_000_000)
        body = _encoder.encode(_Event(event_id, kind, _SOURCE, key, now, data))
        self._producer.send(topic, key, body, trace)
