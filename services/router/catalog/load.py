"""Reads and checks deploy/catalog.yaml; every mistake is found in one go and told as ``file:line: reason``.

Called by services/router/app.py before anything starts and by the check command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from services.router.catalog import document as doc
from services.router.catalog import fields, models, prices
from services.router.catalog.links import check_dollars, check_providers, check_successors, close_to
from services.router.catalog.marks import CatalogError, Marked, Mistake, Path, read_marked

_SECTIONS = ("providers", "exchange", "models", "discovered", "fees")
_FIELDS = sorted(
    {
        name
        for entry in (
            doc.ProviderEntry,
            doc.Abilities,
            doc.Timeouts,
            models.ModelEntry,
            models.Modalities,
            models.Serving,
            models.Media,
            models.Retirement,
            models.Revision,
            models.PriceChange,
            prices.MicroPrices,
            prices.UnitPrice,
        )
        for name in entry.model_fields
    }
)

E = TypeVar("E", bound=fields.Entry)


@dataclass(frozen=True)
class Credential:
    """One key of a provider: ``id`` names the upstream in health and events, the secret stays in memory."""

    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Provider:
    """A provider in use: it has a credential (an empty one when it takes no key)."""

    id: str
    format: str
    base_url: str
    credentials: tuple[Credential, ...]
    discover: bool
    abilities: doc.Abilities
    timeouts: doc.Timeouts


@dataclass(frozen=True)
class CatalogFile:
    """The checked file: providers in use, all models, what discovered models get, fees, what a dollar costs."""

    providers: tuple[Provider, ...]
    models: tuple[models.ModelEntry, ...]
    discovered: doc.DiscoveredDefaults | None
    fees: tuple[doc.FeeEntry, ...] = ()
    exchange: prices.Exchange | None = None


def load(file: FilePath, environment: Mapping[str, str]) -> CatalogFile:
    """Read ``file``; raise CatalogError with all mistakes. Keys and URLs come from ``environment``."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogError(str(file), [Mistake(1, f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise CatalogError(str(file), [Mistake(1, "is not UTF-8 text")]) from error
    marked = read_marked(text, str(file))
    loaded = _Check(marked, dict(environment)).run()
    if marked.mistakes:
        raise CatalogError(str(file), marked.mistakes)
    return loaded


