"""Counters of this process that start with the first count and last a minute. Used by local.py and budgets.py."""

from services.limiter.bounded import Bounded
from services.limiter.domain import MINUTE_MS

SIZE = 100_000


class Minutes:
    """Counters by name. Time comes in as Unix milliseconds; a clock set back starts a counter anew."""

    def __init__(self) -> None:
        self._windows: Bounded[str, tuple[int, int]] = Bounded(SIZE)

    def state(self, name: str, now_ms: int) -> tuple[int, int]:
        """How many were counted and when (ms) the count ends."""
        used, ends_ms = self._windows.get(name, (0, 0))
        return (used, ends_ms) if now_ms < ends_ms <= now_ms + MINUTE_MS else (0, now_ms + MINUTE_MS)

    def count(self, name: str, now_ms: int, many: int = 1) -> None:
        """Count so many now."""
        used, ends_ms = self.state(name, now_ms)
        self._windows[name] = (used + many, ends_ms)

    def clear(self) -> None:
        """Forget everything."""
        self._windows.clear()
