"""One running kenari with limits small enough to reach, and two further edges beside its own.
Used by every test in this folder.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cases.answers import says_ok
from tests.support.background import BackgroundProvider
from tests.support.fixture_catalog import PROVIDER_KEY
from tests.support.second_edge import further_edge
from tests.support.system import System

_SETTINGS = {
    # Behind a proxy that says for whom it asks, so that a test can ask from anywhere.
    "EDGE_TRUSTED_PROXIES": '["127.0.0.0/8"]',
    "EDGE_FREE_PLACE_WAIT_S": "2",
    # These tests count to the last request: a pause of the machine must not look like an absent limiter.
    "EDGE_LIMITER_TIMEOUT_S": "5",
    "LIMITER_VALKEY__TIMEOUT_MS": "1000",
    "LIMITER_FREE__GAP_MAX_MS": "100",
    "LEDGER_RENEW_EVERY_S": "0.5",
    # A gap of 100 ms: four in a burst wait, the others are a flood.
    "LIMITER_FREE__MAX_WAIT_MS": "300",
}
_CHAT = {"vendor": "fixtures", "context_length": 128_000, "max_output_tokens": 8_192, "endpoints": ["chat"]}
_FREE = {"free_rpm": 1_000, "free_daily": 1_000}


def _models() -> list[dict[str, Any]]:
    return [
        _model("fx-oai", rupiah_per_1m_tokens={"input": 4_200, "output": 24_000}),
        _model("fx-free:free", free=True, **_FREE),
        # With the account's own limits.
        _model("fx-tier:free", free=True),
        _model("fx-minute:free", free=True, **_FREE | {"free_rpm": 1}),
        _model("fx-two-a-minute:free", free=True, **_FREE | {"free_rpm": 2}),
        _model("fx-day:free", free=True, **_FREE | {"free_daily": 1}),
        # One answer of ten and two tokens is more than it may give.
        _model("fx-tokens-chat:free", free=True, free_token_budget=11, **_FREE),
        _model("fx-tokens-messages:free", free=True, free_token_budget=11, **_FREE),
        _model("fx-tokens-responses:free", free=True, free_token_budget=11, **_FREE),
    ]


def _model(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, **_CHAT, "served_by": [{"provider": "p1", "upstream_model": "real-model"}], **more}


@pytest.fixture(scope="package")
def system(first: BackgroundProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory: Path = tmp_path_factory.mktemp("limits")
    catalog = directory / "catalog.yaml"
    provider = {"id": "p1", "format": "openai_chat", "base_url": first.base_url, "key_env": "E2E_PROVIDER_KEY"}
    # JSON is YAML without the aliases that a catalogue may not have.
    catalog.write_text(json.dumps({"providers": [provider], "models": _models()}))
    with System(directory, catalog, {**PROVIDER_KEY, **_SETTINGS}) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_script(first: BackgroundProvider) -> None:
    first.answers(says_ok)


@pytest.fixture(scope="package")
def edges(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Where three edges of the system answer."""
    with ExitStack() as further:
        others = [
            further.enter_context(further_edge(system, tmp_path_factory.mktemp("edge"), {})).base_url for _ in range(2)
        ]
        yield [system.base_url, *others]
