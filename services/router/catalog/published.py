"""Entries of the catalogue file as cards: what is published about a model, a fee, the rate of exchange. Pure.

Called by cards.py beside it.
"""

from typing import Any

from libs.core.money import PER_RUPIAH
from libs.events.router import Media, ModelPublished, Price, PriceChange, Revision
from services.router.catalog.document import DiscoveredDefaults, FeeEntry
from services.router.catalog.models import Limits, ModelEntry
from services.router.catalog.models import PriceChange as ChangeEntry
from services.router.catalog.prices import Exchange, lines_of, price_of

_OURSELVES = "kenari"


def model_card(model: ModelEntry, paid: ModelEntry | None, usd_idr: int, now_s: int) -> ModelPublished:
    """The card of a model at that time, version 0; ``paid`` is the model whose price it shows, itself or another."""
    price = _price(paid.prices_at(now_s), usd_idr) if paid is not None else price_of(None)
    market = model.market_rupiah_per_1m_tokens
    return ModelPublished(
        **_said(model),
        id=model.id,
        version=0,
        vendor=model.vendor,
        name=model.name or model.id,
        free=model.free,
        endpoints=model.endpoints,
        input_modalities=_inputs(model),
        output_modalities=model.modalities.output,
        price=price,
        price_lines=() if model.free else tuple(lines_of(model.endpoints, price)),
        media=Media(**given) if (given := model.media.model_dump(exclude_unset=True)) else None,
        market_input=_micros(market.input) if market is not None else None,
        market_output=_micros(market.output) if market is not None else None,
        upcoming_price=_upcoming(model, usd_idr, now_s),
        revision=_revision(model),
        subscribers_only=model.subscribers_only,
        free_rpm=model.free_rpm,
        free_daily=model.free_daily,
        free_token_budget=model.free_token_budget,
        sunset_at=model.retires.at if model.retires is not None else None,
        successor=model.retires.successor if model.retires is not None else None,
    )


def found_card(name: str, vendor: str, defaults: DiscoveredDefaults, usd_idr: int) -> ModelPublished:
    """The card of a model that a provider lists and the file does not."""
    price = price_of(defaults.prices(usd_idr))
    return ModelPublished(
        **_said(defaults),
        id=name,
        version=0,
        vendor=vendor,
        name=name,
        free=False,
        endpoints=("chat",),
        input_modalities=("text", "file"),
        price=price,
        price_lines=tuple(lines_of(("chat",), price)),
    )


def fee_card(fee: FeeEntry) -> ModelPublished:
    """A fee with its price version."""
    return _uncalled("fee", fee.id, fee.id, price_of(None, fee.per, fee.micros()))


def rate_card(exchange: Exchange) -> ModelPublished:
    """What a dollar costs, and the day of that rate in the name."""
    price = price_of(None, "dollar", exchange.usd_idr * PER_RUPIAH)
    return _uncalled("rate", "usd_idr", exchange.as_of.isoformat(), price)


def _uncalled(kind: str, name: str, title: str, price: Price) -> ModelPublished:
    nothing: dict[str, Any] = {"endpoints": (), "input_modalities": (), "output_modalities": ()}
    told = {"id": name, "version": 0, "kind": kind, "vendor": _OURSELVES, "name": title, "free": False}
    return ModelPublished(**told, **nothing, price=price)


def _price(priced: ModelEntry | ChangeEntry, usd_idr: int) -> Price:
    unit = priced.unit_price
    if unit is None:
        return price_of(priced.prices(usd_idr))
    return price_of(priced.prices(usd_idr), unit.per, unit.micros())


def _upcoming(model: ModelEntry, usd_idr: int, now_s: int) -> PriceChange | None:
    change = model.next_change(now_s)
    return PriceChange(effective_at=change.at, price=_price(change, usd_idr)) if change is not None else None


def _revision(model: ModelEntry) -> Revision | None:
    said = model.revision
    if said is None:
        return None
    note = said.note
    return Revision(name=said.name, at=said.at, note_id=note.id if note else None, note_en=note.en if note else None)


def _inputs(model: ModelEntry) -> tuple[str, ...]:
    inputs = model.modalities.input
    # The gateway reads attached documents for any chat model (contract: Models and pricing > Response).
    return (*inputs, "file") if "chat" in model.endpoints and "file" not in inputs else inputs


def _micros(rupiah: int | None) -> int | None:
    return rupiah * PER_RUPIAH if rupiah is not None else None


def _said(limits: Limits) -> dict[str, Any]:
    """What a card repeats as the file says it."""
    return {
        "context_length": limits.context_length,
        "max_input_tokens": limits.max_input_tokens,
        "max_output_tokens": limits.max_output_tokens,
        "reasoning": limits.reasoning,
        "reasoning_options": limits.reasoning_options,
        "reasoning_toggle": limits.reasoning_toggle,
        "tool_call": limits.tool_call,
    }
