"""How fast the models answered of late: a moving average of the time to the first content of successful tries.

Told by consumers.py, asked for routes of strategy latency. All in memory: after a restart nothing is known.
"""

_SHARE_OF_NEWEST = 0.2
RECENT_MS = 600_000


class Latencies:
    """Milliseconds to the first content, by model."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, int]] = {}

    def seen(self, model: str, first_byte_ms: int, at_ms: int) -> None:
        """A try for that model succeeded."""
        before, when_ms = self._known.get(model, (float(first_byte_ms), at_ms))
        if at_ms - when_ms > RECENT_MS:
            before = float(first_byte_ms)
        average = before + (first_byte_ms - before) * _SHARE_OF_NEWEST
        self._known[model] = (average, max(at_ms, when_ms))

    def of(self, model: str, now_ms: int) -> float | None:
        """The average; None when nothing was heard within ten minutes."""
        known = self._known.get(model)
        return known[0] if known is not None and now_ms - known[1] <= RECENT_MS else None
