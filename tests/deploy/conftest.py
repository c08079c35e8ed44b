"""A directory per test that PostgreSQL can use whoever runs it.
For the tests of deploy.local only.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory closed to other users, as a checkout in a home directory is."""
    path = Path(tempfile.mkdtemp(prefix="kenari-deploy-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
