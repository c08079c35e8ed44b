"""From the checked file and what providers list to what is for sale: one card and its servers per model. Pure.

Called by services/router/keeper.py at start and whenever a provider's list changes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from libs.events.router import ModelPublished, Price, PriceLine
from services.router.catalog import document as doc
from services.router.catalog.load import CatalogFile, Provider
from services.router.domain import Server

_LINES = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class Listed:
    """A model as a provider lists it."""

    id: str
    vendor: str


@dataclass(frozen=True)
class Upstream:
    """A provider reached with one of its credentials; the unit of health."""

    id: str
    provider: Provider
    credential: str

    def __repr__(self) -> str:
        return f"Upstream({self.id!r})"


@dataclass(frozen=True)
class Offer:
    """A model for sale: its card (version 0 until the database has given it one) and who serves it."""

    card: ModelPublished
    servers: tuple[Server, ...]


@dataclass(frozen=True)
class Catalog:
    """Everything for sale and every upstream in use, by id."""

    offers: Mapping[str, Offer]
    upstreams: Mapping[str, Upstream]


Listings = Mapping[str, tuple[Listed, ...]]
"""What each provider with ``discover`` lists, by its id; a provider that never answered is absent."""


def price_of(prices: doc.MicroPrices | None) -> Price:
    """A price version, named by its content: the same figures have the same version for ever."""
    if prices is None:
        prices = doc.MicroPrices(input=0, output=0)
    figures = [getattr(prices, name) for name in _LINES]
    content = "IDR|token_1m|" + "|".join("-" if amount is None else str(amount) for amount in figures)
    version = f"price_{hashlib.sha256(content.encode()).hexdigest()[:20]}"
    return Price(
        version=version,
        input=prices.input,
        output=prices.output,
        cache_read=prices.cache_read,
        cache_write=prices.cache_write,
    )


def assemble(file: CatalogFile, listings: Listings) -> Catalog:
    """Return what can be called now; a model that no provider in use serves is left out."""
    providers = {provider.id: provider for provider in file.providers}
    upstreams = {
        credential.id: Upstream(credential.id, provider, credential.secret)
        for provider in file.providers
        for credential in provider.credentials
    }
    prices = {model.id: model.prices() for model in file.models}
    offers: dict[str, Offer] = {}
    for model in file.models:
        paid = prices.get(model.id.removesuffix(doc.FREE_SUFFIX)) if model.free else prices[model.id]
        servers = _servers(model, providers, listings)
        if servers:
            offers[model.id] = Offer(_card(model, paid), servers)
    if file.discovered is not None:
        listed_in_file = frozenset(prices)
        for found, found_servers in _found(file, listings, listed_in_file).values():
            offers[found.id] = Offer(_found_card(found, file.discovered), tuple(found_servers))
    return Catalog(offers, upstreams)


def _servers(model: doc.ModelEntry, providers: Mapping[str, Provider], listings: Listings) -> tuple[Server, ...]:
    servers = []
    for serving in model.served_by:
        provider = providers.get(serving.provider)
        name = serving.upstream_model or model.id.removesuffix(doc.FREE_SUFFIX)
        if provider is None or (provider.discover and not _lists(listings, provider, name)):
            continue
        servers += [Server(credential.id, name, serving.order, serving.weight) for credential in provider.credentials]
    return tuple(servers)


def _lists(listings: Listings, provider: Provider, upstream_model: str) -> bool:
    return any(listed.id == upstream_model for listed in listings.get(provider.id, ()))


def _found(
    file: CatalogFile, listings: Listings, listed_in_file: frozenset[str]
) -> dict[str, tuple[Listed, list[Server]]]:
    found: dict[str, tuple[Listed, list[Server]]] = {}
    for order, provider in enumerate(file.providers):
        for listed in listings.get(provider.id, ()) if provider.discover else ():
            if listed.id in listed_in_file:
                continue
            _, servers = found.setdefault(listed.id, (listed, []))
            servers += [Server(credential.id, listed.id, order, 1) for credential in provider.credentials]
    return found


def _card(model: doc.ModelEntry, prices: doc.MicroPrices | None) -> ModelPublished:
    inputs = model.modalities.input
    if "chat" in model.endpoints and "file" not in inputs:
        # The gateway reads attached documents for any chat model (contract: Models and pricing > Response).
        inputs = (*inputs, "file")
    return _publish(
        model,
        id=model.id,
        vendor=model.vendor,
        name=model.name or model.id,
        free=model.free,
        endpoints=model.endpoints,
        inputs=inputs,
        outputs=model.modalities.output,
        prices=prices,
        free_rpm=model.free_rpm,
        free_daily=model.free_daily,
    )


def _found_card(listed: Listed, defaults: doc.DiscoveredDefaults) -> ModelPublished:
    return _publish(
        defaults,
        id=listed.id,
        vendor=listed.vendor,
        name=listed.id,
        free=False,
        endpoints=("chat",),
        inputs=("text", "file"),
        outputs=("text",),
        prices=defaults.prices(),
        free_rpm=None,
        free_daily=None,
    )


def _publish(
    limits: doc.Limits,
    *,
    id: str,
    vendor: str,
    name: str,
    free: bool,
    endpoints: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    prices: doc.MicroPrices | None,
    free_rpm: int | None,
    free_daily: int | None,
) -> ModelPublished:
    price = price_of(prices)
    return ModelPublished(
        id=id,
        version=0,
        vendor=vendor,
        name=name,
        free=free,
        endpoints=endpoints,
        input_modalities=inputs,
        output_modalities=outputs,
        context_length=limits.context_length,
        max_input_tokens=limits.max_input_tokens,
        max_output_tokens=limits.max_output_tokens,
        reasoning=limits.reasoning,
        reasoning_options=limits.reasoning_options,
        reasoning_toggle=limits.reasoning_toggle,
        tool_call=limits.tool_call,
        price=price,
        price_lines=() if free else _lines(endpoints[0], price),
        free_rpm=free_rpm,
        free_daily=free_daily,
    )


def _lines(endpoint: str, price: Price) -> tuple[PriceLine, ...]:
    amounts = ((name, getattr(price, name)) for name in _LINES)
    return tuple(
        PriceLine(endpoint=endpoint, billable=name, unit="token_1m", micro_idr=amount)
        for name, amount in amounts
        if amount is not None
    )
