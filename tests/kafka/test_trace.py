"""A trace goes on through Kafka: from the producer's span over direct produce or outbox into the handler.

FastStream overwrites a ``traceparent`` given to its publish, and hangs a second hop under the first one's span.
"""

import json
from pathlib import Path
from typing import Any

import asyncpg

from libs.core.settings import TelemetrySettings
from libs.kafka import OUTBOX_SQL, OutboxRelay, Received, put
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from tests.kafka.conftest import Corner, Started, event, until
from tests.support.stack import Postgres


class Store:
    """A pool, as libs.db gives it."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool


async def test_two_hops_make_one_trace_each_under_the_one_before(
    corner: Corner, started: Started, postgres: Postgres, tmp_path: Path
) -> None:
    file = tmp_path / "spans.jsonl"
    corner.telemetry = Telemetry(corner.service, TelemetrySettings(trace_file=file))
    pool = await asyncpg.create_pool(await postgres.database(), min_size=1, max_size=3)
    await pool.execute(OUTBOX_SQL)
    relay = OutboxRelay(Store(pool), corner.settings, corner.telemetry)
    last: list[Received] = []

    async def first(_: Received) -> None:
        async with pool.acquire() as conn:
            await put(conn, corner.table, "k", event(2), current_traceparent())

    async def second(batch: list[Received]) -> None:
        last.extend(batch)

    bus = corner.bus()
    bus.each(corner.topic, first)
    bus.batch(corner.table, second)
    assert bus.producer is not None
    await started(bus)
    await relay.start()
    with corner.telemetry.tracing.root("request"):
        bus.producer.send(corner.topic, "k", event(1), current_traceparent())
    await until(lambda: len(last) == 1)
    await relay.stop()
    await pool.close()
    await bus.stop()
    corner.telemetry.tracing.flush()
    spans = {span["name"]: span for span in map(json.loads, file.read_text().splitlines())}
    request, one, two = (
        spans[name] for name in ("request", f"{corner.topic.name} process", f"{corner.table.name} process")
    )
    assert one["trace_id"] == two["trace_id"] == request["trace_id"]
    assert one["parent_id"] == request["span_id"]
    assert two["parent_id"] == one["span_id"]
    assert last[0].traceparent.split("-")[2] == one["span_id"]


async def test_what_is_not_sampled_carries_and_opens_nothing(corner: Corner, started: Started) -> None:
    inside: list[tuple[str, str]] = []

    async def handler(received: Received) -> None:
        inside.append((received.traceparent, current_traceparent()))

    bus = corner.bus()
    bus.each(corner.topic, handler)
    assert bus.producer is not None
    await started(bus)
    bus.producer.send(corner.topic, "k", event(1), current_traceparent())
    await until(lambda: inside == [("", "")])
    (record,) = await corner.records(corner.topic.name, partitions=3)
    assert record.headers == ()
