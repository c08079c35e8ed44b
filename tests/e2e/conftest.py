"""One running kenari for all end-to-end tests of a session, with two scripted providers behind its models.
Used by every test in this folder.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.system import Person, System

_CATALOG = """
providers:
  - {{id: simulated, format: simulated}}
  - id: p1
    format: openai_chat
    base_url: {first}
    key_env: E2E_PROVIDER_KEY
    timeouts: {{connect_ms: 500, first_byte_ms: 2500, idle_ms: 1500}}
  - id: p2
    format: openai_chat
    base_url: {second}
    key_env: E2E_PROVIDER_KEY
    timeouts: {{connect_ms: 500, first_byte_ms: 2500, idle_ms: 1500}}
models:
  - &paid
    id: fx-oai
    vendor: fixtures
    endpoints: [chat]
    context_length: 128000
    max_output_tokens: 8192
    tool_call: true
    rupiah_per_1m_tokens: {{input: 4200, output: 24000, cache_read: 840}}
    served_by: [{{provider: p1, model: real-model}}]
  - <<: *paid
    id: fx-two
    served_by: [{{provider: p1, model: real-model}}, {{provider: p2, model: real-model}}]
  - <<: *paid
    id: fx-small
    context_length: 2000
    max_output_tokens: 1500
  - <<: *paid
    id: fx-other
    served_by: [{{provider: p2, model: real-model}}]
  - id: fx-image
    vendor: fixtures
    endpoints: [images]
    rupiah_per_1m_tokens: {{input: 1, output: 1}}
    served_by: [{{provider: p1, model: real-image}}]
  - id: fx-free:free
    vendor: fixtures
    free: true
    endpoints: [chat]
    context_length: 128000
    max_output_tokens: 8192
    free_rpm: 1000
    free_daily: 1000
    served_by: [{{provider: p1, model: real-model}}]
  - id: sim-1
    vendor: kenari
    context_length: 131072
    max_output_tokens: 8192
    rupiah_per_1m_tokens: {{input: 4200, output: 24000, cache_read: 840}}
    served_by: [{{provider: simulated}}]
  - id: sim-1:free
    vendor: kenari
    free: true
    context_length: 131072
    max_output_tokens: 8192
    served_by: [{{provider: simulated}}]
"""


@pytest.fixture(scope="session")
def first() -> Iterator[BackgroundProvider]:
    with BackgroundProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def second() -> Iterator[BackgroundProvider]:
    with BackgroundProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def system(
    first: BackgroundProvider, second: BackgroundProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    directory: Path = tmp_path_factory.mktemp("system")
    catalog = directory / "catalog.yaml"
    catalog.write_text(_CATALOG.format(first=first.base_url, second=second.base_url))
    running = System(directory, catalog, {"E2E_PROVIDER_KEY": "sk-provider-secret"})
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def fresh_script(first: BackgroundProvider, second: BackgroundProvider) -> None:
    first.answers(completion("ok"))
    second.answers(completion("ok"))


@pytest.fixture(scope="session")
def person(system: System) -> Person:
    """An account with Rp 100,000 that many tests share; tests of money make their own."""
    return system.person()
