"""A PostgreSQL with the schema of accounts, and accounts built on it as app.py does."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.local import PostgresServer
from libs.db.migrate import folders, migrate
from tests.service.accounts.bench import Bench


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """One server for all tests of this folder."""
    directory: Path = tmp_path_factory.mktemp("postgres")
    with PostgresServer(directory) as server:
        server.create_databases(["accounts"])
        yield server


@pytest.fixture
async def bench(postgres: PostgresServer) -> AsyncIterator[Bench]:
    """Migrated; whatever earlier tests left is still there, as in life."""
    dsn = postgres.dsn("accounts")
    await migrate(dsn, folders()["accounts"])
    bench = Bench(dsn)
    await bench.start()
    yield bench
    await bench.stop()
