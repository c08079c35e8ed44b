"""The catalogue of the end-to-end and fault tests: models on two scripted providers and the simulated one.
Used by the conftest of both folders.
"""

import json
from pathlib import Path
from typing import Any

PROVIDER_KEY = {"E2E_PROVIDER_KEY": "sk-provider-secret"}

_LIMITS = {"context_length": 128_000, "max_output_tokens": 8_192, "tool_call": True, "endpoints": ["chat"]}
_THINKS = {"reasoning": True, "reasoning_options": ["low", "medium", "high"]}
_VAST = {
    "context_length": 100_000_000,
    "max_output_tokens": 50_000_000,
    "rupiah_per_1m_tokens": {"input": 10, "output": 10},
}
_RETIRED = {"at": "2020-01-01T00:00:00Z"}
_PRICE = {"input": 4_200, "output": 24_000, "cache_read": 840}


def write_catalog(path: Path, first: str, second: str) -> Path:
    """Write the catalogue for two providers' base URLs and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    providers = [
        {"id": "simulated", "format": "simulated"},
        _provider("p1", first),
        _provider("p2", second),
        _provider("p1-ant", first, "anthropic"),
        _provider("p1-impatient", first, content_ms=1_000),
        _provider("p1-ant-impatient", first, "anthropic", content_ms=1_000),
    ]
    # JSON is YAML without the aliases that a catalogue may not have.
    text = json.dumps({"providers": providers, "models": _models()}, indent=2)
    # A moment is no text.
    path.write_text(text.replace(f'"{_RETIRED["at"]}"', _RETIRED["at"]))
    return path


def _provider(name: str, base_url: str, wire: str = "openai_chat", **waits: int) -> dict[str, Any]:
    timeouts = {"connect_ms": 500, "first_byte_ms": 2_500, "idle_ms": 1_500, **waits}
    return {
        "id": name,
        "format": wire,
        "base_url": base_url,
        "key_env": "E2E_PROVIDER_KEY",
        "timeouts": timeouts,
    }


def _models() -> list[dict[str, Any]]:
    both = [_served("p1"), _served("p2", order=1)]
    return [
        _paid("fx-oai", [_served("p1")]),
        _paid("fx-two", both),
        _paid("fx-other", [_served("p2")]),
        _paid("fx-small", [_served("p1")], context_length=2_000, max_output_tokens=1_500),
        _image("fx-image", [_served("p1")]),
        _paid("fx-ant", [_served("p1-ant")], **_THINKS),
        _paid("fx-members", [_served("p1")], subscribers_only=True),
        _paid("fx-mute", [_served("p1")], tool_call=False),
        _paid("fx-think", [_served("p1")], **_THINKS),
        _free("fx-think:free", "fixtures", [_served("p1")], **_THINKS),
        _free("fx-free:free", "fixtures", [_served("p1")], free_rpm=1_000, free_daily=1_000),
        # Retired long ago, with a successor that takes its requests over, and without.
        _paid("fx-retired", [_served("p2")], retires=_RETIRED | {"successor": "fx-oai", "forward": True}),
        _paid("fx-gone", [_served("p2")], retires=_RETIRED | {"successor": "fx-oai"}),
        # Answers of any length, at a price that lets an account hold them.
        _paid("fx-vast", [_served("p1")], **_VAST),
        _paid("fx-vast-ant", [_served("p1-ant")], **_VAST),
        _paid("fx-impatient", [_served("p1-impatient"), _served("p2", order=1)]),
        _paid("fx-ant-impatient", [_served("p1-ant-impatient"), _served("p2", order=1)]),
        _paid("sim-1", [{"provider": "simulated"}]),
        _free("sim-1:free", "kenari", [{"provider": "simulated"}]),
    ]


def _served(provider: str, order: int = 0) -> dict[str, Any]:
    return {"provider": provider, "upstream_model": "real-model", "order": order}


def _paid(name: str, served_by: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    price = {"rupiah_per_1m_tokens": _PRICE}
    return {"id": name, "vendor": "fixtures", **_LIMITS, **price, "served_by": served_by, **other}


def _image(name: str, served_by: list[dict[str, Any]]) -> dict[str, Any]:
    price = {"unit_price": {"per": "image", "rupiah": 500}}
    return {"id": name, "vendor": "fixtures", "endpoints": ["images"], **price, "served_by": served_by}


def _free(name: str, vendor: str, served_by: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    return {"id": name, "vendor": vendor, "free": True, **_LIMITS, "served_by": served_by, **other}
