"""The owner's sign of life on its table topics, and the rows that a topic lacks.

Added by services/*/app.py of services that own compacted topics; tables measure their age by it.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from libs.core.clock import Clock, SystemClock
from libs.core.errors import Transient
from libs.events.base import Heartbeat, encode, envelope
from libs.events.topics import Topic
from libs.kafka.bus import Bus
from libs.kafka.publisher import Outgoing
from libs.kafka.refill import Snapshot, publish_missing
from libs.kafka.tasks import end

log = logging.getLogger("kenari.kafka")

KEY = "heartbeat"
_EVERY_S = 5.0


class Heartbeats:
    """Publishes a heartbeat on each topic every five seconds.

    ``snapshots`` gives, per topic, every (key, event) that belongs on it. Those that the topic lacks, or has in an
    older version, are published at start and when a heartbeat lands on a topic that was made anew. Where the broker
    keeps no records (``keeps_records``), a heartbeat says besides that the table is whole: none comes before.
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
        self._settings = bus.settings
        self._publisher = bus.publisher
        self._topics = topics
        self._snapshots = snapshots or {}
        self._every_s = every_s
        self._clock = clock or SystemClock()
        self._last_offset: dict[str, int] = {}
        self._to_fill: set[Topic] = set(self._snapshots)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._beat(), name="kafka-heartbeat")

    async def stop(self) -> None:
        await end(self._task)

    def problem(self) -> str | None:
        """A broker that is away shows as the age of the tables, at their readers.

        One that keeps records has had the table all along, so that nobody has to wait while it is compared.
        """
        if self._task is not None and self._task.done():
            return "heartbeats have ended"
        if self._to_fill and not self._settings.keeps_records:
            return f"{min(topic.name for topic in self._to_fill)}: not published yet"
        return None

    async def _beat(self) -> None:
        await self._publisher.connected()
        while True:
            for topic in self._topics:
                try:
                    await self._tend(topic)
                except Transient as error:
                    log.warning("no heartbeat", extra={"topic": topic.name, "reason": str(error)})
            await asyncio.sleep(self._every_s)

    async def _tend(self, topic: Topic) -> None:
        if not self._settings.keeps_records:
            await self._fill(topic)
        await self._beat_once(topic)
        await self._fill(topic)

    async def _beat_once(self, topic: Topic) -> None:
        beat = envelope(Heartbeat(), source=topic.owner, subject=KEY, now_ms=self._clock.now_ms())
        placed = await self._publisher.publish(Outgoing(topic.name, KEY.encode(), encode(beat)))
        if placed.offset <= self._last_offset.get(topic.name, -1) and topic in self._snapshots:
            self._to_fill.add(topic)
        self._last_offset[topic.name] = placed.offset

    async def _fill(self, topic: Topic) -> None:
        if topic not in self._to_fill:
            return
        snapshot = self._snapshots[topic]
        count = await publish_missing(self._settings, self._publisher, topic, snapshot)
        if count:
            # A row that changed meanwhile may lie behind its newer self, and compaction would keep the older.
            await publish_missing(self._settings, self._publisher, topic, snapshot)
            log.info("table published", extra={"topic": topic.name, "count": count})
        self._to_fill.remove(topic)
