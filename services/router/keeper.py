"""Keeps what is for sale up to date: the file at start, its dated changes and providers' lists while running.

Called by services/router/app.py (at start and as a periodic job).
"""

import asyncio
import logging

import aiohttp

from libs.core.clock import Clock
from libs.ops.telemetry import Telemetry
from services.router.catalog.cards import Listed, assemble
from services.router.catalog.discover import DiscoveryError, list_models
from services.router.catalog.load import CatalogFile, Provider
from services.router.service import Routing
from services.router.store import Store
from services.router.telemetry import CATALOG_VERSION, DISCOVERED, DISCOVERY_FAILURES

log = logging.getLogger("kenari.router")

FIRST_RETRY_S = 5.0


class CatalogKeeper:
    """Assembles file and lists into the catalogue, stores it, then sells it. The database comes first: a price
    version must be known before a request is priced with it."""

    def __init__(
        self, file: CatalogFile, store: Store, routing: Routing, clock: Clock, telemetry: Telemetry, every_s: float
    ) -> None:
        self._file = file
        self._store = store
        self._routing = routing
        self._clock = clock
        self._every_s = every_s
        self._listings: dict[str, tuple[Listed, ...]] = {}
        self._changes_at: int | None = None
        self._due_ms: dict[str, int] = {}
        self._wait_s: dict[str, float] = {}
        self._catalog_version = telemetry.metrics.gauge(CATALOG_VERSION)
        self._failures = telemetry.metrics.counter(DISCOVERY_FAILURES)
        self._discovered = telemetry.metrics.gauge(DISCOVERED)

    async def start(self) -> None:
        """Sell the file and what providers listed when they last answered; raise Transient without a database."""
        kept = await self._store.listings()
        places = {provider.id: (provider.id, provider.base_url) for provider in self._discovering()}
        await self._apply({name: kept[place] for name, place in places.items() if place in kept})

    async def keep_up(self) -> None:
        """Take in what the clock and the providers' lists have changed."""
        if self._changes_at is not None and self._changes_at * 1000 <= self._clock.now_ms():
            await self._apply(self._listings)
        await self._discover()

    async def _discover(self) -> None:
        """Ask every provider whose list is due; one that fails is asked again soon, later and later."""
        now_ms = self._clock.now_ms()
        due = [provider for provider in self._discovering() if self._due_ms.get(provider.id, 0) <= now_ms]
        if not due:
            return
        async with aiohttp.ClientSession(trust_env=True) as session:
            answers = await asyncio.gather(*(self._list(session, provider) for provider in due))
        listed = {provider.id: models for provider, models in zip(due, answers, strict=True) if models is not None}
        changed = {name: models for name, models in listed.items() if self._listings.get(name) != models}
        if changed:
            for provider in due:
                if provider.id in changed:
                    await self._store.keep_listing(provider.id, provider.base_url, changed[provider.id])
            await self._apply(self._listings | changed)
        for provider in due:
            wait_s = self._wait_s.get(provider.id, self._every_s)
            self._due_ms[provider.id] = self._clock.now_ms() + int(wait_s * 1000)

    async def _list(self, session: aiohttp.ClientSession, provider: Provider) -> tuple[Listed, ...] | None:
        try:
            listed = await list_models(session, provider)
        except DiscoveryError as error:
            self._failures.labels(provider.id, error.reason).inc()
            log.warning("models not listed", extra={"reason": str(error)})
            before = self._wait_s.get(provider.id, FIRST_RETRY_S / 2)
            self._wait_s[provider.id] = min(before * 2, self._every_s)
            return None
        self._wait_s.pop(provider.id, None)
        self._discovered.labels(provider.id).set(len(listed))
        return listed

    async def _apply(self, listings: dict[str, tuple[Listed, ...]]) -> None:
        catalog = assemble(self._file, listings, self._clock.now_ms() // 1000)
        applied = await self._store.apply(catalog.cards())
        self._listings = listings
        self._changes_at = catalog.changes_at
        self._routing.offer(catalog)
        self._catalog_version.set(applied.catalog_version)
        changed = len(applied.published), len(applied.withdrawn)
        if any(changed):
            log.info("catalogue changed: %d published, %d withdrawn", *changed)

    def _discovering(self) -> list[Provider]:
        return [provider for provider in self._file.providers if provider.discover]