class _Check:
    """One pass over a document: entries one by one, then what they say about each other."""

    def __init__(self, marked: Marked, environment: dict[str, str]) -> None:
        self._marked = marked
        self._environment = environment

    def run(self) -> CatalogFile:
        data = self._marked.data
        if not isinstance(data, dict):
            self._marked.wrong(1, "the file must have the sections providers and models")
            data = {}
        for name in data:
            if name not in _SECTIONS:
                self._marked.wrong(self._marked.key_line((name,)), _unknown(name, _SECTIONS))
        providers = self._entries(data, "providers", doc.ProviderEntry)
        listed = self._entries(data, "models", models.ModelEntry)
        fees = self._entries(data, "fees", doc.FeeEntry) if "fees" in data else {}
        discovered = self._section(data, "discovered", doc.DiscoveredDefaults)
        exchange = self._section(data, "exchange", prices.Exchange)
        check_providers(self._marked, data, listed)
        check_successors(self._marked, listed)
        if data.get("exchange") is None:
            check_dollars(self._marked, _priced(listed, discovered))
        for number, provider in providers.items():
            if provider.discover and data.get("discovered") is None:
                line = self._marked.line(("providers", number, "discover"))
                self._marked.wrong(line, "discover needs the section 'discovered' with a default price")
        in_use = [self._in_use(number, provider) for number, provider in providers.items()]
        used = tuple(provider for provider in in_use if provider is not None)
        return CatalogFile(used, tuple(listed.values()), discovered, tuple(fees.values()), exchange)

    def _section(self, data: dict[str, Any], name: str, kind: type[E]) -> E | None:
        return self._entry(kind, data[name], (name,)) if data.get(name) is not None else None

    def _entries(self, data: dict[str, Any], section: str, kind: type[E]) -> dict[int, E]:
        items = data.get(section)
        if not isinstance(items, list) or not items:
            self._marked.wrong(self._marked.key_line((section,)), f"{section!r} must be a list with at least one entry")
            return {}
        entries: dict[int, E] = {}
        first: dict[str, int] = {}
        for number, item in enumerate(items):
            path: Path = (section, number)
            if isinstance(item, dict) and isinstance(name := item.get("id"), str):
                line = self._marked.line((*path, "id"))
                if name in first:
                    self._marked.wrong(line, f"{name!r} is already in the list, in line {first[name]}")
                first.setdefault(name, line)
            entry = self._entry(kind, item, path)
            if entry is not None:
                entries[number] = entry
        return entries

    def _entry(self, kind: type[E], item: Any, path: Path) -> E | None:
        try:
            return kind.model_validate(item)
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                self._told(problem, path)
            return None

    def _told(self, problem: Any, base: Path) -> None:
        path: Path = (*base, *problem["loc"])
        name, kind = path[-1], problem["type"]
        line = self._marked.line(path)
        if kind == "extra_forbidden":
            line = self._marked.key_line(path)
            reason = _unknown(str(name), _FIELDS)
        elif kind == "missing":
            line = self._marked.line(path[:-1])
            reason = f"{name!r} is missing"
        elif kind == "value_error":
            reason = str(problem["ctx"]["error"])
            if len(path) > len(base):
                reason = f"{_label(path)}: {reason}"
        else:
            reason = f"{_label(path)} {_must(kind, problem)}"
        self._marked.wrong(line, reason)

    def _in_use(self, number: int, entry: doc.ProviderEntry) -> Provider | None:
        path: Path = ("providers", number)
        keys = {name: self._environment.get(name, "").strip() for name in entry.key_env}
        credentials = [Credential(f"{entry.id}/{name}", secret) for name, secret in keys.items() if secret]
        for credential in credentials:
            if not (credential.secret.isascii() and credential.secret.isprintable()):
                reason = f"the key in {credential.id.partition('/')[2]} has characters no key can have"
                self._marked.wrong(self._marked.line((*path, "key_env")), reason)
        if entry.key_env and not credentials:
            return None
        base_url = ""
        if entry.base_url is not None:
            line = self._marked.line((*path, "base_url"))
            try:
                base_url = fields.expand(entry.base_url, self._environment).rstrip("/")
            except KeyError as error:
                self._marked.wrong(line, f"{error.args[0]} is not set and has no default")
                return None
            if problem := fields.url_problem(base_url):
                self._marked.wrong(line, problem)
        return Provider(
            entry.id,
            entry.format,
            base_url,
            tuple(credentials) or (Credential(f"{entry.id}/default", ""),),
            entry.discover,
            entry.abilities.settled(entry.format),
            entry.timeouts,
        )


def _priced(
    listed: Mapping[int, models.ModelEntry], discovered: doc.DiscoveredDefaults | None
) -> dict[Path, prices.Priced]:
    """Everything with token prices, by its place in the file."""
    found: dict[Path, prices.Priced] = {("discovered",): discovered} if discovered is not None else {}
    for number, model in listed.items():
        found["models", number] = model
        for place, change in enumerate(model.price_changes):
            found["models", number, "price_changes", place] = change
    return found


def _label(path: Path) -> str:
    """The field a path ends in, with its place in a list."""
    if isinstance(path[-1], int):
        return f"'{path[-2]}' entry {path[-1] + 1}"
    return repr(path[-1])


def _must(kind: str, problem: Any) -> str:
    """What is wrong with a value, from pydantic's kind of error."""
    given, ctx = problem["input"], problem.get("ctx", {})
    if kind in ("int_type", "int_from_float"):
        shown = f", not {given}" if isinstance(given, float) else ""
        return f"must be a whole number{shown}"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {ctx['ge']}" if "ge" in ctx else f"at most {ctx['le']}"
        return f"must be {bound}, not {given}"
    if kind == "literal_error":
        return f"must be one of {ctx['expected']}"
    return {
        "string_type": "must be a text",
        "bool_type": "must be true or false",
        "tuple_type": "must be a list",
        "model_type": "must be a group of fields",
        "model_attributes_type": "must be a group of fields",
        "string_too_short": "must not be empty",
        "string_too_long": f"must have at most {ctx.get('max_length')} characters",
    }.get(kind, str(problem["msg"]))


def _unknown(name: str, known: tuple[str, ...] | list[str]) -> str:
    return f"unknown field {name!r}{close_to(name, known)}"
