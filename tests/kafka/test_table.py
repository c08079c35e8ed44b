"""Tables on a real broker: complete before ready, newest version wins, tombstones remove, age is measured.

The reader uses no consumer group, so nothing of it stays behind on the broker.
"""

import time

from libs.events.base import Heartbeat, encode, envelope
from libs.kafka import Heartbeats
from tests.kafka.conftest import Corner, Happened, Started, event, until


def beat(now_ms: int) -> bytes:
    return encode(envelope(Heartbeat(), source="test", subject="heartbeat", now_ms=now_ms))


async def test_ready_only_when_all_that_was_there_at_the_start_is_read(corner: Corner, started: Started) -> None:
    for n in range(3):
        await corner.send(event(n, version=1), topic=corner.table.name, key=f"k{n}".encode())
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    ready_before: list[bool] = []
    table.on_change(lambda key, value: ready_before.append(table.problem() is None))
    assert table.problem() is not None
    await started(bus)
    assert len(table) == 3
    assert ready_before == [False] * 3


async def test_an_empty_table_is_ready(corner: Corner, started: Started) -> None:
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    assert (len(table), table.get("1"), table.age_s()) == (0, None, float("inf"))


async def test_a_tombstone_removes_and_an_older_version_never_returns(corner: Corner, started: Started) -> None:
    changes: list[tuple[str, int | None]] = []
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: f"row{data.number}")
    table.on_change(lambda key, value: changes.append((key, value.version if value else None)))
    await started(bus)
    records = [event(1, version=2), event(1, version=1), event(1, version=3), None, event(1, version=2)]
    await corner.send_many(records, topic=corner.table.name)
    await corner.send(event(2, version=1), topic=corner.table.name, key=b"other")
    await until(lambda: table.get("row2") is not None)
    assert changes == [("row1", 2), ("row1", 3), ("row1", None), ("row2", 1)]
    assert table.get("row1") is None
    assert corner.metric("kenari_kafka_table_records_total", topic=corner.table.name, outcome="stale") == 2


async def test_a_row_made_again_after_its_tombstone_comes_back(corner: Corner, started: Started) -> None:
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    await corner.send_many([event(1, version=4), None, event(1, version=5)], topic=corner.table.name)
    await until(lambda: table.get("1") is not None)


async def test_a_row_whose_lookup_key_changed_is_found_under_the_new_one_only(corner: Corner, started: Started) -> None:
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    await corner.send_many([event(1, version=1), event(2, version=2)], topic=corner.table.name)
    await until(lambda: table.get("2") is not None)
    assert table.get("1") is None


async def test_what_cannot_be_read_is_counted_and_the_rest_is_served(corner: Corner, started: Started) -> None:
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    await corner.send_many([b"junk", event(1).replace(b"1", b"x"), event(2)], topic=corner.table.name)
    await until(lambda: table.get("2") is not None)
    assert corner.metric("kenari_kafka_table_records_total", topic=corner.table.name, outcome="undecodable") == 2


async def test_heartbeats_keep_the_age_low_and_are_no_rows(corner: Corner, started: Started) -> None:
    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    beats = Heartbeats(bus, [corner.table], every_s=0.1)
    await beats.start()
    await until(lambda: table.age_s() < 1)

    def beats_seen() -> float:
        return corner.metric("kenari_kafka_table_records_total", topic=corner.table.name, outcome="heartbeat")

    seen = beats_seen()
    await until(lambda: beats_seen() > seen + 2)
    await beats.stop()
    assert len(table) == 0
    stopped = time.monotonic()
    await until(lambda: time.monotonic() - stopped > 0.5)
    assert table.age_s() > 0.4


async def test_the_owner_fills_a_topic_that_was_empty(corner: Corner, started: Started) -> None:
    async def rows():  # type: ignore[no-untyped-def]
        for n in range(3):
            yield str(n), event(n, version=1)

    bus = corner.bus()
    table = bus.table(corner.table, Happened, key=lambda data: str(data.number))
    await started(bus)
    for _ in range(2):
        beats = Heartbeats(bus, [corner.table], {corner.table: rows}, every_s=0.05)
        await beats.start()
        await until(lambda: len(table) == 3 and table.age_s() < 1)
        await beats.stop()
    assert corner.metric("kenari_kafka_table_records_total", topic=corner.table.name, outcome="applied") == 3
