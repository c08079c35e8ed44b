"""What this process last heard of each daily quota, so that a store that lost its data is healed by the next call.

Written and read by service.py, read by local.py. Day counts are days since 1970 by the store's clock.
"""

from services.limiter.bounded import Bounded

SIZE = 200_000
NOTHING = (0, 0)


class DayCounts:
    """Successes per account and scope on one day; only ever moves forward."""

    def __init__(self) -> None:
        self._counts: Bounded[tuple[str, str], tuple[int, int]] = Bounded(SIZE)

    def heard(self, account_id: str, scope: str, day: int, successes: int) -> None:
        """Remember a count the store told."""
        if (day, successes) > self._counts.get((account_id, scope), NOTHING):
            self._counts[account_id, scope] = (day, successes)

    def last(self, account_id: str, scope: str) -> tuple[int, int]:
        """Day and successes as last heard."""
        return self._counts.get((account_id, scope), NOTHING)

    def on(self, day: int, account_id: str, scope: str) -> int:
        """Successes known of that day."""
        known_day, successes = self.last(account_id, scope)
        return successes if known_day == day else 0
