"""The edge's model list without a broker behind it.
Used by the tests of this folder.
"""

from collections.abc import Callable
from typing import Any, cast

from libs.events.router import ModelPublished, Price
from libs.kafka.table import Table
from services.edge.catalog import Catalog

FREE_PRICE = Price(version="p0", input=0, output=0)


class Published:
    """The table of router.catalog.v1 with what a test puts on it."""

    def __init__(self, *models: ModelPublished) -> None:
        self._models = {model.id: model for model in models}
        self._changed: list[Callable[[str, ModelPublished | None], None]] = []

    def get(self, key: str) -> ModelPublished | None:
        return self._models.get(key)

    def values(self) -> list[ModelPublished]:
        return list(self._models.values())

    def on_change(self, callback: Callable[[str, ModelPublished | None], None]) -> None:
        self._changed.append(callback)

    def catalog(self) -> Catalog:
        return Catalog(cast("Table[ModelPublished]", self))

    def put(self, model: ModelPublished) -> None:
        self._models[model.id] = model
        for callback in self._changed:
            callback(model.id, model)


def card(name: str, *endpoints: str, **more: Any) -> ModelPublished:
    """A model of that id, for chats unless other endpoints are named."""
    usual = {"version": 1, "vendor": "v", "name": name, "free": False, "price": FREE_PRICE}
    return ModelPublished(**{"id": name, "endpoints": endpoints or ("chat",), **usual, **more})


def catalog(*models: ModelPublished) -> Catalog:
    """The edge's model list with these models on it."""
    return Published(*models).catalog()
