"""What all tests share: the real servers, and the marker of those that take too long for every run.

Read by pytest only.
"""

from typing import Any

import pytest

from tests.support import scheduling
from tests.support.background import first, second  # noqa: F401
from tests.support.stack import (  # noqa: F401
    broker,
    kafka,
    own_broker,
    own_postgres,
    own_valkey,
    postgres,
    valkey_url,
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: takes minutes; run by `make nightly` (-m nightly) only")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.ByServers:
    return scheduling.scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    scheduling.long_first(items)
    if "nightly" in (config.option.markexpr or ""):
        return
    long = [item for item in items if item.get_closest_marker("nightly")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
