"""The catalogue of the fault cases: one model a wire, a free one, and some whose providers may fail as they like.
Used by the conftest of this folder.
"""

import json
from pathlib import Path
from typing import Any

PROVIDER_KEY = {"CASES_PROVIDER_KEY": "sk-live-123"}

INPUT, OUTPUT, CACHE_READ, CACHE_WRITE = 4_200, 24_000, 840, 5_250
"""Micro-Rupiah a token, which is Rupiah a million tokens."""

_PRICE = {"input": INPUT, "output": OUTPUT, "cache_read": CACHE_READ}
_CHAT = {
    "vendor": "fixtures",
    "context_length": 128_000,
    "max_output_tokens": 8_192,
    "tool_call": True,
    "reasoning": True,
    "reasoning_options": ["low", "medium", "high"],
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}


def write_catalog(path: Path, p1: str, p2: str) -> Path:
    """Write the catalogue for two providers' addresses, each under several names, and return its path."""
    providers = [
        _provider("p1", "openai_chat", p1),
        _provider("p2", "openai_chat", p2),
        _provider("p1-ant", "anthropic", p1),
        _provider("p1-json", "openai_chat", p1, json_format=True),
        _provider("p1-ant-json", "anthropic", p1, json_format=True),
        _provider("p1-plain", "openai_chat", p1, tools=False),
        # The others are waited for long enough on a machine with other things to do.
        _provider("p1-silent", "openai_chat", p1) | {"timeouts": {"connect_ms": 700, "first_byte_ms": 300}},
        # Paused by what they answer: no other case may depend on them.
        _provider("p1-slow", "openai_chat", p1),
        _provider("p1-ant-slow", "anthropic", p1),
    ]
    models = [
        _paid("fx-oai", "p1"),
        _paid("fx-ant", "p1-ant", cache_write=CACHE_WRITE),
        _paid("fx-ant-nw", "p1-ant"),
        _paid("fx-ant-hi", "p1-ant", cache_read=9_000, cache_write=CACHE_WRITE),
        # Fractions of a Rupiah for a token, and less than a micro-Rupiah.
        _model("fx-odd", "p1", micro_idr_per_1m_tokens={"input": 333_333_333, "output": 777_777_777}),
        _model("fx-tiny", "p1", micro_idr_per_1m_tokens={"input": 100_000, "output": 100_000}),
        _paid("fx-free", "p1"),
        _paid("fx-two", "p1", "p2"),
        _paid("fx-oai-json", "p1-json"),
        _paid("fx-ant-json", "p1-ant-json", cache_write=CACHE_WRITE),
        _paid("fx-plain", "p1-plain"),
        _paid("fx-silent", "p1-silent"),
        _paid("fx-oai-slow", "p1-slow"),
        _paid("fx-ant-slow", "p1-ant-slow", cache_write=CACHE_WRITE),
        _model("fx-small", "p1", context_length=2_000, max_output_tokens=1_500, rupiah_per_1m_tokens=_PRICE),
        _model("fx-image", "p1", endpoints=["images"], unit_price={"per": "image", "rupiah": 500}),
        _model("fx-free:free", "p1", free=True, free_rpm=1_000, free_daily=1_000),
        _model("fx-once:free", "p1", free=True, free_rpm=1_000, free_daily=1),
        _model("fx-minute:free", "p1", free=True, free_rpm=1, free_daily=1_000),
        _model("fx-two-a-minute:free", "p1", free=True, free_rpm=2, free_daily=1_000),
    ]
    # JSON is YAML without the aliases that a catalogue may not have.
    path.write_text(json.dumps({"providers": providers, "models": models}, indent=2))
    return path


def _provider(name: str, wire: str, base_url: str, **abilities: bool) -> dict[str, Any]:
    return {
        "id": name,
        "format": wire,
        "base_url": base_url,
        "key_env": "CASES_PROVIDER_KEY",
        "abilities": abilities,
        "timeouts": {"connect_ms": 5_000, "first_byte_ms": 20_000, "idle_ms": 20_000},
    }


def _model(name: str, *providers: str, **more: Any) -> dict[str, Any]:
    served_by = [
        {"provider": provider, "upstream_model": "vendor-x/real-model-0731", "order": place}
        for place, provider in enumerate(providers)
    ]
    return {"id": name, **_CHAT, "served_by": served_by, **more}


def _paid(name: str, *providers: str, **price: int) -> dict[str, Any]:
    return _model(name, *providers, rupiah_per_1m_tokens=_PRICE | price)
