"""Databases and a second reader of the topics for the router's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.db.migrate import folders
from tests.service.router.world import Watcher
from tests.support.stack import Postgres


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    """An empty database with the router's schema."""
    return await postgres.database(folders()["router"])


@pytest.fixture
async def watcher(kafka: str, tmp_path: Path) -> AsyncIterator[Watcher]:
    async with Watcher(kafka, tmp_path / "edge-spool") as watching:
        yield watching
