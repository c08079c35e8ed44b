"""A kenari of their own for tests that break its parts; each test leaves everything running again.
Used by every test in this folder.
"""

from collections.abc import Iterator

import pytest

from tests.support.background import BackgroundProvider
from tests.support.fixture_catalog import PROVIDER_KEY, write_catalog
from tests.support.provider import completion
from tests.support.system import System

# Small limits, so that reaching them takes neither memory nor minutes.
_LIMITS = {
    "EDGE_BODY__STALL_S": "1",
    "EDGE_WAITS__WRITE_STALL_S": "2",
    "EDGE_BODY__LARGE_BUDGET_BYTES": str(40 * 1024 * 1024),
    "LEDGER_IDEMPOTENCY__LEASE_S": "3",
    "EDGE_IDEMPOTENCY_EVERY_S": "0.5",
    "ROUTER_HEALTH__FIRST_PAUSE_MS": "1000",
    "ROUTER_HEALTH__LONGEST_PAUSE_MS": "2000",
}


@pytest.fixture(scope="package")
def system(
    first: BackgroundProvider, second: BackgroundProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("faults")
    catalog = write_catalog(directory / "catalog.yaml", first.base_url, second.base_url)
    with System(directory, catalog, {**PROVIDER_KEY, **_LIMITS}) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_script(first: BackgroundProvider, second: BackgroundProvider) -> None:
    first.answers(completion("ok", usage=(1000, 100)))
    second.answers(completion("ok", usage=(1000, 100)))
