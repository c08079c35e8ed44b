"""From the checked file and what providers list to what is for sale: one card and its servers per model. Pure.

Called by services/router/keeper.py at start and whenever a provider's list changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from libs.events.router import ModelPublished
from services.router.catalog.load import CatalogFile, Provider
from services.router.catalog.models import FREE_SUFFIX, ModelEntry
from services.router.catalog.published import fee_card, found_card, model_card, rate_card
from services.router.domain import Server


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
    """Everything for sale and every upstream in use, by id.

    ``forwards`` are retired models whose requests go to another. ``others`` is what is published and cannot be called:
    fees, the rate of exchange. ``changes_at`` is the Unix second at which time alone makes another catalogue of it.
    """

    offers: Mapping[str, Offer]
    upstreams: Mapping[str, Upstream]
    forwards: Mapping[str, str]
    others: tuple[ModelPublished, ...]
    changes_at: int | None

    def cards(self) -> Iterator[ModelPublished]:
        """All that is published."""
        yield from (offer.card for offer in self.offers.values())
        yield from self.others


Listings = Mapping[str, tuple[Listed, ...]]
"""What each provider with ``discover`` lists, by its id; a provider that never answered is absent."""


def assemble(file: CatalogFile, listings: Listings, now_s: int) -> Catalog:
    """Return what can be called at that time; a model that no provider in use serves is left out."""
    providers = {provider.id: provider for provider in file.providers}
    upstreams = {
        credential.id: Upstream(credential.id, provider, credential.secret)
        for provider in file.providers
        for credential in provider.credentials
    }
    entries = {model.id: model for model in file.models}
    usd_idr = file.exchange.usd_idr if file.exchange is not None else 0
    offers: dict[str, Offer] = {}
    for model in file.models:
        servers = () if _retired(model, now_s) else _servers(model, providers, listings)
        if servers:
            # A free model shows the price of its paid version, where there is one.
            paid = entries.get(model.id.removesuffix(FREE_SUFFIX))
            offers[model.id] = Offer(model_card(model, paid, usd_idr, now_s), servers)
    if file.discovered is not None:
        for found, found_servers in _found(file, listings, frozenset(entries)).values():
            card = found_card(found.id, found.vendor, file.discovered, usd_idr)
            offers[found.id] = Offer(card, tuple(found_servers))
    others = [fee_card(fee) for fee in file.fees]
    if file.exchange is not None:
        others.append(rate_card(file.exchange))
    return Catalog(offers, upstreams, _forwards(entries, now_s), tuple(others), _changes_at(file, now_s))


def _retired(model: ModelEntry, now_s: int) -> bool:
    return model.retires is not None and model.retires.at <= now_s


def _forwards(entries: Mapping[str, ModelEntry], now_s: int) -> dict[str, str]:
    """Retired models that forward, each to the first successor that is not retired itself."""
    forwards: dict[str, str] = {}
    for model in entries.values():
        last = model
        while last.retires is not None and _retired(last, now_s) and last.retires.forward:
            # Checked when the file was read: a forwarding model has a successor, and no chain of them is a ring.
            last = entries[last.retires.successor or ""]
        if last is not model:
            forwards[model.id] = last.id
    return forwards


def _changes_at(file: CatalogFile, now_s: int) -> int | None:
    moments = [change.at for model in file.models for change in model.price_changes]
    moments += [model.retires.at for model in file.models if model.retires is not None]
    return min((moment for moment in moments if moment > now_s), default=None)


def _servers(model: ModelEntry, providers: Mapping[str, Provider], listings: Listings) -> tuple[Server, ...]:
    servers = []
    for serving in model.served_by:
        provider = providers.get(serving.provider)
        name = serving.upstream_model or model.id.removesuffix(FREE_SUFFIX)
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
