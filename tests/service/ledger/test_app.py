"""The whole ledger as its app builds it, on a real broker: prices and usage come in, entries go out."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from deploy.local.ports import pick_free_port
from libs.core.ids import uuid7_hex
from libs.core.settings import KafkaSettings
from libs.events.base import EventData, encode, envelope
from libs.events.edge import UsageRecorded
from libs.events.ledger import AccountState, UsageSettled
from libs.events.router import ModelPublished, Price
from libs.events.topics import EDGE_USAGE, LEDGER_ENTRIES, LEDGER_STATES, ROUTER_CATALOG, Topic
from libs.kafka.publisher import Outgoing, Publisher
from libs.kafka.reading import read_to_end
from libs.ops.telemetry import Telemetry
from services.ledger import telemetry as declared
from services.ledger.app import build
from tests.service.ledger.bare import settings
from tests.service.ledger.conftest import admin_of
from tests.support.stack import Postgres


async def eventually(check: Callable[[], Awaitable[Any]], seconds: float = 30.0) -> Any:
    """Wait for a true answer."""
    async with asyncio.timeout(seconds):
        while not (answer := await check()):  # noqa: ASYNC110  (what is waited for is in another process)
            await asyncio.sleep(0.1)
        return answer


@pytest.fixture
async def publish(kafka: str) -> AsyncIterator[Callable[[Topic, str, EventData], Awaitable[None]]]:
    publisher = Publisher(KafkaSettings(bootstrap=kafka))
    await publisher.start()
    await publisher.connected()

    async def send(topic: Topic, key: str, data: EventData) -> None:
        event = envelope(data, source=topic.owner, subject=key, now_ms=int(time.time() * 1000))
        await publisher.publish(Outgoing(topic.name, key.encode(), encode(event)))

    yield send
    await publisher.stop()


@pytest.mark.timeout(120)
async def test_usage_on_the_bus_becomes_rows_and_entries(
    postgres: Postgres,
    dsn: str,
    account: str,
    kafka: str,
    publish: Callable[[Topic, str, EventData], Awaitable[None]],
) -> None:
    service = build(settings(dsn, kafka=KafkaSettings(bootstrap=kafka), router_address=f"127.0.0.1:{pick_free_port()}"))
    admin = await admin_of(postgres, dsn)
    version = f"v-{uuid7_hex()}"
    since_ms = int(time.time() * 1000) - 5_000
    await publish(
        ROUTER_CATALOG,
        "sim-bus:free",
        ModelPublished(
            id="sim-bus:free",
            version=1,
            vendor="Simulated",
            name="Sim",
            free=True,
            endpoints=("chat",),
            price=Price(version=version, input=2_000_000_000, output=8_000_000_000),
        ),
    )
    await admin.execute(
        "select credit($1, 5, 'top_up', $1, gen_random_uuid(), gen_random_uuid(), utc_day() - date '1970-01-01')",
        account,
    )
    await service.start()
    try:
        await eventually(lambda: _none(service.problems()))
        said = UsageRecorded(
            request_id=uuid7_hex(),
            line=0,
            account_id=account,
            key_id="key_1",
            endpoint="chat",
            model="sim-bus:free",
            vendor="Simulated",
            price_version=version,
            billing_kind="free",
            outcome="completed",
            prompt_tokens=100,
            completion_tokens=50,
            cached_tokens=0,
            cache_write_tokens=0,
            estimated=False,
            descriptor="",
            started_at_ms=since_ms,
        )
        await publish(EDGE_USAGE, account, said)
        await publish(EDGE_USAGE, account, said)

        async def settled() -> Any:
            return await admin.fetchrow("select cost, catalog from usage_row where account_id = $1", account)

        assert tuple(await eventually(settled)) == (0, 600_000)

        async def told() -> list[Any]:
            topics = (LEDGER_ENTRIES, LEDGER_STATES)
            read = read_to_end(KafkaSettings(bootstrap=kafka), topics, since_ms)
            found = [one.envelope async for one in read if one.envelope.subject == account]
            # The state of an account that the topic lacks is there from the start.
            return [event for event in found if event.type != AccountState.TYPE]

        events = await eventually(told)
        assert [event.type for event in events] == [UsageSettled.TYPE]
        assert events[0].data["request_id"] == said.request_id
        assert {"edge.usage.v1", "router.catalog.v1"} <= set(str(service.asyncapi).replace("'", " ").split())
    finally:
        await service.stop()
        await admin.close()


async def _none(problems: list[str]) -> bool:
    return not problems


async def test_every_metric_is_declared_once(dsn: str) -> None:
    service = build(settings(dsn))
    telemetry: Telemetry = service.telemetry

    names = {spec.name for spec in declared.ALL}

    assert len(names) == len(declared.ALL)
    exported = telemetry.scrape().decode()
    assert all(spec.exported in exported for spec in declared.ALL if not spec.name.endswith("price.misses"))
