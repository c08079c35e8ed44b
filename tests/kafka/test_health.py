"""How a consumer starts, stops and shows whether it is well, on a real broker."""

import asyncio

import pytest

from libs.core.errors import Transient
from libs.kafka import Received
from tests.kafka.conftest import Corner, Happened, Started, event, until


async def test_stopping_lets_the_handler_finish_and_commits(corner: Corner, started: Started) -> None:
    began = asyncio.Event()
    finished: list[int] = []

    async def handler(received: Received) -> None:
        began.set()
        await asyncio.sleep(0.8)
        finished.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(2)])
    await began.wait()
    await bus.stop()
    assert finished == [0]
    assert await corner.committed() == 1


async def test_stopping_while_waiting_for_a_dependency_is_quick(corner: Corner, started: Started) -> None:
    tried = asyncio.Event()

    async def handler(_: Received) -> None:
        tried.set()
        raise Transient("away")

    bus = corner.bus(retry=corner.retry.__class__(first_s=5, cap_s=5, patience_s=60))
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(event(1), partition=0)
    await tried.wait()
    await asyncio.wait_for(bus.stop(), 3)
    assert (await corner.committed()) in (None, 0)


async def test_two_topics_of_one_service_are_read_side_by_side(corner: Corner, started: Started) -> None:
    seen: list[str] = []

    async def one(received: Received) -> None:
        seen.append(f"one {received.topic.rsplit('.', 2)[1]}")

    async def many(batch: list[Received]) -> None:
        seen.extend(f"many {received.topic.rsplit('.', 2)[1]}" for received in batch)

    bus = corner.bus()
    bus.each(corner.topic, one)
    bus.batch(corner.table, many)
    await started(bus)
    await corner.send(event(1))
    await corner.send(event(2), topic=corner.table.name)
    await until(lambda: sorted(seen) == ["many table", "one things"])


async def test_a_dead_consume_task_is_not_ready(corner: Corner, started: Started) -> None:
    """The client's own ping and FastStream's ``running`` stay true when the loop is gone."""

    async def handler(_: Received) -> None: ...

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    for task in bus._subscriptions[0]._subscriber.tasks:
        task.cancel()
    await until(lambda: "has ended" in (bus.problem() or ""))


async def test_what_the_client_itself_cannot_read_stops_the_consumer_instead_of_looping(
    corner: Corner, started: Started
) -> None:
    failures = 0

    async def broken() -> None:
        nonlocal failures
        failures += 1
        await asyncio.sleep(0.001)
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "in a header's name")

    async def handler(_: Received) -> None: ...

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    subscriber = bus._subscriptions[0]._subscriber
    consumer = subscriber.consumer
    assert consumer is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(consumer, "getone", broken)
        await corner.send(event(1), partition=0)
        await until(lambda: "consume task failed" in (bus.problem() or ""))
    assert failures > 0
    assert consumer.paused() == consumer.assignment()


async def test_lag_and_age_of_the_oldest_record_are_measured(corner: Corner, started: Started) -> None:
    go = asyncio.Event()

    async def handler(_: Received) -> None:
        await go.wait()

    bus = corner.bus(max_age_s=1.0)
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(5)])
    await until(lambda: corner.lag() == 4)
    await until(lambda: "oldest record waits" in (bus.problem() or ""))
    assert corner.metric("kenari_kafka_consumer_oldest_seconds", topic=corner.topic.name) > 0.5
    go.set()
    await until(lambda: corner.lag() == 0)
    await until(lambda: bus.problem() is None)
