"""The system under test: every service on real stores, its models served by the scripted provider over some faces.
Called by tests.compat.__main__.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from tests.bench.servers import HttpServer
from tests.compat.faces import Face
from tests.support.system import System

_KEY_ENV = "COMPAT_PROVIDER_KEY"
_SETTINGS = {
    _KEY_ENV: "sk-scripted",
    # The checks make the provider fail over and over, which here says nothing about the next request.
    "ROUTER_HEALTH__FAILURES_IN_ROW": "100000",
    "ROUTER_HEALTH__WINDOW_LEAST": "100000",
    "ROUTER_HEALTH__LONGEST_RETRY_AFTER_MS": "0",
}
_TIMEOUTS = {"connect_ms": 2_000, "first_byte_ms": 30_000, "idle_ms": 15_000}
_CARD = {
    "vendor": "scripted",
    "modalities": {"input": ["text", "image"], "output": ["text"]},
    "context_length": 262_144,
    "max_output_tokens": 65_536,
    "reasoning": True,
    "reasoning_options": ["low", "medium", "high"],
    "tool_call": True,
    "rupiah_per_1m_tokens": {"input": 4_200, "output": 24_000, "cache_read": 840},
}
# Agents reserve the price of their whole output limit, several at a time.
_RUPIAHS = 100_000_000


class ScriptedProvider(HttpServer):
    """The suite's provider as a process; it writes every request it got into `requests.jsonl` of its directory."""

    name = "scripted provider"

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory)
        self._program = program

    @property
    def api_url(self) -> str:
        return f"{self.base_url}/v1"

    def _command(self) -> Sequence[str]:
        log = self.directory / "requests.jsonl"
        return [sys.executable, str(self._program), "--port", str(self.port), "--log", str(log)]


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where clients go, and with which key."""

    base_url: str
    key: str


@contextmanager
def running(directory: Path, provider_program: Path, faces: Sequence[Face]) -> Iterator[Gateway]:
    """Start provider, stores and services, all of which end with the block. Raises a LocalServerError."""
    with ScriptedProvider(directory / "provider", provider_program) as provider:
        file = directory / "catalog.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(catalog(provider.api_url, faces), indent=2))
        with System(directory / "system", file, _SETTINGS) as system:
            yield Gateway(system.base_url, system.person(_RUPIAHS).key)


def catalog(api_url: str, faces: Sequence[Face]) -> dict[str, Any]:
    """The catalogue: for each face its models, those meant to fail with a provider id of their own."""
    providers, models = [], []
    for face in faces:
        steady, failing = face.model, face.fault_model
        providers += [_provider(name, face, api_url) for name in (steady, failing)]
        models += [_model(face.model, steady), _model(face.small_model, steady), _model(face.fault_model, failing)]
    return {"providers": providers, "models": models}


def _provider(name: str, face: Face, api_url: str) -> dict[str, Any]:
    return {
        "id": name,
        "format": face.format,
        "base_url": api_url,
        "key_env": _KEY_ENV,
        "abilities": {"json_format": True},
        "timeouts": _TIMEOUTS,
    }


def _model(name: str, provider: str) -> dict[str, Any]:
    return {"id": name, **_CARD, "served_by": [{"provider": provider}]}
