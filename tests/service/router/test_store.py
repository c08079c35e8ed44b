"""The catalogue in PostgreSQL: applied as often as one likes, every change once, nothing ever rewritten."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from pydantic import SecretStr

from libs.core.clock import SystemClock
from libs.core.settings import DatabaseSettings, TelemetrySettings
from libs.db.database import Database
from libs.db.migrate import folders
from libs.events.base import decode
from libs.events.router import ModelPublished
from libs.ops.telemetry import Telemetry
from services.router.catalog.cards import Listed
from services.router.catalog.prices import MicroPrices, price_of
from services.router.store import Store


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    opened = Database(DatabaseSettings(dsn=SecretStr(dsn)), Telemetry("router", TelemetrySettings()))
    await opened.start()
    yield opened
    await opened.stop()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, SystemClock())


def card(name: str, micro_idr: int = 1) -> ModelPublished:
    price = price_of(MicroPrices(input=micro_idr, output=micro_idr))
    return ModelPublished(id=name, version=0, vendor="v", name=name, free=False, endpoints=("chat",), price=price)


async def sent(database: Database) -> list[tuple[str, int | None]]:
    """(model, version or None for a tombstone) of every event in the outbox."""
    rows = await database.pool.fetch("select key, body from outbox order by id")
    return [(row["key"], decode(row["body"]).data["version"] if row["body"] else None) for row in rows]


async def test_the_same_catalogue_changes_and_publishes_nothing_the_second_time(
    store: Store, database: Database
) -> None:
    first = await store.apply([card("a"), card("b")])
    assert (sorted(first.published), first.withdrawn, first.catalog_version) == (["a", "b"], (), 2)
    again = await store.apply([card("b"), card("a")])
    assert (again.published, again.withdrawn, again.catalog_version) == ((), (), 2)
    assert await sent(database) == [("a", 1), ("b", 1)]


async def test_a_new_price_is_a_new_revision_and_the_old_price_stays(store: Store, database: Database) -> None:
    await store.apply([card("a", 1), card("b", 1)])
    changed = await store.apply([card("a", 2), card("b", 1)])
    assert changed.published == ("a",)
    assert await sent(database) == [("a", 1), ("b", 1), ("a", 2)]
    old = await store.price(card("a", 1).price.version)
    assert old is not None
    assert old.input == 1
    assert await store.price("price_never") is None


async def test_the_price_of_a_unit_is_kept_like_every_other(store: Store) -> None:
    price = price_of(None, "image", 500_000_000)
    await store.apply([card("painter").model_copy(update={"price": price, "endpoints": ("images",)})])
    assert await store.price(price.version) == price


async def test_what_was_stored_before_a_field_existed_is_no_change_of_the_catalogue(
    store: Store, database: Database
) -> None:
    await store.apply([card("a")])
    await database.pool.execute("update model set content = content - 'kind' - 'subscribers_only'")
    assert (await store.apply([card("a")])).published == ()
    assert [key async for key, _ in store.every_model_event()] == ["a"]


async def test_a_model_that_leaves_is_taken_off_and_comes_back_under_a_higher_version(
    store: Store, database: Database
) -> None:
    await store.apply([card("a"), card("b")])
    gone = await store.apply([card("b")])
    assert gone.withdrawn == ("a",)
    assert [key async for key, _ in store.every_model_event()] == ["b"]
    await store.apply([card("a"), card("b")])
    assert await sent(database) == [("a", 1), ("b", 1), ("a", None), ("a", 3)]
    assert [key async for key, _ in store.every_model_event()] == ["a", "b"]


async def test_routers_that_start_together_publish_each_change_once(store: Store, database: Database) -> None:
    applied = await asyncio.gather(*(store.apply([card("a"), card("b")]) for _ in range(4)))
    assert sorted(len(one.published) for one in applied) == [0, 0, 0, 2]
    assert await sent(database) == [("a", 1), ("b", 1)]


async def test_a_listing_is_kept_for_the_address_it_came_from(store: Store) -> None:
    await store.keep_listing("openai", "http://a", (Listed("m", "v"),))
    await store.keep_listing("openai", "http://b", (Listed("n", "v"),))
    assert await store.listings() == {("openai", "http://b"): (Listed("n", "v"),)}


async def test_the_schema_keeps_its_promises(database: Database) -> None:
    for script in sorted(folders()["router"].glob("*.test.sql")):
        async with database.pool.acquire() as conn:
            transaction = conn.transaction()
            await transaction.start()
            await conn.execute(script.read_text())
            await transaction.rollback()


async def test_prices_cannot_be_rewritten(store: Store, database: Database) -> None:
    await store.apply([card("a")])
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await database.pool.execute("update price_version set input = 0")
