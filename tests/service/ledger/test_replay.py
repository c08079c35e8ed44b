"""A ledger database restored to an earlier moment is settled from the bus to the state that was lost."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from libs.core.settings import KafkaSettings
from libs.events.base import EventData, encode, envelope
from libs.events.edge import UsageRecorded
from libs.events.ledger import Credited
from libs.events.topics import EDGE_USAGE, LEDGER_ENTRIES, Topic
from libs.kafka.publisher import Outgoing, Publisher
from services.ledger import replay
from services.ledger.domain.calls import KeyCaps, Settle
from tests.service.ledger.conftest import TABLES, Books, opened, reserve, settle
from tests.service.ledger.funding import RUPIAH, Funds, amount, told
from tests.support.stack import Postgres

Publish = Callable[[Topic, str, EventData], Awaitable[None]]


@pytest.fixture
async def publish(kafka: str) -> AsyncIterator[Publish]:
    publisher = Publisher(KafkaSettings(bootstrap=kafka))
    await publisher.start()
    await publisher.connected()

    async def send(topic: Topic, key: str, data: EventData) -> None:
        event = envelope(data, source=topic.owner, subject=key, now_ms=int(time.time() * 1000))
        await publisher.publish(Outgoing(topic.name, key.encode(), encode(event)))

    yield send
    await publisher.stop()


def event(call: Settle) -> UsageRecorded:
    """What the edge puts on the bus for that settlement."""
    return UsageRecorded.model_validate(msgspec.structs.asdict(call))


async def used(books: Books, account: str, **more: Any) -> Settle:
    """A request served and settled; what was said of it."""
    call = reserve(account, **more)
    granted = await books.granted(call)
    said = settle(call, granted.descriptor, billing_kind=granted.billing_kind, completion=40)
    await books.settle(said)
    return said


async def _copy(books: Books) -> dict[str, list[Any]]:
    return {table: await books.admin.fetch(f"select * from {table}") for table in TABLES}


async def _restore(books: Books, copy: dict[str, list[Any]]) -> None:
    for table in TABLES:
        await books.admin.execute(f"delete from {table}")
    # Plans before who has them.
    for table in reversed(TABLES):
        rows = [tuple(row) for row in copy[table]]
        if rows:
            await books.admin.copy_records_to_table(table, records=rows, columns=list(copy[table][0].keys()))


@pytest.mark.timeout(120)
async def test_replaying_the_bus_brings_back_every_charge_quota_and_cap(
    postgres: Postgres, dsn: str, kafka: str, publish: Publish
) -> None:
    async with opened(postgres, dsn, kafka=KafkaSettings(bootstrap=kafka)) as books:
        funds = Funds(books)
        caps = KeyCaps(spend=100 * RUPIAH, tokens=10**6)
        await funds.plan(models=["covered"], free_cache=["covered"], **amount("week", 100))
        for account in ("acct_a", "acct_b"):
            await books.credit(account, 50 * RUPIAH)
        await books.credit("acct_a", RUPIAH, kind="bonus")
        await funds.grant("acct_b")
        await funds.subscriptions.grant_coupon("acct_a", "c", "Coupon", ["gift"], 10 * RUPIAH, 4 * 10**12)
        before = await used(books, "acct_a")
        running = reserve("acct_a", model="sim-1")
        grant = await books.granted(running)
        copy = await _copy(books)
        since_ms = int(time.time() * 1000)

        await books.credit("acct_a", 7 * RUPIAH, key="later")
        said = [
            before,
            await used(books, "acct_a"),
            await used(books, "acct_a", model="gift"),
            await used(books, "acct_b", model="covered"),
            await used(books, "acct_b", member_id="person_1", caps=caps),
            await used(books, "acct_b", caps=caps, model="free", funding="free"),
            await used(books, "acct_c", model="free", funding="free"),
        ]
        last = settle(running, grant.descriptor)
        await books.settle(last)
        for one in [*said, last]:
            await publish(EDGE_USAGE, one.account_id, event(one))
        for credited in await told(books, Credited):
            await publish(LEDGER_ENTRIES, credited.account_id, credited)
        lost = await replay.checksum(books.settings)

        await _restore(books, copy)
        assert await replay.checksum(books.settings) != lost
        first = await replay.replay(books.settings, since_ms)
        assert await replay.checksum(books.settings) == lost
        assert first == (len(said) + 1, 4)

        await replay.replay(books.settings, since_ms)
        assert await replay.checksum(books.settings) == lost
        await books.assert_sound()
