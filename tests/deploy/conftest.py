"""A directory per test that PostgreSQL can use whoever runs it.
For the tests of deploy.local only.
"""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.addresses import DEFAULTS
from deploy.local.ports import pick_free_port
from tests.deploy.runs import Run


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory closed to other users, as a checkout in a home directory is."""
    path = Path(tempfile.mkdtemp(prefix="kenari-deploy-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    return {setting: str(pick_free_port()) for setting in DEFAULTS}


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    """Put a run in here, and it is over when the test is."""
    started: list[Run] = []
    yield started
    for run in started:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
            run.process.wait(40)
