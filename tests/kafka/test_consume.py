"""Consuming on a real broker: nothing is lost, nothing loops, order is kept, offsets move only past what is done.

Each test pins one behaviour of the client or of FastStream that loses or repeats messages by default.
"""

import asyncio

import pytest

from libs.core.errors import Permanent, Transient
from libs.kafka import Received
from tests.kafka.conftest import Corner, Happened, Started, event, until


async def test_a_handled_record_moves_the_offset_and_nothing_else_does(corner: Corner, started: Started) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    # Sent before the group exists: a durable reader starts at the earliest record.
    await corner.send_many([event(n) for n in range(3)])
    await started(bus)
    await until(lambda: seen == [0, 1, 2])
    await bus.stop()
    assert await corner.committed() == 3


async def test_a_poison_record_is_tried_three_times_dead_lettered_and_passed(corner: Corner, started: Started) -> None:
    """With FastStream's policies alone it is either lost or read again two thousand times in four seconds."""
    tries: list[int] = []

    async def handler(received: Received) -> None:
        number = received.data(Happened).number
        tries.append(number)
        if number == 1:
            raise RuntimeError("no")

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(3)])
    await until(lambda: 2 in tries)
    assert tries == [0, 1, 1, 1, 2]
    (dead,) = await corner.dead()
    assert dict(dead.headers)["dead-attempts"] == b"3"


async def test_an_error_on_one_record_never_lets_a_later_one_commit_past_it(corner: Corner, started: Started) -> None:
    """Offsets are a high-water mark: not acknowledging a record and acknowledging the next loses the first."""
    away = True
    seen: list[int] = []

    async def handler(received: Received) -> None:
        number = received.data(Happened).number
        if away and number == 1:
            raise Transient("away")
        seen.append(number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(3)])
    await until(lambda: bus.problem() is not None)
    assert seen == [0]
    await bus.stop()
    assert await corner.committed() == 1

    away = False
    again = corner.bus()
    again.each(corner.topic, handler)
    await started(again)
    await until(lambda: seen == [0, 1, 2])
    assert await corner.dead() == []


async def test_a_dependency_that_is_away_makes_unready_and_is_waited_for(corner: Corner, started: Started) -> None:
    away = True
    calls = 0
    seen: list[int] = []

    async def handler(received: Received) -> None:
        nonlocal calls
        calls += 1
        if away:
            raise Transient("the database is away", reason="database_away")
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(2)])
    await until(lambda: "database_away" in (bus.problem() or ""))
    await asyncio.sleep(1.0)
    assert calls < 60, "waiting is not looping"
    away = False
    await until(lambda: seen == [0, 1])
    await until(lambda: bus.problem() is None)
    assert await corner.dead() == []


async def test_a_held_partition_does_not_stop_the_others(corner: Corner, started: Started) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        if received.partition == 0:
            raise Transient("away")
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(3)], partition=0)
    await corner.send_many([event(n) for n in range(10, 13)], partition=1)
    await until(lambda: seen == [10, 11, 12])


async def test_a_lost_connection_counts_as_away_though_the_handler_did_not_say_so(
    corner: Corner, started: Started
) -> None:
    tries = 0

    async def handler(_: Received) -> None:
        nonlocal tries
        tries += 1
        if tries < 8:
            raise ConnectionResetError

    bus = corner.bus(retry=corner.retry.__class__(first_s=0.01, cap_s=0.02, patience_s=5))
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(event(1))
    await until(lambda: tries == 8)
    assert await corner.dead() == []


@pytest.mark.parametrize(
    "headers", [[("x", b"\xff\xfe")], [("x", None)], [("traceparent", b"\xc3\x28")], [("reply_to", b"t")]]
)
async def test_strange_headers_lose_no_record(
    corner: Corner, started: Started, headers: list[tuple[str, bytes | None]]
) -> None:
    """FastStream's own parser fails on them before any guard, and the record is silently gone."""
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(event(1), headers=headers, partition=0)
    await corner.send(event(2), partition=0)
    await until(lambda: seen == [1, 2])


async def test_what_is_not_an_event_is_dead_lettered_unchanged(corner: Corner, started: Started) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(b"{not json \xff", key=b"\xfe", partition=0, headers=[("a", b"\xff"), ("b", None)])
    await corner.send(event(2), partition=0)
    await until(lambda: seen == [2])
    (dead,) = await corner.dead()
    assert (dead.key, dead.value) == (b"\xfe", b"{not json \xff")
    assert dead.headers[:2] == (("a", b"\xff"), ("b", None))


async def test_events_of_unknown_type_are_counted_and_passed_and_unknown_fields_ignored(
    corner: Corner, started: Started
) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler, types=[Happened])
    await started(bus)
    await corner.send_many(
        [
            event(0, type_="test.something_new.v1"),
            event(1).replace(b'"number":1', b'"number":1,"later":true'),
            event(2).replace(b'"number":2', b'"number":"two"'),
            event(3),
        ]
    )
    await until(lambda: seen == [1, 3])
    name = "kenari_kafka_consumer_records_total"
    assert corner.metric(name, topic=corner.topic.name, outcome="ignored") == 1
    (dead,) = await corner.dead()
    assert b"two" in dead.value


async def test_records_of_a_key_come_in_order(corner: Corner, started: Started) -> None:
    seen: list[int] = []

    async def handler(received: Received) -> None:
        await asyncio.sleep(0.001 * (received.offset % 3))
        seen.append(received.data(Happened).number)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(60)])
    await until(lambda: len(seen) == 60)
    assert seen == list(range(60))


async def test_a_permanent_error_is_not_tried_again(corner: Corner, started: Started) -> None:
    tries = 0

    async def handler(_: Received) -> None:
        nonlocal tries
        tries += 1
        raise Permanent("never", reason="never")

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send(event(1), partition=0)
    await until(
        lambda: corner.metric("kenari_kafka_consumer_dead_letters_total", topic=corner.topic.name, error="never") == 1
    )
    assert tries == 1
