"""Ends of requests the store has not heard of, kept until it is back. Filled and drained by service.py."""

from collections import deque

from libs.ops.telemetry import Telemetry
from services.limiter.domain import Done
from services.limiter.telemetry import BACKLOG, BACKLOG_DROPPED

SIZE = 50_000


class Backlog:
    """Oldest first; when full the oldest are dropped (their places free themselves when their lease ends)."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._waiting: deque[tuple[Done, bool]] = deque()
        telemetry.metrics.gauge(BACKLOG).set_function(lambda: len(self._waiting))
        self._dropped = telemetry.metrics.counter(BACKLOG_DROPPED)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, done: Done, owed: bool) -> None:
        """Keep one; ``owed`` as in windows.done_call."""
        if len(self._waiting) >= SIZE:
            self._waiting.popleft()
            self._dropped.inc()
        self._waiting.append((done, owed))

    def take(self, most: int) -> list[tuple[Done, bool]]:
        """Remove and return up to ``most`` of the oldest."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
