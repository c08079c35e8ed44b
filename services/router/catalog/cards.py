"""From the checked file and what providers list to what is for sale: one card and its servers per model. Pure.

Called by services/router/keeper.py at start and whenever a provider's list changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from libs.events.router import ModelPublished, Price
from services.router.catalog import document as doc
from services.router.catalog.load import CatalogFile, Provider
from services.router.catalog.prices import lines_of, price_of
from services.router.domain import Server

_OURSELVES = "kenari"


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
    """Everything for sale and every upstream in use, by id, and the fees of tools."""

    offers: Mapping[str, Offer]
    upstreams: Mapping[str, Upstream]
    fees: tuple[ModelPublished, ...] = ()

    def cards(self) -> Iterator[ModelPublished]:
        """All that is published: models and fees."""
        yield from (offer.card for offer in self.offers.values())
        yield from self.fees


Listings = Mapping[str, tuple[Listed, ...]]
"""What each provider with ``discover`` lists, by its id; a provider that never answered is absent."""


def assemble(file: CatalogFile, listings: Listings) -> Catalog:
    """Return what can be called now; a model that no provider in use serves is left out."""
    providers = {provider.id: provider for provider in file.providers}
    upstreams = {
        credential.id: Upstream(credential.id, provider, credential.secret)
        for provider in file.providers
        for credential in provider.credentials
    }
    entries = {model.id: model for model in file.models}
    offers: dict[str, Offer] = {}
    for model in file.models:
        servers = _servers(model, providers, listings)
        if servers:
            # A free model shows the price of its paid version, where there is one.
            paid = entries.get(model.id.removesuffix(doc.FREE_SUFFIX))
            offers[model.id] = Offer(_card(model, _price(paid)), servers)
    if file.discovered is not None:
        listed_in_file = frozenset(entries)
        for found, found_servers in _found(file, listings, listed_in_file).values():
            offers[found.id] = Offer(_found_card(found, file.discovered), tuple(found_servers))
    return Catalog(offers, upstreams, tuple(_fee_card(fee) for fee in file.fees))


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


def _price(model: doc.ModelEntry | None) -> Price:
    if model is None:
        return price_of(None)
    unit = model.unit_price
    return price_of(model.prices(), unit.per, unit.micros()) if unit is not None else price_of(model.prices())


def _card(model: doc.ModelEntry, price: Price) -> ModelPublished:
    inputs = model.modalities.input
    if "chat" in model.endpoints and "file" not in inputs:
        # The gateway reads attached documents for any chat model (contract: Models and pricing > Response).
        inputs = (*inputs, "file")
    return ModelPublished(
        **_said(model),
        id=model.id,
        version=0,
        vendor=model.vendor,
        name=model.name or model.id,
        free=model.free,
        endpoints=model.endpoints,
        input_modalities=inputs,
        output_modalities=model.modalities.output,
        price=price,
        price_lines=() if model.free else tuple(lines_of(model.endpoints, price)),
        subscribers_only=model.subscribers_only,
        free_rpm=model.free_rpm,
        free_daily=model.free_daily,
        free_token_budget=model.free_token_budget,
    )


def _found_card(listed: Listed, defaults: doc.DiscoveredDefaults) -> ModelPublished:
    price = price_of(defaults.prices())
    return ModelPublished(
        **_said(defaults),
        id=listed.id,
        version=0,
        vendor=listed.vendor,
        name=listed.id,
        free=False,
        endpoints=("chat",),
        input_modalities=("text", "file"),
        price=price,
        price_lines=tuple(lines_of(("chat",), price)),
    )


def _said(limits: doc.Limits) -> dict[str, Any]:
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


def _fee_card(fee: doc.FeeEntry) -> ModelPublished:
    return ModelPublished(
        id=fee.id,
        version=0,
        kind="fee",
        vendor=_OURSELVES,
        name=fee.id,
        free=False,
        endpoints=(),
        input_modalities=(),
        output_modalities=(),
        price=price_of(None, fee.per, fee.micros()),
    )
