"""One running kenari for all end-to-end tests, with two scripted providers behind its models.
Used by every test in this folder.
"""

from collections.abc import Iterator

import pytest

from tests.support.background import BackgroundProvider
from tests.support.fixture_catalog import PROVIDER_KEY, write_catalog
from tests.support.provider import completion
from tests.support.system import Person, System

# These tests make providers fail on purpose, one after another; pausing them is for the fault tests to see.
_NEVER_PAUSE = {"ROUTER_HEALTH__FAILURES_IN_ROW": "100000", "ROUTER_HEALTH__WINDOW_LEAST": "100000"}
_WAITS = {"EDGE_WAITS__WRITE_STALL_S": "4", "EDGE_WAITS__LONG_WAIT_S": "1.8", "EDGE_WAITS__SPACE_EVERY_S": "0.2"}


@pytest.fixture(scope="package")
def system(
    first: BackgroundProvider, second: BackgroundProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("system")
    catalog = write_catalog(directory / "catalog.yaml", first.base_url, second.base_url)
    with System(directory, catalog, {**PROVIDER_KEY, **_NEVER_PAUSE, **_WAITS}) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_script(first: BackgroundProvider, second: BackgroundProvider) -> None:
    first.answers(completion("ok"))
    second.answers(completion("ok"))


@pytest.fixture(scope="package")
def person(system: System) -> Person:
    """An account with Rp 100,000 that many tests share; tests of money make their own."""
    return system.person()
