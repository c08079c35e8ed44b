"""Batches on a real broker: one bad record never takes its neighbours along, and partitions move one by one.

FastStream hands over one batch for several partitions and fails all of it when one element cannot be decoded.
"""

from libs.core.errors import Permanent, Transient
from libs.kafka import Received
from tests.kafka.conftest import Corner, Happened, Started, event, until


async def test_undecodable_records_are_dead_lettered_and_the_handler_gets_the_others(
    corner: Corner, started: Started
) -> None:
    calls: list[list[int]] = []

    async def handler(batch: list[Received]) -> None:
        calls.append([received.data(Happened).number for received in batch])

    bus = corner.bus()
    bus.batch(corner.topic, handler, types=[Happened])
    await corner.send_many([event(0), b"junk", event(2).replace(b'"number":2', b'"number":"x"'), event(3)])
    await started(bus)
    await until(lambda: calls == [[0, 3]])
    await until(lambda: corner.buried("undecodable") + corner.buried("invalid_data") == 2)
    await bus.stop()
    assert await corner.committed() == 4


async def test_when_a_batch_fails_its_records_are_handled_one_by_one(corner: Corner, started: Started) -> None:
    calls: list[list[int]] = []
    done: set[int] = set()

    async def handler(batch: list[Received]) -> None:
        numbers = [received.data(Happened).number for received in batch]
        calls.append(numbers)
        if 5 in numbers:
            raise Permanent("five", reason="five")
        done.update(numbers)

    bus = corner.bus()
    bus.batch(corner.topic, handler)
    await corner.send_many([event(n) for n in range(10)])
    await started(bus)
    await until(lambda: done == set(range(10)) - {5})
    (dead,) = await corner.dead()
    assert b'"number":5' in dead.value
    assert calls[0] == list(range(10))


async def test_a_batch_spans_partitions_and_each_goes_on_where_it_has_to(corner: Corner, started: Started) -> None:
    away = True
    done: list[int] = []

    async def handler(batch: list[Received]) -> None:
        numbers = [received.data(Happened).number for received in batch]
        if away and any(number >= 20 for number in numbers):
            raise Transient("away") if len(numbers) == 1 else RuntimeError("one of them")
        done.extend(numbers)

    bus = corner.bus()
    bus.batch(corner.topic, handler)
    for partition in range(3):
        await corner.send_many([event(partition * 10 + n) for n in range(3)], partition=partition)
    await started(bus)
    await until(lambda: bus.problem() is not None)
    assert set(done) <= {0, 1, 2, 10, 11, 12}
    away = False
    await until(lambda: {20, 21, 22} <= set(done) and set(done) >= {0, 1, 2, 10, 11, 12})
    await bus.stop()
    assert [await corner.committed(partition) for partition in range(3)] == [3, 3, 3]
    assert await corner.dead() == []


async def test_a_dependency_that_is_away_holds_the_whole_batch_and_buries_nothing(
    corner: Corner, started: Started
) -> None:
    """A bad record behind a good one that waits must not be buried anew in each round."""
    away = True
    done: list[int] = []

    async def handler(batch: list[Received]) -> None:
        if away:
            raise Transient("away")
        done.extend(received.data(Happened).number for received in batch)

    bus = corner.bus()
    bus.batch(corner.topic, handler)
    await corner.send_many([event(0), b"junk", event(2)])
    await started(bus)
    for _ in range(3):
        await until(lambda: bus.problem() is not None)
        await until(lambda: corner.lag() == 3)
    assert await corner.dead() == []
    away = False
    await until(lambda: done == [0, 2])
    await until(lambda: corner.buried("undecodable") == 1)


async def test_a_batch_is_at_most_as_large_as_asked(corner: Corner, started: Started) -> None:
    sizes: list[int] = []

    async def handler(batch: list[Received]) -> None:
        sizes.append(len(batch))

    bus = corner.bus()
    bus.batch(corner.topic, handler, max_records=40)
    await corner.send_many([event(n) for n in range(100)])
    await started(bus)
    await until(lambda: sum(sizes) == 100)
    assert max(sizes) == 40
