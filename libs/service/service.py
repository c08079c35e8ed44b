"""A service: its parts in order, its ops port, its life from start to stop.

Called by services/*/app.py, which builds one, and services/__main__.py, which runs it.
"""

import asyncio
import logging
from typing import Any, TypeVar

from libs.core.settings import OpsSettings, ServiceSettings
from libs.ops.telemetry import Telemetry
from libs.service.component import PROBLEMS, Component, Documented
from libs.service.ops_http import OpsApp, ops_server

log = logging.getLogger("kenari.service")

C = TypeVar("C", bound=Component)


class Service:
    """Parts are started in the order they were added and stopped in reverse, each within the grace period."""

    def __init__(self, name: str, settings: ServiceSettings, ops: OpsSettings, telemetry: Telemetry) -> None:
        self.name = name
        self.telemetry = telemetry
        self._settings = settings
        self._ops = ops
        self._parts: list[Component] = []
        self._started: list[Component] = []
        self._stopping = False
        self._up = False
        telemetry.metrics.gauge(PROBLEMS, lambda: len(self.problems()))

    def add(self, part: C) -> C:
        """Add a part and return it, so that it can be handed to the parts that need it."""
        self._parts.append(part)
        return part

    @property
    def asyncapi(self) -> dict[str, Any]:
        """What the service says and hears on Kafka, from the part that knows; empty when there is none."""
        return next((part.asyncapi() for part in self._parts if isinstance(part, Documented)), {})

    def problems(self) -> list[str]:
        """Why the service is not ready; empty when it is."""
        if self._stopping:
            return ["stopping"]
        if not self._up:
            return ["starting"]
        return [problem for part in self._parts if (problem := part.problem()) is not None]

    async def start(self) -> None:
        """Start the ops port, then all parts; on a failure stop what was started and raise."""
        ops = ops_server(self._ops, OpsApp(self.telemetry, self.problems, self.asyncapi))
        try:
            for part in [ops, *self._parts]:
                self._started.append(part)
                await part.start()
        except BaseException:
            await self.stop()
            raise
        self._up = True
        log.info("started", extra={"reason": self.name})

    async def stop(self) -> None:
        """Stop all started parts in reverse; a part that fails or takes too long does not keep the others."""
        self._stopping = True
        while self._started:
            await self._stop_part(self._started.pop())
        # Flushing spans blocks; other services of this process are still at work.
        await asyncio.to_thread(self.telemetry.shutdown)
        log.info("stopped", extra={"reason": self.name})

    async def _stop_part(self, part: Component) -> None:
        where = {"reason": f"{self.name}: {type(part).__name__}"}
        try:
            await asyncio.wait_for(part.stop(), self._settings.shutdown_grace_s)
        except TimeoutError:
            log.warning("did not stop in time", extra=where)
        except asyncio.CancelledError:
            # Of this task, or only of something the part waited for?
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            log.warning("was cancelled while stopping", extra=where)
        except Exception:
            # The other parts still have something to flush.
            log.exception("failed to stop", extra=where)
