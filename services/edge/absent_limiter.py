"""What an edge allows while no limiter answers: paid requests, which the ledger guards, a few free ones, and a share
of what keys given to others may ask.

Called by limiter.py.
"""

import math
import time

from kenari.limiter.v1 import limiter_pb2

from libs.ops.telemetry import Telemetry
from services.edge.settings import EdgeSettings
from services.edge.telemetry import DEGRADED

_WINDOW_S = 60.0
_WINDOWS_MAX = 50_000

# The limit, the name of its window, and how many go through.
_Window = tuple["limiter_pb2.Limit.ValueType", str, int]


class AbsentLimiter:
    """Counts in windows of a minute, in this process only."""

    def __init__(self, settings: EdgeSettings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._windows: dict[str, tuple[float, int]] = {}
        decided = telemetry.metrics.counter(DEGRADED)
        self._allowed = decided.labels("allowed")
        self._refused = decided.labels("refused")

    def answer(self, question: limiter_pb2.AdmitRequest) -> limiter_pb2.AdmitResponse:
        """The limiter's answer in its absence."""
        now = time.monotonic()
        windows = self._limits(question)
        for limit, name, most in windows:
            ends, used = self._state(name, now)
            if used >= most:
                self._refused.inc()
                return limiter_pb2.AdmitResponse(refused=_refusal(limit, math.ceil(ends - now)))
        for _, name, _ in windows:
            ends, used = self._state(name, now)
            self._windows[name] = (ends, used + 1)
        self._allowed.inc()
        return limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed(degraded=True))

    def _limits(self, question: limiter_pb2.AdmitRequest) -> list[_Window]:
        settings, key_id = self._settings, question.key_id
        if question.subject == limiter_pb2.SUBJECT_FREE_CHAT:
            most = settings.free_rpm_without_limiter
            return [(limiter_pb2.LIMIT_FREE_MINUTE, f"free:{question.account_id}", most)]
        if question.subject != limiter_pb2.SUBJECT_KEY_REQUEST:
            return []
        found: list[_Window] = []
        if question.key_shared:
            most = settings.shared_rpm_without_limiter
            found.append((limiter_pb2.LIMIT_ADDRESS, f"address:{key_id}:{question.address}", most))
            found.append((limiter_pb2.LIMIT_SHARED_KEY, f"shared:{key_id}", most))
        if question.key_rpm:
            found.append((limiter_pb2.LIMIT_KEY_REQUESTS, f"key:{key_id}", question.key_rpm))
        return found

    def _state(self, name: str, now: float) -> tuple[float, int]:
        ends, used = self._windows.get(name, (0.0, 0))
        if ends > now:
            return ends, used
        if len(self._windows) >= _WINDOWS_MAX:
            self._windows = {other: window for other, window in self._windows.items() if window[0] > now}
        return now + _WINDOW_S, 0


def _refusal(limit: "limiter_pb2.Limit.ValueType", seconds: int) -> limiter_pb2.Refused:
    if limit == limiter_pb2.LIMIT_FREE_MINUTE:
        return limiter_pb2.Refused(code="free_quota_rpm", retry_after_s=max(1, seconds), limit=limit)
    return limiter_pb2.Refused(code="rate_limit_exceeded", limit=limit)
