"""A scripted provider in a thread of its own, for systems that run as processes.
Used by the end-to-end tests: it keeps its address while it comes and goes.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Self, TypeVar

import pytest

from tests.support.provider import Answer, Received, ScriptedProvider

T = TypeVar("T")


class BackgroundProvider:
    """The same script as ScriptedProvider, without an event loop in sight."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._provider = ScriptedProvider()

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._provider.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._provider.refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def base_url(self) -> str:
        return self._provider.base_url

    @property
    def requests(self) -> list[Received]:
        return self._provider.requests

    @property
    def open_connections(self) -> int:
        return self._provider.open_connections

    @property
    def sent(self) -> int:
        """Bytes of bodies ever sent."""
        return self._provider.sent

    def answers(self, *script: Answer) -> None:
        """Replace the script and forget the requests so far."""
        self._provider.requests.clear()
        self._provider.answers(*script)

    def wait_requests(self, count: int, timeout_s: float = 5.0) -> None:
        self._run(self._provider.wait_requests(count, timeout_s))

    def wait_closed(self, timeout_s: float = 5.0) -> None:
        self._run(self._provider.wait_closed(timeout_s))

    def refuse(self) -> None:
        """Be unreachable from now on."""
        self._run(self._provider.refuse())

    def listen_again(self) -> None:
        """Be reachable again at the same address."""
        self._run(self._provider.listen_again())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


@pytest.fixture(scope="session")
def first() -> Iterator[BackgroundProvider]:
    """The provider behind most models of the fixture catalogue."""
    with BackgroundProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def second() -> Iterator[BackgroundProvider]:
    """The provider that stands in where the first fails."""
    with BackgroundProvider() as provider:
        yield provider
