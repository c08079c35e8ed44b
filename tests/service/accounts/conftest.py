"""Accounts on a database of the test's own."""

from collections.abc import AsyncIterator

import pytest

from libs.db.migrate import folders
from tests.service.accounts.bench import Bench
from tests.support.stack import Postgres


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    """An empty database with the schema of accounts."""
    return await postgres.database(folders()["accounts"])


@pytest.fixture
async def bench(dsn: str) -> AsyncIterator[Bench]:
    """One accounts process on it."""
    async with Bench(dsn) as bench:
        yield bench
