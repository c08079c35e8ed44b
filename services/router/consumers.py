"""What the router reads from Kafka: tries of all edges, other routers' view of health, its own catalogue topic.

Called by services/router/app.py, which registers the handlers.
"""

from collections.abc import Callable
from datetime import datetime

from libs.events.base import encode, envelope
from libs.events.edge import AttemptFinished
from libs.events.router import UpstreamHealth
from libs.events.topics import ROUTER_HEALTH
from libs.kafka.producer import Producer
from libs.kafka.records import Received
from services.router.domain import Try, verdict
from services.router.health import HealthBook
from services.router.routes.latency import Latencies


class AttemptsReader:
    """Judges upstreams and the speed of models by what the edges tell, and says which health changed.

    Health goes out by direct produce and not by the outbox: it must work while the database is away, a lost
    record is made good by the next one, and what it says is soon out of date anyway.
    """

    def __init__(self, book: HealthBook, latencies: Latencies, producer: Producer, now_ms: Callable[[], int]) -> None:
        self._book = book
        self._latencies = latencies
        self._producer = producer
        self._now_ms = now_ms

    async def handle(self, batch: list[Received]) -> None:
        """Take in a batch of ``AttemptFinished``; tries at one upstream come in order, since it is the key."""
        for received in batch:
            attempt = received.data(AttemptFinished)
            tried = _try(attempt, received.envelope.time)
            if attempt.outcome == "completed" and attempt.first_byte_ms is not None:
                self._latencies.seen(attempt.model, attempt.first_byte_ms, tried.finished_ms)
            said = self._book.tried(attempt.upstream_id, attempt.request_id, tried)
            if said is not None:
                event = envelope(said, source="router", subject=said.upstream_id, now_ms=self._now_ms())
                self._producer.send(ROUTER_HEALTH, said.upstream_id, encode(event), received.trace)


def _try(attempt: AttemptFinished, finished: str) -> Try:
    finished_ms = int(datetime.fromisoformat(finished).timestamp() * 1000)
    return Try(
        verdict=verdict(attempt.outcome, attempt.status),
        reason=attempt.outcome,
        started_ms=finished_ms - attempt.duration_ms,
        finished_ms=finished_ms,
        retry_after_ms=attempt.retry_after_ms,
    )


def learn_into(book: HealthBook) -> Callable[[str, UpstreamHealth | None], None]:
    """A callback for the table of router.health.v1; a removed row says nothing."""

    def changed(_: str, said: UpstreamHealth | None) -> None:
        if said is not None:
            book.learn(said)

    return changed
