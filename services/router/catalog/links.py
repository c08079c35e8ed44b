"""What the entries of the catalogue file say about each other: providers, successors, the rate of exchange.

Called by catalog.load once all entries have been read.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from services.router.catalog.marks import Marked
from services.router.catalog.models import ModelEntry
from services.router.catalog.prices import Priced


def check_providers(marked: Marked, data: Mapping[str, Any], models: Mapping[int, ModelEntry]) -> None:
    """Every model is served by providers that the file has."""
    # Names are taken from the raw file: a provider with a mistake of its own is still known.
    listed = data.get("providers")
    entries = listed if isinstance(listed, list) else []
    names = [item.get("id") for item in entries if isinstance(item, dict)]
    known = [name for name in names if isinstance(name, str)]
    for number, model in models.items():
        for place, serving in enumerate(model.served_by):
            if serving.provider not in known:
                line = marked.line(("models", number, "served_by", place, "provider"))
                reason = f"{model.id!r} is served by the unknown provider {serving.provider!r}"
                marked.wrong(line, reason + close_to(serving.provider, known))


def check_successors(marked: Marked, models: Mapping[int, ModelEntry]) -> None:
    """A successor is a model of the file that can do the same, and following successors comes to an end."""
    known = {model.id: model for model in models.values()}
    for number, model in models.items():
        name = model.retires.successor if model.retires is not None else None
        if name is None:
            continue
        line = marked.line(("models", number, "retires", "successor"))
        successor = known.get(name)
        if successor is None:
            marked.wrong(line, f"the successor {name!r} is not in the list{close_to(name, list(known))}")
        elif successor.free != model.free:
            # What it counts against is decided by its id, before it is known to be forwarded.
            marked.wrong(line, f"a free model has a free successor and a paid one a paid: {name!r} is not")
        elif missing := set(model.endpoints) - set(successor.endpoints):
            marked.wrong(line, f"the successor {name!r} does not serve {', '.join(sorted(missing))}")
        elif model.id in _successors(model, known):
            marked.wrong(line, f"the successors of {model.id!r} lead back to it")


def _successors(model: ModelEntry, known: Mapping[str, ModelEntry]) -> Iterator[str]:
    seen: set[str] = set()
    while model.retires is not None and (name := model.retires.successor) in known and name not in seen:
        assert name is not None
        seen.add(name)
        model = known[name]
        yield name


def check_dollars(marked: Marked, priced: Mapping[tuple[str | int, ...], Priced]) -> None:
    """Prices in dollars need a rate of exchange; ``priced`` is everything with a price by its place in the file."""
    for path, entry in priced.items():
        if entry.usd_per_1m_tokens is not None:
            line = marked.key_line((*path, "usd_per_1m_tokens"))
            marked.wrong(line, "prices in dollars need the section 'exchange' with usd_idr and as_of")


def close_to(name: str, known: tuple[str, ...] | list[str]) -> str:
    """A guess at what was meant, as the end of a sentence; empty without one."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
