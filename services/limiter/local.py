"""Limits without the store: each process grants its share by itself, so that Valkey's absence refuses nobody paid.

Called by service.py while the store is away. Shares are coarser than the real limits; the answers say so.
"""

from dataclasses import dataclass, replace

from services.limiter.bounded import Bounded
from services.limiter.domain import (
    DAY_MS,
    FLOOD,
    IN_FLIGHT,
    MINUTE_MS,
    PAID_REFUSED,
    Admit,
    Allowed,
    Answer,
    Code,
    FreeLimits,
    FreeRules,
    Refused,
    seconds_to_midnight,
)
from services.limiter.memory import DayCounts

SIZE = 100_000
# Of what was left of a daily quota when the store went, this part is granted while it is away.
DAILY_SHARE_PERCENT = 20

_ADMITTED = Allowed(degraded=True)


class _Windows:
    """Counters that start with the first request and last a minute."""

    def __init__(self) -> None:
        self._windows: Bounded[str, tuple[int, int]] = Bounded(SIZE)

    def state(self, key: str, now_ms: int) -> tuple[int, int]:
        """How many were counted and when (ms) the count ends."""
        used, ends_ms = self._windows.get(key, (0, 0))
        return (used, ends_ms) if now_ms < ends_ms <= now_ms + MINUTE_MS else (0, now_ms + MINUTE_MS)

    def count(self, key: str, now_ms: int) -> None:
        used, ends_ms = self.state(key, now_ms)
        self._windows[key] = (used + 1, ends_ms)

    def clear(self) -> None:
        self._windows.clear()


@dataclass(slots=True)
class _Allowance:
    """What is granted of one daily quota while the store is away."""

    left: int


@dataclass(frozen=True, slots=True)
class _Given:
    answer: Allowed
    go_at_ms: int
    ends_ms: int
    allowance: _Allowance | None


class LocalShares:
    """The limits of one process among ``processes``. Time comes in as Unix milliseconds."""

    def __init__(self, rules: FreeRules, processes: int, counts: DayCounts) -> None:
        self._rules = rules
        self._processes = processes
        self._counts = counts
        self._windows = _Windows()
        self._pace: Bounded[str, int] = Bounded(SIZE)
        self._allowances: Bounded[tuple[str, str, int], _Allowance] = Bounded(SIZE)
        self._given: Bounded[str, _Given] = Bounded(SIZE)

    def paid(self, account_id: str, limit: int, now_ms: int) -> Answer:
        """A paid request: half more than the share, since money holds guard the rest."""
        return self._minute(f"{account_id}:paid", -(-limit * 3 // (2 * self._processes)), now_ms)

    def usage_read(self, account_id: str, limit: int, now_ms: int) -> Answer:
        """A read of usage: the plain share."""
        return self._minute(f"{account_id}:usage", self._share(limit), now_ms)

    def free(self, ask: Admit, limits: FreeLimits, now_ms: int) -> Answer:
        """A free request: a fifth of the day's rest, the share of the minute, paced."""
        given = self._given.get(ask.request_id)
        if given is not None and now_ms < given.ends_ms:
            return replace(given.answer, wait_ms=max(0, given.go_at_ms - now_ms))
        allowance = None
        if limits.daily:
            today = now_ms // DAY_MS
            rest = limits.daily - self._counts.on(today, ask.account_id, limits.daily_scope)
            if rest <= 0:
                return Refused(Code.FREE_DAILY, seconds_to_midnight(now_ms))
            allowance = self._allowance((ask.account_id, limits.daily_scope, today), rest)
            if allowance.left <= 0:
                # Whether the quota is used up is not known, so the client is not sent away for the day.
                return IN_FLIGHT
        return self._paced(ask, limits, allowance, now_ms)

    def finish(self, request_id: str, success: bool) -> bool:
        """A request has ended: whether it was admitted here, so that the store owes the count of its success."""
        given = self._given.pop(request_id, None)
        if given is None:
            return False
        if given.allowance is not None and not success:
            given.allowance.left += 1
        return True

    def reset(self) -> None:
        """The store is back: forget all shares, but not who was admitted from them."""
        self._windows.clear()
        self._pace.clear()
        self._allowances.clear()

    def _share(self, limit: int) -> int:
        return max(1, limit // self._processes)

    def _minute(self, key: str, share: int, now_ms: int) -> Answer:
        if self._windows.state(key, now_ms)[0] >= share:
            return PAID_REFUSED
        self._windows.count(key, now_ms)
        return _ADMITTED

    def _allowance(self, key: tuple[str, str, int], rest: int) -> _Allowance:
        allowance = self._allowances.get(key)
        if allowance is None:
            share = rest * DAILY_SHARE_PERCENT // 100 // self._processes
            allowance = self._allowances[key] = _Allowance(max(1, share))
        return allowance

    def _paced(self, ask: Admit, limits: FreeLimits, allowance: _Allowance | None, now_ms: int) -> Answer:
        window = f"{ask.account_id}:free:{limits.rpm_scope}"
        used, ends_ms = self._windows.state(window, now_ms)
        share = self._share(limits.rpm) if limits.rpm else 0
        if share and used >= share:
            return Refused(Code.FREE_RPM, -(-(ends_ms - now_ms) // 1000))
        pace = self._pace.get(ask.account_id, 0)
        if pace > now_ms + self._rules.max_wait_ms + self._rules.gap_max_ms:
            pace = 0
        wait_ms = max(0, pace - now_ms)
        if wait_ms > self._rules.max_wait_ms:
            return FLOOD
        self._pace[ask.account_id] = now_ms + wait_ms + limits.gap_ms
        self._windows.count(window, now_ms)
        if allowance is not None:
            allowance.left -= 1
        answer = Allowed(
            limit=limits.rpm,
            remaining=max(0, share - used - 1),
            reset_unix_s=max(ends_ms // 1000, now_ms // 1000 + 1) if limits.rpm else 0,
            wait_ms=wait_ms,
            leased=True,
            degraded=True,
        )
        self._given[ask.request_id] = _Given(
            answer, now_ms + wait_ms, now_ms + wait_ms + self._rules.lease_ms, allowance
        )
        return answer
