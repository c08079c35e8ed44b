"""Prices as the catalogue file has them, and the price version and price lines they become. Pure.

Used by document.py, which says where a price may stand, and by cards.py.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from libs.core.money import PER_RUPIAH
from libs.events.router import Price, PriceLine
from services.router.catalog.fields import Dollars, Entry, MicroIdr, Rupiah

Unit = Literal["image", "second", "1k_chars", "song", "page", "call"]

TOKEN_ITEMS = ("input", "output", "cache_read", "cache_write")
# What a unit is called as a line of the price list; pages and calls are in no list (contract: Prices in the list).
_UNIT_ITEMS = {
    "images": "output_image",
    "videos": "output_video",
    "audio_speech": "output_audio",
    "audio_transcription": "input_audio",
    "music": "output_audio",
}
UNIT_OF: dict[str, Unit] = {
    "images": "image",
    "videos": "second",
    "audio_speech": "1k_chars",
    "audio_transcription": "second",
    "music": "song",
}
"""What the endpoints that are not billed by tokens are billed by (contract: What each endpoint is billed by)."""


class RupiahPrices(Entry):
    """Rupiah per million tokens."""

    input: Rupiah
    output: Rupiah
    cache_read: Rupiah | None = None
    cache_write: Rupiah | None = None


class MicroPrices(Entry):
    """Micro-Rupiah per million tokens."""

    input: MicroIdr
    output: MicroIdr
    cache_read: MicroIdr | None = None
    cache_write: MicroIdr | None = None


NO_TOKEN_PRICES = MicroPrices(input=0, output=0)


class DollarPrices(Entry):
    """US dollars per million tokens, as texts with at most six decimals, so that they stay exact."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None


class Exchange(Entry):
    """What a US dollar costs in Rupiah, and since which day that is said."""

    usd_idr: Annotated[int, Field(strict=True, ge=1, le=100_000)]
    as_of: date


class Priced(Entry):
    """Something with token prices, in one of three ways."""

    rupiah_per_1m_tokens: RupiahPrices | None = None
    micro_idr_per_1m_tokens: MicroPrices | None = None
    usd_per_1m_tokens: DollarPrices | None = None

    @model_validator(mode="after")
    def _given_in_one_way(self) -> Self:
        ways = (self.rupiah_per_1m_tokens, self.micro_idr_per_1m_tokens, self.usd_per_1m_tokens)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("prices are given in more than one way: keep one")
        return self

    @property
    def has_prices(self) -> bool:
        return bool(self.rupiah_per_1m_tokens or self.micro_idr_per_1m_tokens or self.usd_per_1m_tokens)

    @property
    def costs_nothing(self) -> bool:
        """Whether its input and output prices are both 0."""
        prices = self.prices(1)
        return prices is None or not (prices.input or prices.output)

    def prices(self, usd_idr: int) -> MicroPrices | None:
        """The prices in micro-Rupiah per million tokens at that many Rupiah for a dollar; None when there are none."""
        if self.rupiah_per_1m_tokens is not None:
            rupiah = self.rupiah_per_1m_tokens.model_dump(exclude_none=True)
            return MicroPrices(**{item: amount * PER_RUPIAH for item, amount in rupiah.items()})
        if self.usd_per_1m_tokens is not None:
            dollars = self.usd_per_1m_tokens.model_dump(exclude_none=True)
            # Six decimals of a dollar times whole Rupiah are whole micro-Rupiah.
            return MicroPrices(**{item: int(Decimal(text) * PER_RUPIAH) * usd_idr for item, text in dollars.items()})
        return self.micro_idr_per_1m_tokens


class Amount(Entry):
    """One amount, in Rupiah or in micro-Rupiah."""

    rupiah: Rupiah | None = None
    micro_idr: MicroIdr | None = None

    @model_validator(mode="after")
    def _given_once(self) -> Self:
        if (self.rupiah is None) == (self.micro_idr is None):
            raise ValueError("a price is given once: as rupiah or as micro_idr")
        return self

    def micros(self) -> int:
        """The amount in micro-Rupiah."""
        return self.micro_idr if self.micro_idr is not None else (self.rupiah or 0) * PER_RUPIAH


class UnitPrice(Amount):
    """The price of one ``per``: an image, a second, a song."""

    per: Unit

    @model_validator(mode="after")
    def _above_nothing(self) -> Self:
        if not self.micros():
            raise ValueError("the price of a unit must be above 0")
        return self


def units_of(endpoints: Iterable[str]) -> set[Unit]:
    """The units other than tokens that these endpoints are billed by."""
    return {UNIT_OF[endpoint] for endpoint in endpoints if endpoint in UNIT_OF}


def price_of(prices: MicroPrices | None, per: str | None = None, unit: int | None = None) -> Price:
    """A price version, named by its content: the same figures have the same version for ever.

    ``unit`` is the price of one ``per`` in micro-Rupiah, of what is not billed by tokens.
    """
    prices = prices or NO_TOKEN_PRICES
    figures = [getattr(prices, name) for name in TOKEN_ITEMS]
    content = "IDR|token_1m|" + "|".join("-" if amount is None else str(amount) for amount in figures)
    if per is not None:
        content += f"|{per}|{unit}"
    version = f"price_{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    return Price(
        version=version,
        input=prices.input,
        output=prices.output,
        cache_read=prices.cache_read,
        cache_write=prices.cache_write,
        unit=unit,
    )


def lines_of(endpoints: tuple[str, ...], price: Price) -> Iterator[PriceLine]:
    """One line for each billable item: token prices where tokens are billed, the unit's where units are."""
    by_tokens = [endpoint for endpoint in endpoints if endpoint not in UNIT_OF]
    for item in TOKEN_ITEMS if by_tokens else ():
        amount = getattr(price, item)
        if amount is not None:
            yield PriceLine(endpoint=by_tokens[0], billable=item, unit="token_1m", micro_idr=amount)
    for endpoint in endpoints:
        if endpoint in UNIT_OF and price.unit is not None:
            yield PriceLine(
                endpoint=endpoint, billable=_UNIT_ITEMS[endpoint], unit=UNIT_OF[endpoint], micro_idr=price.unit
            )


assert set(_UNIT_ITEMS) == set(UNIT_OF)
assert set(UNIT_OF.values()) < set(get_args(Unit))
