"""What an edge allows while no limiter answers: paid requests, which the ledger guards, and a few free ones.

Called by admission.
"""

import time

from kenari.limiter.v1 import limiter_pb2

from libs.ops.telemetry import Telemetry
from services.edge.errors import refuse, with_retry_after
from services.edge.telemetry import DEGRADED

_WINDOW_S = 60.0
_ACCOUNTS_MAX = 50_000


class AbsentLimiter:
    """Counts free requests per account in windows of a minute, in this process only."""

    def __init__(self, free_per_minute: int, telemetry: Telemetry) -> None:
        self._free_per_minute = free_per_minute
        self._windows: dict[str, tuple[float, int]] = {}
        decided = telemetry.metrics.counter(DEGRADED)
        self._allowed = decided.labels("allowed")
        self._refused = decided.labels("refused")

    def allow(self, account_id: str, *, free: bool) -> limiter_pb2.Allowed:
        """The limiter's answer in its absence; raise RefusedError when the local share is used up."""
        if free:
            self._count(account_id)
        self._allowed.inc()
        return limiter_pb2.Allowed(degraded=True)

    def _count(self, account_id: str) -> None:
        now = time.monotonic()
        ends, used = self._windows.get(account_id, (0.0, 0))
        if ends <= now:
            if len(self._windows) >= _ACCOUNTS_MAX:
                self._windows = {account: window for account, window in self._windows.items() if window[0] > now}
            ends, used = now + _WINDOW_S, 0
        if used >= self._free_per_minute:
            self._refused.inc()
            message = "free models are limited more than usual right now; retry after the time in Retry-After"
            refused = refuse(429, "free_quota_rpm", message, kind="rate_limit_exceeded")
            raise with_retry_after(refused, max(1, round(ends - now)))
        self._windows[account_id] = (ends, used + 1)
