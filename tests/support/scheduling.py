"""How the tests are shared out when several workers run them: what shares servers stays together, the long first.

Used by tests/conftest.py under pytest-xdist.
"""

from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Folders whose tests share one running system: started once, not once a worker.
_ONE_SYSTEM = ("tests/e2e", "tests/e2e/limits", "tests/cases", "tests/observe")

# Where most of the time goes, longest first; a worker that got the longest last would be waited for.
_LONGEST = (
    "tests/faults/",
    "tests/e2e/",
    "tests/cases/",
    "tests/deploy/test_launcher",
    "tests/kafka/test_outage",
    "tests/observe/",
    "tests/service/ledger/test_kills",
    "tests/money/",
    "tests/deploy/",
    "tests/kafka/",
    "tests/service/",
)


class ByServers(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker a whole file, or a whole folder where one system serves all of it."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        folder = str(PurePosixPath(path).parent)
        return folder if folder in _ONE_SYSTEM else path


def long_first(items: list[pytest.Item]) -> None:
    """Sort in place; tests of one file keep their order and stay together."""
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((place for place, start in enumerate(_LONGEST) if nodeid.startswith(start)), len(_LONGEST))


def scheduler(config: pytest.Config, log: Any) -> ByServers:
    """The scheduler of a run; files and folders are taken in the order of collection."""
    config.option.loadscopereorder = False
    return ByServers(config, log)
