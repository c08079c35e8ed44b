"""The router's tables: models with their revisions, price versions, what providers listed. All SQL is here.

Called by keeper.py and rpc.py. Every change leaves its event in the outbox within the same transaction.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from libs.events.base import encode, envelope
from libs.events.router import ModelPublished, Price
from libs.events.topics import ROUTER_CATALOG
from libs.kafka.outbox import put
from services.router.catalog.cards import Listed

_PRICE = "version, input, output, cache_read, cache_write, unit"


@dataclass(frozen=True)
class Applied:
    """What applying a catalogue did: the version of each model for sale, the catalogue's own, what changed."""

    versions: Mapping[str, int]
    catalog_version: int
    published: tuple[str, ...]
    withdrawn: tuple[str, ...]


class Store:
    """Reads and writes of the router's database; every method raises DatabaseAwayError (Transient)."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def apply(self, cards: Iterable[ModelPublished]) -> Applied:
        """Make ``cards`` what is for sale: new revisions and events for what differs, nothing for what does not.

        Routers that start together take turns.
        """
        wanted = {card.id: card for card in cards}
        async with self._database.transaction() as conn:
            await conn.execute("select pg_advisory_xact_lock(hashtext('kenari.router.catalog'))")
            rows = await conn.fetch("select id, version, for_sale, content from model")
            known = {row["id"]: row for row in rows}
            versions: dict[str, int] = {}
            published, withdrawn = [], []
            for name, card in wanted.items():
                row = known.get(name)
                if row is not None and row["for_sale"] and _stored(row) == card.model_copy(update={"version": 0}):
                    versions[name] = row["version"]
                    continue
                versions[name] = row["version"] + 1 if row is not None else 1
                await self._publish(conn, card.model_copy(update={"version": versions[name]}))
                published.append(name)
            for name, row in known.items():
                if row["for_sale"] and name not in wanted:
                    await self._withdraw(conn, name)
                    withdrawn.append(name)
            number = await conn.fetchval("select coalesce(max(number), 0) from model_revision")
        return Applied(versions, number, tuple(published), tuple(withdrawn))

    async def _publish(self, conn: Any, card: ModelPublished) -> None:
        price = card.price
        await conn.execute(
            f"insert into price_version ({_PRICE}) values ($1, $2, $3, $4, $5, $6) on conflict (version) do nothing",
            price.version,
            price.input,
            price.output,
            price.cache_read,
            price.cache_write,
            price.unit,
        )
        content = json.dumps(_content(card))
        await conn.execute(
            "insert into model_revision (model_id, version, for_sale, content) values ($1, $2, true, $3)",
            card.id,
            card.version,
            content,
        )
        await conn.execute(
            "insert into model (id, version, for_sale, price_version, content) values ($1, $2, true, $3, $4)"
            " on conflict (id) do update set version = excluded.version, for_sale = true,"
            " price_version = excluded.price_version, content = excluded.content, changed_at = now()",
            card.id,
            card.version,
            price.version,
            content,
        )
        await put(conn, ROUTER_CATALOG, card.id, self._event(card))

    async def _withdraw(self, conn: Any, name: str) -> None:
        await conn.execute(
            "insert into model_revision (model_id, version, for_sale, content)"
            " select id, version + 1, false, content from model where id = $1",
            name,
        )
        await conn.execute(
            "update model set version = version + 1, for_sale = false, changed_at = now() where id = $1", name
        )
        await put(conn, ROUTER_CATALOG, name, None)

    def _event(self, card: ModelPublished) -> bytes:
        return encode(envelope(card, source="router", subject=card.id, now_ms=self._clock.now_ms()))

    async def every_model_event(self) -> AsyncIterator[tuple[str, bytes]]:
        """(key, event) of every model for sale: what belongs on router.catalog.v1."""
        async with self._database.connection() as conn:
            rows = await conn.fetch("select id, version, content from model where for_sale order by id")
        for row in rows:
            card = _stored(row).model_copy(update={"version": row["version"]})
            yield card.id, self._event(card)

    async def price(self, version: str) -> Price | None:
        """A price version, however old."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"select {_PRICE} from price_version where version = $1", version)
        return Price(**dict(row)) if row is not None else None

    async def listings(self) -> dict[tuple[str, str], tuple[Listed, ...]]:
        """What each provider listed last, by provider and base URL."""
        async with self._database.connection() as conn:
            rows = await conn.fetch("select provider, base_url, models from listing")
        return {
            (row["provider"], row["base_url"]): tuple(Listed(*entry) for entry in json.loads(row["models"]))
            for row in rows
        }

    async def keep_listing(self, provider: str, base_url: str, models: tuple[Listed, ...]) -> None:
        """Remember what a provider listed, so that a restart does not depend on it answering."""
        async with self._database.connection() as conn:
            await conn.execute(
                "insert into listing (provider, base_url, models) values ($1, $2, $3)"
                " on conflict (provider) do update set base_url = excluded.base_url, models = excluded.models,"
                " listed_at = now()",
                provider,
                base_url,
                json.dumps([[model.id, model.vendor] for model in models]),
            )


def _stored(row: Any) -> ModelPublished:
    """The card of a row, without its version. What was stored before a field existed has its default."""
    return ModelPublished(**json.loads(row["content"]), version=0)


def _content(card: ModelPublished) -> dict[str, Any]:
    """Everything a revision is made of; the version counts revisions and is no part of one."""
    return card.model_dump(mode="json", exclude={"version"})
