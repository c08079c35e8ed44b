"""Limiters on a Valkey which a test may stop, freeze and flush."""

from collections.abc import AsyncIterator

import pytest
from valkey.asyncio import Valkey

from deploy.local import ValkeyServer
from tests.service.limiter.bench import Bench


@pytest.fixture
async def bench(own_valkey: ValkeyServer) -> AsyncIterator[Bench]:
    """Empty store, no limiter yet; the server runs again afterwards."""
    async with Valkey.from_url(own_valkey.url) as client:
        await client.flushall()
        bench = Bench(own_valkey, client)
        yield bench
        await bench.close()
        own_valkey.resume()
        own_valkey.start()
