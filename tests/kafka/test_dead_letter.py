"""Dead letters: complete, confirmed before the offset moves, limited, redacted, and replayed into their handler.

On a real broker; the replay command runs against the live service, as people run it.
"""

import asyncio
from unittest.mock import patch

import pytest

from libs.core.errors import Permanent, Transient
from libs.events.topics import dead_topic, retry_topic
from libs.kafka import Received
from libs.kafka.dead_letter import IN_A_ROW, IN_WINDOW, WINDOW, Limit
from libs.kafka.publisher import Publisher
from libs.kafka.records import partition_of
from libs.kafka.replay import Choice, Replay
from tests.kafka.conftest import Corner, Happened, Started, event, until


async def test_a_dead_letter_is_the_record_and_its_story(corner: Corner, started: Started) -> None:
    async def handler(_: Received) -> None:
        raise Permanent(
            "bad kn-abcdefghijklmnopqrstuvwxyz and Bearer s3cr3t.token to mail@example.org " + "x" * 500, reason="bad"
        )

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    sent = event(7)
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    offset = await corner.send(sent, key=b"acct_1", partition=2, headers=[("traceparent", trace)])
    await until(lambda: corner.buried("bad") == 1)
    (dead,) = await corner.dead()
    headers = dict(dead.headers)
    assert (dead.key, dead.value) == (b"acct_1", sent)
    assert headers["traceparent"] == trace
    assert headers["dead-origin-topic"].decode() == corner.topic.name
    assert (headers["dead-origin-partition"], headers["dead-origin-offset"]) == (b"2", str(offset).encode())
    assert headers["dead-consumer"].decode() == corner.service
    assert (headers["dead-error-class"], headers["dead-attempts"]) == (b"bad", b"1")
    assert headers["dead-first-failed"].startswith(b"20")
    text = headers["dead-error-text"].decode()
    assert len(text) <= 300
    assert not any(secret in text for secret in ("abcdefgh", "s3cr3t", "mail@"))


async def test_the_offset_waits_until_the_dead_letter_is_confirmed(corner: Corner, started: Started) -> None:
    async def handler(_: Received) -> None:
        raise Permanent("bad", reason="bad")

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    with patch.object(Publisher, "publish", side_effect=Transient("not confirmed", reason="broker_away")):
        await corner.send(event(1), partition=0)
        await until(lambda: "broker_away" in (bus.problem() or ""))
        assert (await corner.committed()) in (None, 0)
    await until(lambda: corner.buried("bad") == 1)
    await until(lambda: bus.problem() is None)


async def test_too_many_dead_letters_in_a_row_stop_the_consumer_and_keep_the_rest(
    corner: Corner, started: Started
) -> None:
    async def handler(_: Received) -> None:
        raise Permanent("a bad deployment", reason="bad")

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    await corner.send_many([event(n) for n in range(IN_A_ROW + 10)], partition=0)
    await corner.send_many([event(n) for n in range(3)], partition=1)
    await until(lambda: "stopped after" in (bus.problem() or ""))
    assert corner.metric("kenari_kafka_consumer_stopped", topic=corner.topic.name) == 1
    await asyncio.sleep(0.5)
    assert len([r for r in await corner.dead() if dict(r.headers)["dead-origin-partition"] == b"0"]) <= IN_A_ROW
    # Mended and started again, it goes on where it stopped.
    await bus.stop()
    seen: list[int] = []

    async def mended(received: Received) -> None:
        seen.append(received.data(Happened).number)

    again = corner.bus()
    again.each(corner.topic, mended)
    await started(again)
    await until(lambda: IN_A_ROW + 9 in seen)


def test_a_share_of_dead_letters_stops_too() -> None:
    place = partition_of(type("R", (), {"topic": "t", "partition": 0})())
    limit = Limit()
    reasons: list[str | None] = []
    for number in range(WINDOW):
        if number % 10 == 0:
            reasons.append(limit.dead(place))
        else:
            limit.good(place)
    assert reasons.index(next(reason for reason in reasons if reason)) == IN_WINDOW


def test_old_dead_letters_leave_the_window() -> None:
    place = partition_of(type("R", (), {"topic": "t", "partition": 0})())
    limit = Limit()
    for _ in range(IN_A_ROW - 1):
        assert limit.dead(place) is None
    for _ in range(WINDOW):
        limit.good(place)
    assert [limit.dead(place) for _ in range(IN_A_ROW - 1)] == [None] * (IN_A_ROW - 1)


