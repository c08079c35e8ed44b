"""The edge's producer: cheap, in order per key, on the partition every Kafka client would choose, never in the way.

Outages are in test_outage.py; here the broker is well or not there from the start.
"""

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from deploy.local import pick_free_port
from libs.events.topics import Topic
from libs.kafka.producer import Limits, Producer
from libs.kafka.spool import Event, Spool, read
from tests.kafka.conftest import Corner, event, number_of, until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def sent(corner: Corner, outcome: str, topic: Topic | None = None) -> float:
    return corner.metric("kenari_kafka_producer_records_total", topic=(topic or corner.topic).name, outcome=outcome)


async def test_events_arrive_complete_in_order_per_key_and_on_the_common_partition(corner: Corner) -> None:
    producer = Producer(corner.settings, corner.service, corner.telemetry)
    await producer.start()
    await until(lambda: producer.problem() is None)
    for n in range(300):
        producer.send(corner.topic, f"acct_{n % 7}", event(n), TRACE if n == 0 else "")
    await producer.stop()
    records = await corner.records(corner.topic.name, partitions=3)
    assert len(records) == 300
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in sorted(records, key=lambda record: record.offset):
        by_key[record.key].append(number_of(record))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert [record.headers for record in records if record.headers] == [(("traceparent", TRACE.encode()),)]
    common = AIOKafkaProducer(bootstrap_servers=corner.bootstrap)
    await common.start()
    for key, partition in {record.key: record.partition for record in records}.items():
        assert (await common.send_and_wait(corner.topic.name, b"x", key)).partition == partition
    await common.stop()


async def test_an_event_is_on_its_way_within_a_few_flushes(corner: Corner) -> None:
    producer = Producer(corner.settings, corner.service, corner.telemetry)
    await producer.start()
    await until(lambda: producer.problem() is None)
    producer.send(corner.topic, "k", event(0))
    await until(lambda: sent(corner, "sent") == 1)
    began = time.monotonic()
    producer.send(corner.topic, "k", event(1))
    await until(lambda: sent(corner, "sent") == 2)
    assert time.monotonic() - began < 0.5
    await producer.stop()


async def test_taking_an_event_costs_microseconds(corner: Corner) -> None:
    producer = Producer(corner.settings, corner.service, corner.telemetry)
    body = event(1)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(2_000):
            producer.send(corner.topic, "acct_1", body)
        best = min(best, (time.perf_counter() - began) / 2_000)
    assert best < 10e-6


async def test_without_a_broker_everything_waits_in_files_for_the_next_start(corner: Corner, tmp_path: Path) -> None:
    away = corner.settings.model_copy(update={"bootstrap": f"127.0.0.1:{pick_free_port()}"})
    producer = Producer(away, corner.service, corner.telemetry)
    await producer.start()
    for n in range(50):
        producer.send(corner.topic, "k", event(n))
    await until(lambda: sent(corner, "spooled") == 50)
    assert "not connected" in (producer.problem() or "")
    await producer.stop()

    again = Producer(corner.settings, corner.service, corner.telemetry)
    await again.start()
    await until(lambda: sent(corner, "replayed") == 50)
    again.send(corner.topic, "k", event(50))
    await again.stop()
    records = await corner.records(corner.topic.name, partitions=3)
    numbers = [number_of(record) for record in records]
    assert numbers == list(range(51))
    assert list(corner.settings.spool_dir.rglob("*.spool")) == []


async def test_a_full_queue_sheds_the_least_important_and_spools_what_may_not_be_lost(corner: Corner) -> None:
    usage = corner.topic
    requests = replace(corner.topic, name=f"{corner.service}.requests.v1", shed=1)
    attempts = replace(corner.topic, name=f"{corner.service}.attempts.v1", shed=2)
    away = corner.settings.model_copy(update={"bootstrap": f"127.0.0.1:{pick_free_port()}"})
    producer = Producer(away, corner.service, corner.telemetry, Limits(flush_s=0.5, queue_bytes=300_000))
    await producer.start()
    body = b"x" * 700  # with the overhead 1,000 bytes each: room for 300
    for _ in range(200):
        producer.send(attempts, "k", body)
    for _ in range(200):
        producer.send(requests, "k", body)
    assert (sent(corner, "shed", attempts), sent(corner, "shed", requests)) == (100, 0)
    for _ in range(250):
        producer.send(usage, "k", body)
    assert sent(corner, "shed", attempts) == 200
    assert 150 <= sent(corner, "shed", requests) <= 200, "by the hundred"
    for _ in range(1_000):
        producer.send(usage, "k", body)
    assert sent(corner, "shed", usage) == 0
    assert sent(corner, "spooled", usage) > 900
    producer.send(attempts, "k", body)
    await producer.stop()
    assert sent(corner, "spooled", usage) == 1_250


async def test_a_full_spool_takes_only_what_may_not_be_lost(corner: Corner) -> None:
    requests = replace(corner.topic, name=f"{corner.service}.requests.v1", shed=1)
    away = corner.settings.model_copy(update={"bootstrap": f"127.0.0.1:{pick_free_port()}"})
    producer = Producer(away, corner.service, corner.telemetry, Limits(flush_s=0.01, spool_bytes=5_000))
    await producer.start()
    for _ in range(20):
        producer.send(requests, "k", b"x" * 1_000)
    await until(lambda: sent(corner, "spooled", requests) == 20)
    producer.send(requests, "k", b"x")
    producer.send(corner.topic, "k", b"x")
    await until(lambda: sent(corner, "spooled") == 1)
    assert sent(corner, "shed", requests) == 1
    await producer.stop()


async def test_a_disk_that_refuses_is_unready_and_loses_nothing_while_it_lasts(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = corner.settings.model_copy(update={"bootstrap": f"127.0.0.1:{pick_free_port()}"})
    producer = Producer(away, corner.service, corner.telemetry)
    await producer.start()
    with monkeypatch.context() as patched:

        def full(self: Spool, events: object) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(Spool, "append", full)
        producer.send(corner.topic, "k", event(1))
        await until(lambda: "No space left" in (producer.problem() or ""))
    await until(lambda: sent(corner, "spooled") == 1)
    await producer.stop()


def spooled(*numbers: int) -> list[Event]:
    return [Event("t", "k", b"%d" % number, "", number) for number in numbers]


def bodies(spool: Spool) -> list[int]:
    found: list[int] = []
    while (segment := spool.oldest()) is not None:
        found.extend(int(item.body) for item in read(segment))
        spool.discard(segment)
    return found


def test_a_torn_last_record_is_skipped_and_the_others_are_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.open()
    spool.append(spooled(1, 2, 3))
    spool.close()
    (path,) = tmp_path.rglob("*.spool")
    path.write_bytes(path.read_bytes()[:-3])
    again = Spool(tmp_path)
    again.open()
    assert bodies(again) == [1, 2]
    again.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_keeps_order_over_segments_and_restarts(tmp_path: Path) -> None:
    for start in (0, 100):
        spool = Spool(tmp_path, segment_bytes=200)
        spool.open()
        for n in range(start, start + 50):
            spool.append(spooled(n))
        spool.close()
    again = Spool(tmp_path)
    again.open()
    assert bodies(again) == [*range(50), *range(100, 150)]


def test_processes_share_a_directory_and_take_over_what_a_dead_one_left(tmp_path: Path) -> None:
    one, two = Spool(tmp_path), Spool(tmp_path)
    one.open()
    two.open()
    one.append(spooled(1))
    two.append(spooled(2))
    assert bodies(two) == [2]
    one.close()
    three = Spool(tmp_path)
    three.open()
    assert bodies(three) == [1]
