"""A Valkey of the tests' own, which they may stop, pause and flush, and limiters that use it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from valkey.asyncio import Valkey

from deploy.local.valkey import ValkeyServer
from tests.service.limiter.bench import Bench


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """Started once; a test that stops it starts it again."""
    directory: Path = tmp_path_factory.mktemp("valkey")
    with ValkeyServer(directory) as server:
        yield server


@pytest.fixture
async def bench(valkey_server: ValkeyServer) -> AsyncIterator[Bench]:
    """Empty store, no limiter yet."""
    async with Valkey.from_url(valkey_server.url) as client:
        await client.flushall()
        bench = Bench(valkey_server, client)
        yield bench
        await bench.close()
