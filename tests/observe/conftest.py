"""One running kenari that has served requests of every kind, and a Prometheus that watched.
Used by every test in this folder; nothing here changes it any more.
"""

import time
from collections.abc import Iterator

import pytest

from tests.observe.prometheus import PrometheusServer
from tests.observe.traffic import SETTLED, Traffic, send_all
from tests.support.background import BackgroundProvider
from tests.support.fixture_catalog import PROVIDER_KEY, write_catalog
from tests.support.system import System, eventually

# A rate needs two scrapes after an event, and the ledger measures its gauges every few seconds.
_WATCHED_S = 4.0


# A busy machine must not change which calls are made.
_PATIENT = {
    "EDGE_LIMITER_TIMEOUT_S": "5",
    "EDGE_ROUTE_TIMEOUT_S": "5",
    "EDGE_RESERVE_TIMEOUT_S": "5",
    "LIMITER_VALKEY__TIMEOUT_MS": "1000",
}

Providers = tuple[BackgroundProvider, BackgroundProvider]


@pytest.fixture(scope="package")
def providers() -> Iterator[Providers]:
    with BackgroundProvider() as first, BackgroundProvider() as second:
        yield first, second


@pytest.fixture(scope="package")
def system(providers: Providers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("observed")
    catalog = write_catalog(directory / "catalog.yaml", *(provider.base_url for provider in providers))
    running = System(directory, catalog, {**PROVIDER_KEY, **_PATIENT})
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def watching(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """A Prometheus that was there before the first request."""
    with PrometheusServer(tmp_path_factory.mktemp("prometheus"), system.ports) as server:
        eventually(lambda: set(server.targets().values()) == {"up"}, within_s=30)
        yield server


@pytest.fixture(scope="package")
def traffic(system: System, watching: PrometheusServer, providers: Providers) -> Traffic:
    """What was sent, and has been settled, published and scraped by now."""
    sent = send_all(system, *providers)
    eventually(lambda: system.metric("ledger", "kenari_ledger_usage_events_total") >= SETTLED, within_s=30)
    time.sleep(_WATCHED_S)
    return sent


@pytest.fixture(scope="package")
def prometheus(watching: PrometheusServer, traffic: Traffic) -> PrometheusServer:
    """The Prometheus that has seen all of the traffic."""
    return watching
