"""Price versions: in memory once used, in the database for ever, else from the router.

Called by service.py for every call; the catalogue's table and the router's RPC are where new versions come from.
"""

import asyncio
import logging
from typing import Protocol

from libs.core.errors import KenariError
from libs.core.pricing import Price
from libs.events.router import ModelPublished
from libs.ops.telemetry import Telemetry
from services.ledger.domain.calls import NotDoneError
from services.ledger.telemetry import PRICE_MISSES

log = logging.getLogger("kenari.ledger")


class Kept(Protocol):
    """Where used versions are stored (store.py)."""

    async def price(self, version: str) -> Price | None: ...

    async def keep_price(self, price: Price) -> Price: ...


class Asked(Protocol):
    """Whom to ask for a version nobody here has heard of (clients.py)."""

    async def price(self, version: str) -> Price | None: ...


class Prices:
    """Looks up price versions. A version is stored before anything refers to it."""

    def __init__(self, kept: Kept, router: Asked, telemetry: Telemetry) -> None:
        self._kept = kept
        self._router = router
        self._known: dict[str, Price] = {}
        self._heard: dict[str, Price] = {}
        self._one_at_a_time = asyncio.Lock()
        self._misses = telemetry.metrics.counter(PRICE_MISSES)

    def known(self, version: str) -> Price | None:
        """The version if it is in memory and stored."""
        return self._known.get(version)

    def heard(self, model_id: str, model: ModelPublished | None) -> None:
        """Take a version in from the catalogue's table; it is stored when first used."""
        del model_id
        if model is not None:
            price = model.price
            self._heard[price.version] = Price(
                price.version, price.input, price.output, price.cache_read, price.cache_write, price.unit
            )

    async def load(self, version: str) -> Price:
        """Find and store a version; raise NotDoneError (``unknown_price``) when nobody can tell it now."""
        async with self._one_at_a_time:
            price = self._known.get(version) or await self._kept.price(version)
            if price is None:
                price = await self._kept.keep_price(await self._find(version))
            self._known[version] = price
            return price

    async def _find(self, version: str) -> Price:
        price = self._heard.get(version)
        if price is not None:
            self._misses.labels("table").inc()
            return price
        try:
            price = await self._router.price(version)
        except KenariError as error:
            log.warning("price not to be had", extra={"reason": error.reason})
        if price is None:
            self._misses.labels("nowhere").inc()
            raise NotDoneError(f"nobody knows the price version {version}", reason="unknown_price")
        self._misses.labels("router").inc()
        return price
