"""Where the broker keeps nothing, the next run sends again what may not be lost; elsewhere nothing is written.

A broker that forgot is told from one that did not only by what comes twice on the one these tests share.
"""

from dataclasses import replace
from pathlib import Path

from libs.events.topics import Topic
from libs.kafka.journal import Journal
from libs.kafka.producer import Limits, Producer
from libs.kafka.spool import Event, read
from tests.kafka.conftest import Corner, event, number_of, until
from tests.kafka.test_producer import sent


def producer_of(corner: Corner, *, keeps_records: bool = False, handled_s: float = 60.0) -> Producer:
    settings = corner.settings.model_copy(update={"keeps_records": keeps_records})
    return Producer(settings, corner.service, corner.telemetry, Limits(flush_s=0.01, handled_s=handled_s))


async def one_run(corner: Corner, producer: Producer, topic: Topic, number: int, *, replayed: int = 0) -> None:
    """A run that has one event confirmed, and ends before a minute is over."""
    await producer.start()
    await until(lambda: producer.problem() is None)
    before = sent(corner, "sent", topic)
    producer.send(topic, "k", event(number))
    await until(lambda: sent(corner, "sent", topic) == before + 1 and sent(corner, "replayed", topic) >= replayed)
    await producer.stop()


async def arrived(corner: Corner) -> list[int]:
    return [number_of(record) for record in await corner.records(corner.topic.name, partitions=3)]


async def test_confirmed_events_are_sent_again_by_the_next_run(corner: Corner) -> None:
    await one_run(corner, producer_of(corner), corner.topic, 0)
    assert await arrived(corner) == [0]
    await one_run(corner, producer_of(corner), corner.topic, 1, replayed=1)
    assert sorted(await arrived(corner)) == [0, 0, 1]
    assert list(corner.settings.spool_dir.rglob("*.spool")) != []


async def test_what_a_long_run_sent_again_is_forgotten_and_its_own_is_kept(corner: Corner) -> None:
    await one_run(corner, producer_of(corner), corner.topic, 0)
    producer = producer_of(corner, handled_s=0.05)
    await producer.start()
    await until(lambda: sent(corner, "replayed") == 1)
    producer.send(corner.topic, "k", event(7))
    repeating = producer._repeating
    assert repeating is not None
    await until(repeating.done)
    await producer.stop()
    kept = Journal(corner.settings.spool_dir / f"{corner.service}.journal", limit_bytes=1_000_000)
    kept.open()
    (segment,) = kept.earlier()
    assert [event(7)[-20:]] == [one.body[-20:] for one in read(segment)]
    kept.close()


async def test_only_logs_that_are_never_shed_are_journalled_and_only_where_it_is_needed(corner: Corner) -> None:
    shed = replace(corner.topic, shed=1)
    for topic, keeps_records in ((shed, False), (corner.table, False), (corner.topic, True)):
        await one_run(corner, producer_of(corner, keeps_records=keeps_records), topic, 0)
    assert list(corner.settings.spool_dir.rglob("*.spool")) == []


def test_a_full_journal_drops_the_oldest(tmp_path: Path) -> None:
    def journal() -> Journal:
        return Journal(tmp_path, limit_bytes=4_000)

    first = journal()
    first.open()
    for number in range(20):
        first.append([Event("t", "k", b"x" * 450, "", number)])
    first.close()
    second = journal()
    second.open()
    left = [one.timestamp_ms for segment in second.earlier() for one in read(segment)]
    assert left == list(range(left[0], 20))
    assert 5 <= len(left) <= 8
    # What is sent again while new events push it out is gone from the list too.
    oldest = second.earlier()[0]
    for number in range(20, 30):
        second.append([Event("t", "k", b"x" * 450, "", number)])
    assert oldest not in second.earlier()
    second.forget(oldest)
    second.close()
