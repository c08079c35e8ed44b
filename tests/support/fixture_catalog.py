"""The catalogue of the end-to-end and fault tests: models on two scripted providers and the simulated one.
Used by the conftest of both folders.
"""

from pathlib import Path

PROVIDER_KEY = {"E2E_PROVIDER_KEY": "sk-provider-secret"}

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


def write_catalog(path: Path, first: str, second: str) -> Path:
    """Write the catalogue for two providers' base URLs and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_CATALOG.format(first=first, second=second))
    return path
