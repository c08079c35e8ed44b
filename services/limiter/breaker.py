"""Stops asking a store that does not answer. Used by store.py; time comes in as an argument."""

from collections import deque

WITHIN_S = 1.0


class Breaker:
    """Opens after ``failures`` within a second; stays open until ``close`` (a probe succeeded).

    Calls that were under way together fail together when the machine pauses: they count as one failure.
    """

    def __init__(self, failures: int) -> None:
        self._times: deque[float] = deque(maxlen=failures)
        self.is_open = False

    def failed(self, started_s: float, now_s: float) -> None:
        """Note that a call begun at monotonic time ``started_s`` has failed by ``now_s``."""
        if self._times and started_s < self._times[-1]:
            return
        self._times.append(now_s)
        if len(self._times) == self._times.maxlen and now_s - self._times[0] <= WITHIN_S:
            self.is_open = True

    def close(self) -> None:
        """Let traffic through again."""
        self._times.clear()
        self.is_open = False
