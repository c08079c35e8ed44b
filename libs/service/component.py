"""The parts a service is made of, and the two kinds that need no class of their own.

Called by services/*/app.py.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, runtime_checkable

from libs.core.errors import KenariError
from libs.ops.metrics import CounterSpec, GaugeSpec, HistogramSpec
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.service")

JOB_SECONDS = HistogramSpec("kenari.service.job.seconds", "Runs of periodic jobs", labels=("job",))
JOB_FAILURES = CounterSpec("kenari.service.job.failures", "Runs of periodic jobs that failed", labels=("job",))
PROBLEMS = GaugeSpec("kenari.service.problems", "Reasons why the service is not ready; /ready says which")

ALL = (JOB_SECONDS, JOB_FAILURES, PROBLEMS)


class Component(Protocol):
    """A part of a service: started in order, stopped in reverse, asked for its health."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def problem(self) -> str | None:
        """Why this part is not ready to serve; None when it is."""
        ...


@runtime_checkable
class Documented(Protocol):
    """A part that can describe what the service says and hears on Kafka."""

    def asyncapi(self) -> dict[str, Any]:
        """The service's AsyncAPI document."""
        ...


class Hook:
    """Two functions as a component: for what has to run once at start or at stop."""

    def __init__(
        self, start: Callable[[], Awaitable[None]] | None = None, stop: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._start = start
        self._stop = stop

    async def start(self) -> None:
        if self._start is not None:
            await self._start()

    async def stop(self) -> None:
        if self._stop is not None:
            await self._stop()

    def problem(self) -> str | None:
        return None


class Periodic:
    """Runs a job again and again, ``every_s`` after its last run ended. A failed run is logged and counted."""

    def __init__(self, name: str, every_s: float, job: Callable[[], Awaitable[None]], telemetry: Telemetry) -> None:
        self._name = name
        self._every_s = every_s
        self._job = job
        self._task: asyncio.Task[None] | None = None
        self._seconds = telemetry.metrics.histogram(JOB_SECONDS).labels(name)
        self._failures = telemetry.metrics.counter(JOB_FAILURES).labels(name)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name=f"job-{self._name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def problem(self) -> str | None:
        if self._task is not None and self._task.done():
            return f"job {self._name} has ended"
        return None

    async def _loop(self) -> None:
        while True:
            started = time.perf_counter()
            try:
                await self._job()
            except KenariError as error:
                self._failures.inc()
                log.warning("job failed", extra={"reason": f"{self._name}: {error}"})
            except Exception:
                # A job that died silently would be missed only when its work is: it is logged and goes on.
                self._failures.inc()
                log.exception("job failed", extra={"reason": self._name})
            self._seconds.observe(time.perf_counter() - started)
            await asyncio.sleep(self._every_s)