async def test_a_failing_reader_of_dead_letters_feeds_nothing_back(corner: Corner, started: Started) -> None:
    calls = 0

    async def handler(_: Received) -> None:
        nonlocal calls
        calls += 1
        raise Permanent("bad", reason="bad")

    dead = dead_topic(corner.service)
    bus = corner.bus()
    bus.each(dead, handler)
    await started(bus)
    await corner.send(event(1), topic=dead.name)
    await until(lambda: calls == 1)
    await asyncio.sleep(0.5)
    assert len(await corner.dead()) == 1


class Service:
    """A handler that fails on the numbers in ``bad``."""

    def __init__(self) -> None:
        self.bad: set[int] = set()
        self.seen: list[int] = []

    async def handle(self, received: Received) -> None:
        number = received.data(Happened).number
        if number in self.bad:
            raise Permanent("bad", reason="bad")
        self.seen.append(number)


@pytest.fixture
async def dying(corner: Corner, started: Started) -> Service:
    """A running service with dead letters 0 to 3 and one that cannot be decoded."""
    service = Service()
    service.bad = {0, 1, 2, 3}
    bus = corner.bus()
    bus.each(corner.topic, service.handle)
    await started(bus)
    await corner.send_many([event(n) for n in range(4)] + [b"junk", event(9)])
    await until(lambda: service.seen == [9])
    return service


async def replay(corner: Corner, **choice: object) -> tuple[int, int, int]:
    async with Replay(corner.settings, corner.service, wait_s=15) as run:
        result = await run.run(Choice(**choice), say=lambda _: None)  # type: ignore[arg-type]
    return result.chosen, result.handled, result.failed


async def test_replay_goes_into_the_handler_and_not_onto_the_public_topic(corner: Corner, dying: Service) -> None:
    before = len(await corner.records(corner.topic.name, partitions=3))
    dying.bad.clear()
    assert await replay(corner, error="bad") == (4, 4, 0)
    assert dying.seen == [9, 0, 1, 2, 3]
    assert len(await corner.records(corner.topic.name, partitions=3)) == before


async def test_a_replayed_dead_letter_is_not_replayed_again(corner: Corner, dying: Service) -> None:
    dying.bad.clear()
    assert await replay(corner, error="bad", max=3) == (3, 3, 0)
    assert await replay(corner, only=Happened.TYPE) == (1, 1, 0)
    assert await replay(corner, only=Happened.TYPE) == (0, 0, 0)


async def test_a_dry_run_changes_nothing(corner: Corner, dying: Service) -> None:
    assert await replay(corner, dry_run=True) == (5, 0, 0)
    assert await corner.records(retry_topic(corner.service).name) == []
    assert dying.seen == [9]


async def test_stop_ends_at_the_first_that_fails_again_and_keeps_it(corner: Corner, dying: Service) -> None:
    dying.bad = {1}
    assert await replay(corner, error="bad", policy="stop") == (2, 1, 1)
    dead = await corner.dead()
    assert dict(dead[-1].headers)["dead-attempts"] == b"2"
    assert dict(dead[-1].headers)["dead-origin-topic"].decode() == corner.topic.name
    dying.bad.clear()
    assert await replay(corner, error="bad") == (3, 3, 0)


async def test_put_back_goes_on_and_drop_gives_up(corner: Corner, dying: Service) -> None:
    dying.bad = {1}
    assert await replay(corner, error="bad", policy="put-back") == (4, 3, 1)
    assert await replay(corner, error="bad", policy="drop") == (1, 0, 1)
    assert await replay(corner, error="bad") == (0, 0, 0)


async def test_each_replay_leaves_who_and_when(corner: Corner, dying: Service) -> None:
    dying.bad.clear()
    await replay(corner, error="bad", max=1)
    (audit,) = await corner.records(retry_topic(corner.service).name)
    headers = dict(audit.headers)
    assert (headers["dead-replayed-offset"], headers["dead-replayed-action"]) == (b"0", b"replay")
    assert b"@" in headers["dead-replayed-by"]
    assert headers["dead-replayed-at"].endswith(b"Z")
