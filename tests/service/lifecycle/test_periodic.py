"""Jobs that run again and again: a failed run is counted and the next one comes.
Run by pytest; no servers needed.
"""

import asyncio
import time

import pytest

from libs.core.errors import Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.service.component import JOB_FAILURES, Periodic


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry("plain", TelemetrySettings())


async def test_a_job_goes_on_after_any_failure(telemetry: Telemetry) -> None:
    runs = 0
    enough = asyncio.Event()

    async def job() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise Transient("no database")
        if runs == 2:
            raise ZeroDivisionError
        enough.set()

    periodic = Periodic("sweep", 0.01, job, telemetry)
    await periodic.start()
    await asyncio.wait_for(enough.wait(), 5)
    assert periodic.problem() is None
    await periodic.stop()
    failures = telemetry.metrics.counter(JOB_FAILURES).labels("sweep")
    assert failures._value.get() == 2


async def test_a_stopped_job_runs_no_more(telemetry: Telemetry) -> None:
    runs = 0

    async def job() -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)

    periodic = Periodic("sweep", 0.005, job, telemetry)
    await periodic.start()
    await asyncio.sleep(0.03)
    await periodic.stop()
    seen = runs
    await asyncio.sleep(0.03)
    assert runs == seen > 0


async def test_stopping_ends_a_run_under_way(telemetry: Telemetry) -> None:
    periodic = Periodic("sweep", 1, lambda: asyncio.sleep(60), telemetry)
    await periodic.start()
    await asyncio.sleep(0.01)
    started = time.monotonic()
    await periodic.stop()
    assert time.monotonic() - started < 1


async def test_a_job_whose_task_ended_is_a_problem(telemetry: Telemetry) -> None:
    async def job() -> None:
        raise asyncio.CancelledError

    periodic = Periodic("sweep", 1, job, telemetry)
    await periodic.start()
    await asyncio.sleep(0.01)
    assert periodic.problem() == "job sweep has ended"
    await periodic.stop()


async def test_a_job_that_was_never_started_can_be_stopped(telemetry: Telemetry) -> None:
    periodic = Periodic("sweep", 1, lambda: asyncio.sleep(0), telemetry)
    assert periodic.problem() is None
    await periodic.stop()
