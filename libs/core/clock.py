"""The time, as an argument: domain code takes a Clock, tests pass one they can set.

Called by services that stamp or compare times; all times are UTC.
"""

import functools
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time in Unix milliseconds."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def rfc3339(unix_ms: int) -> str:
    """``2026-11-30T20:44:28.123Z``, the form of times on the wire."""
    return f"{_to_the_second(unix_ms // 1000)}.{unix_ms % 1000:03d}Z"


@functools.lru_cache(maxsize=8)
def _to_the_second(unix_s: int) -> str:
    # Events of one second share it: formatting a date costs more than all the rest of an event.
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
