"""The model list as clients read it, kept from the router's topic (contract: Models and pricing).

Called by the models endpoint and, for the limits a free model carries itself, by admission.
"""

from typing import Any

import msgspec

from libs.core.money import PER_RUPIAH
from libs.events.router import ModelPublished
from libs.kafka.table import Table

# Kinds that are listed only when asked for by ?modality=.
_BY_MODALITY = {
    "embedding": "embeddings",
    "rerank": "rerank",
    "moderation": "moderations",
    "systemone": "systemone",
}
MODALITIES = tuple(_BY_MODALITY)
_PROTOCOLS = ["openai-chat", "openai-responses", "anthropic-messages"]


class Catalog:
    """The models for sale. Rendered lists are kept until something changes."""

    def __init__(self, table: Table[ModelPublished]) -> None:
        self._table = table
        self._rendered: dict[str | None, bytes] = {}
        table.on_change(lambda _key, _model: self._rendered.clear())

    def get(self, model_id: str) -> ModelPublished | None:
        """A model by id, or None."""
        model = self._table.get(model_id)
        return model if model is not None and model.kind == "model" else None

    def listed(self, modality: str | None) -> list[ModelPublished]:
        """The models of a list, by id: the usual one, or that of one of MODALITIES."""
        models = sorted(self._table.values(), key=lambda model: model.id)
        return [model for model in models if _listed(model, modality)]

    def usd_idr(self) -> int | None:
        """Rupiah for a US dollar; None where prices in dollars play no part."""
        rate = self._table.get("usd_idr")
        return rate.price.unit // PER_RUPIAH if rate is not None and rate.price.unit is not None else None

    def render(self, modality: str | None) -> bytes:
        """The JSON body of ``GET /v1/models``, whole or of one of MODALITIES."""
        body = self._rendered.get(modality)
        if body is None:
            entries = [_entry(model, modality) for model in self.listed(modality)]
            body = self._rendered[modality] = msgspec.json.encode({"object": "list", "data": entries})
        return body


def _listed(model: ModelPublished, modality: str | None) -> bool:
    if model.kind != "model":
        return False
    if modality is not None:
        return _BY_MODALITY[modality] in model.endpoints
    return not set(model.endpoints).intersection(_BY_MODALITY.values())


def _entry(model: ModelPublished, modality: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": model.id,
        "object": "model",
        "owned_by": model.vendor,
        "name": model.name,
        "context_length": model.context_length,
        "endpoints": list(model.endpoints) or None,
        "pricing_lines": [line.model_dump() for line in model.price_lines] or None,
    }
    if modality is not None:
        entry["modality"] = modality
        entry["pricing"] = _short_price(model)
    else:
        entry |= _details(model)
        entry["pricing"] = _price(model)
    shown = {name: value for name, value in entry.items() if value is not None}
    return shown | {"sunset_at": model.sunset_at}


def _details(model: ModelPublished) -> dict[str, Any]:
    chat = "chat" in model.endpoints
    reads = list(model.input_modalities)
    if chat and "file" not in reads:
        # Attached documents are read for every chat model.
        reads.append("file")
    limited = model.max_input_tokens is not None and (
        model.context_length is None or model.max_input_tokens < model.context_length
    )
    options = list(model.reasoning_options) or None
    return {
        "max_input_tokens": model.max_input_tokens if limited else None,
        "max_output_tokens": model.max_output_tokens,
        "modalities": {"input": reads, "output": list(model.output_modalities)},
        "protocols": _PROTOCOLS if chat else None,
        "reasoning": model.reasoning,
        "reasoning_options": options,
        "supported_reasoning_levels": options,
        "reasoning_toggle": model.reasoning_toggle,
        "tool_call": model.tool_call,
        **_media(model),
    }


def _media(model: ModelPublished) -> dict[str, Any]:
    """What is recorded of a model for other things than chats; nothing but a recorded 0 is false here."""
    recorded = model.media.model_dump(mode="json") if model.media is not None else {}
    return {name: value for name, value in recorded.items() if value or (value == 0 and value is not False)}


def _costs_nothing(model: ModelPublished) -> bool:
    price = model.price
    return model.free or not (price.input or price.output or price.unit)


def _price(model: ModelPublished) -> dict[str, Any]:
    price = model.price
    return {
        "input": price.input,
        "output": price.output,
        "cache_read": price.cache_read,
        "cache_write": price.cache_write,
        "free": _costs_nothing(model),
        "currency": "IDR",
        "unit": "micro_idr_per_1m_tokens",
    }


def _short_price(model: ModelPublished) -> dict[str, Any]:
    return {
        "input": model.price.input,
        "free": _costs_nothing(model),
        "currency": "IDR",
        "unit": "micro_idr_per_1m_tokens",
    }
