"""One running kenari for all fault cases, with two scripted providers that speak whichever wire they are asked in.
Used by every test in this folder.
"""

from collections.abc import Iterator

import pytest

from tests.cases.answers import says_ok
from tests.cases.caller import Caller
from tests.cases.catalog import PROVIDER_KEY, write_catalog
from tests.support.background import BackgroundProvider
from tests.support.system import Person, System

_SETTINGS = {
    # Providers fail on purpose here, one after another; a wait that they name themselves still pauses them.
    "ROUTER_HEALTH__FAILURES_IN_ROW": "100000",
    "ROUTER_HEALTH__WINDOW_LEAST": "100000",
    "EDGE_PROVIDER_WAIT_S": "1",
    "EDGE_WAITS__KEEPALIVE_S": "0.4",
    "EDGE_BODY__STALL_S": "2",
    # No account asks as often, but for the one that wants to see this limit.
    "LIMITER_ACCOUNT_RPM": "60",
}


@pytest.fixture(scope="package")
def system(
    first: BackgroundProvider, second: BackgroundProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("cases")
    catalog = write_catalog(directory / "catalog.yaml", first.base_url, second.base_url)
    with System(directory, catalog, {**PROVIDER_KEY, **_SETTINGS}) as running:
        yield running


@pytest.fixture
def p1(first: BackgroundProvider) -> BackgroundProvider:
    """The provider behind every model; answers "ok" for 10 and 2 tokens until told otherwise."""
    first.answers(says_ok)
    return first


@pytest.fixture
def p2(second: BackgroundProvider) -> BackgroundProvider:
    """The second provider of ``fx-two``."""
    second.answers(says_ok)
    return second


@pytest.fixture(scope="package")
def people(system: System) -> Iterator[Person]:
    """Accounts with Rp 100,000. Making one takes as long as several requests: a few tests share each."""

    def endless() -> Iterator[Person]:
        while True:
            yield from [system.person()] * 8

    return endless()


@pytest.fixture
def caller(system: System, p1: BackgroundProvider, p2: BackgroundProvider, people: Iterator[Person]) -> Caller:
    """Somebody who asks."""
    return Caller(system, next(people))


@pytest.fixture
def payer(system: System, p1: BackgroundProvider, p2: BackgroundProvider) -> Caller:
    """Somebody whose money and usage log nobody else touches: Rp 100,000 and no row."""
    return Caller(system, system.person())
