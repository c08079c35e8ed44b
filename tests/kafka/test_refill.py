"""What an owner's topic lacks of its rows is published again, and readers on a forgetful broker wait for that.

The broker of these tests keeps its records; ``keeps_records`` off is what a client believes of it.
"""

import asyncio
from collections.abc import AsyncIterator

from libs.kafka import Heartbeats
from libs.kafka.refill import Snapshot
from tests.kafka.conftest import Corner, Happened, Started, event, number_of, until


def rows(versions: dict[int, int]) -> Snapshot:
    """A database with one row per number."""

    async def snapshot() -> AsyncIterator[tuple[str, bytes]]:
        for number, version in versions.items():
            yield f"k{number}", event(number, version=version)

    return snapshot


def forgetful(corner: Corner) -> Corner:
    corner.settings = corner.settings.model_copy(update={"keeps_records": False})
    return corner


async def numbers(corner: Corner) -> list[int]:
    records = await corner.records(corner.table.name)
    return [number_of(record) for record in records if record.value is not None and record.key != b"heartbeat"]


async def _one_life(beats: Heartbeats) -> None:
    await beats.start()
    await until(lambda: not beats._to_fill)
    await beats.stop()


async def test_rows_missing_behind_a_change_that_came_first_are_published(corner: Corner, started: Started) -> None:
    """A new broker gets the outbox's rows before the first heartbeat: offset 0 tells nothing."""
    await corner.send(event(1, version=7), topic=corner.table.name, key=b"k1")
    await corner.send(None, topic=corner.table.name, key=b"gone")
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    beats = Heartbeats(bus, [corner.table], {corner.table: rows({1: 7, 2: 1, 3: 4})})
    await beats.start()
    await until(lambda: len(table) == 3)
    await beats.stop()
    assert await numbers(corner) == [1, 2, 3], "the first was there already"


async def test_older_versions_and_removed_rows_are_published_and_nothing_when_all_is_there(
    corner: Corner, started: Started
) -> None:
    for number, version in {1: 7, 2: 1, 3: 4, 4: 1}.items():
        await corner.send(event(number, version=version), topic=corner.table.name, key=f"k{number}".encode())
    await corner.send(event(3, version=2), topic=corner.table.name, key=b"k3")
    await corner.send(None, topic=corner.table.name, key=b"k4")
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    for _ in range(2):
        await _one_life(Heartbeats(bus, [corner.table], {corner.table: rows({1: 7, 2: 2, 3: 4, 4: 3})}))
    await until(lambda: len(table) == 4)
    assert await numbers(corner) == [1, 2, 3, 4, 3, 2, 3, 4], "2 is newer, 3 lay behind an older one, 4 was removed"


async def test_on_a_forgetful_broker_owner_and_readers_wait_until_the_table_is_whole(
    corner: Corner, started: Started
) -> None:
    let_go = asyncio.Event()
    inner = rows(dict.fromkeys(range(20), 1))

    async def slow() -> AsyncIterator[tuple[str, bytes]]:
        await let_go.wait()
        async for row in inner():
            yield row

    await corner.send(event(3, version=1), topic=corner.table.name, key=b"k3")
    owner = await started(forgetful(corner).bus())
    reader = corner.bus()
    table = reader.table(corner.table, Happened, key=lambda data: str(data.number))
    await reader.start()
    beats = Heartbeats(owner, [corner.table], {corner.table: slow})
    assert (beats.problem() or "").endswith("not published yet")
    await beats.start()
    await until(lambda: len(table) == 1)
    await asyncio.sleep(0.3)
    assert table.problem() is not None
    assert beats.problem() is not None
    let_go.set()
    await until(lambda: table.problem() is None)
    assert len(table) == 20
    assert beats.problem() is None
    await beats.stop()
    await reader.stop()


async def test_on_a_forgetful_broker_an_empty_table_is_ready_with_its_owners_first_heartbeat(
    corner: Corner, started: Started
) -> None:
    bus = forgetful(corner).bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await bus.start()
    await asyncio.sleep(0.5)
    assert table.problem() is not None
    beats = Heartbeats(bus, [corner.table], {corner.table: rows({})})
    await beats.start()
    await until(lambda: bus.problem() is None)
    await beats.stop()
    await bus.stop()
