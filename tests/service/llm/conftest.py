"""A scripted provider and the real adapter in front of it."""

from collections.abc import AsyncIterator

import pytest

from libs.llm.http_transport import HttpTransport
from tests.service.llm.calls import Upstream
from tests.support.provider import ScriptedProvider


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as server:
        yield server


@pytest.fixture
async def upstream(provider: ScriptedProvider) -> AsyncIterator[Upstream]:
    transport = HttpTransport()
    await transport.start()
    yield Upstream(transport, provider.base_url)
    await transport.stop()
