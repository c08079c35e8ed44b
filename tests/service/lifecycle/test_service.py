"""The life of a service: start in order, stop in reverse, whatever a part does.
Run by pytest; no servers needed.
"""

import asyncio
import logging
import time

import pytest

from libs.core.errors import ConfigError, Transient
from libs.service.component import Hook
from tests.service.lifecycle.conftest import Part, plain_service


async def test_parts_start_in_order_and_stop_in_reverse(log: list[str]) -> None:
    service = plain_service()
    for name in ("a", "b", "c"):
        service.add(Part(name, log))
    await service.start()
    await service.stop()
    assert log == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]


async def test_a_failed_start_stops_what_was_started_and_tells_why(log: list[str]) -> None:
    service = plain_service()
    service.add(Part("a", log))
    service.add(Part("b", log, start=ConfigError("no such host")))
    service.add(Part("c", log))
    with pytest.raises(ConfigError, match="no such host"):
        await service.start()
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert service.problems() == ["stopping"]


async def test_a_cancelled_start_stops_what_was_started(log: list[str]) -> None:
    service = plain_service()
    service.add(Part("a", log))
    service.add(Hook(start=lambda: asyncio.sleep(60)))
    starting = asyncio.create_task(service.start())
    await asyncio.sleep(0.05)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert log == ["start a", "stop a"]


@pytest.mark.parametrize("error", [ValueError("broken"), Transient("away"), asyncio.CancelledError()])
async def test_a_part_that_fails_to_stop_does_not_keep_the_others(log: list[str], error: BaseException) -> None:
    service = plain_service()
    service.add(Part("a", log))
    service.add(Part("b", log)).stop_error = error
    await service.start()
    await service.stop()
    assert log[-2:] == ["stop b", "stop a"]


async def test_a_part_that_does_not_stop_is_left_after_the_grace(
    log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    service = plain_service(grace_s=0.2)
    service.add(Part("a", log))
    service.add(Hook(stop=lambda: asyncio.sleep(60)))
    await service.start()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        await service.stop()
    assert 0.2 <= time.monotonic() - started < 2
    assert log == ["start a", "stop a"]
    assert "did not stop in time" in caplog.text


async def test_cancelling_the_stop_itself_goes_on_to_the_caller(log: list[str]) -> None:
    service = plain_service(grace_s=30)
    service.add(Hook(stop=lambda: asyncio.sleep(60)))
    await service.start()
    stopping = asyncio.create_task(service.stop())
    await asyncio.sleep(0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping


async def test_flushing_traces_does_not_hold_up_the_rest_of_the_process() -> None:
    service = plain_service()
    await service.start()
    service.telemetry.shutdown = lambda: time.sleep(0.3)  # type: ignore[method-assign]
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    await service.stop()
    watching.cancel()
    assert longest < 0.25


async def test_problems_name_every_part_that_is_not_ready(log: list[str]) -> None:
    service = plain_service()
    first, second = service.add(Part("a", log)), service.add(Part("b", log))
    assert service.problems() == ["starting"]
    await service.start()
    assert service.problems() == []
    first.trouble, second.trouble = "no database", "behind"
    assert service.problems() == ["no database", "behind"]
    await service.stop()
    assert service.problems() == ["stopping"]
