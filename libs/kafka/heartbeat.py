"""The owner's sign of life on its table topics, and the table itself where the topic has lost it.

Added by services/*/app.py of services that own compacted topics; tables measure their age by it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from libs.core.clock import Clock, SystemClock
from libs.core.errors import Transient
from libs.events.base import Heartbeat, encode, envelope
from libs.events.topics import Topic
from libs.kafka.bus import Bus
from libs.kafka.publisher import Outgoing
from libs.kafka.tasks import end

log = logging.getLogger("kenari.kafka")

KEY = "heartbeat"
_EVERY_S = 5.0

Snapshot = Callable[[], AsyncIterator[tuple[str, bytes]]]


class Heartbeats:
    """Publishes a heartbeat on each topic every five seconds.

    ``snapshots`` gives, per topic, every (key, event) that belongs on it: published when a heartbeat lands on an
    empty or newly made topic, as after the loss of a broker that keeps nothing.
    """

    def __init__(
        self,
        bus: Bus,
        topics: Sequence[Topic],
        snapshots: Mapping[Topic, Snapshot] | None = None,
        *,
        every_s: float = _EVERY_S,
        clock: Clock | None = None,
    ) -> None:
        self._publisher = bus.publisher
        self._topics = topics
        self._snapshots = snapshots or {}
        self._every_s = every_s
        self._clock = clock or SystemClock()
        self._last_offset: dict[str, int] = {}
        self._to_fill: set[Topic] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._beat(), name="kafka-heartbeat")

    async def stop(self) -> None:
        await end(self._task)

    def problem(self) -> str | None:
        """A broker that is away shows as the age of the tables, at their readers."""
        return "heartbeats have ended" if self._task is not None and self._task.done() else None

    async def _beat(self) -> None:
        while True:
            for topic in self._topics:
                try:
                    await self._beat_once(topic)
                except Transient as error:
                    log.warning("no heartbeat", extra={"topic": topic.name, "reason": str(error)})
            await asyncio.sleep(self._every_s)

    async def _beat_once(self, topic: Topic) -> None:
        beat = envelope(Heartbeat(), source=topic.owner, subject=KEY, now_ms=self._clock.now_ms())
        placed = await self._publisher.publish(Outgoing(topic.name, KEY.encode(), encode(beat)))
        if placed.offset <= self._last_offset.get(topic.name, 0):
            self._to_fill.add(topic)
        self._last_offset[topic.name] = placed.offset
        if topic in self._to_fill and topic in self._snapshots:
            await self._fill(topic)
            self._to_fill.remove(topic)

    async def _fill(self, topic: Topic) -> None:
        count = 0
        async for key, body in self._snapshots[topic]():
            await self._publisher.publish(Outgoing(topic.name, key.encode(), body))
            count += 1
        log.info("table published", extra={"topic": topic.name, "count": count})
