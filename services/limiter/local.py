"""Limits without the store: each process grants its share by itself, so that Valkey's absence refuses nobody paid.

Called by service.py while the store is away. Shares are coarser than the real limits; the answers say so.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from services.limiter.bounded import Bounded
from services.limiter.domain import (
    DAY_MS,
    IN_FLIGHT,
    Admit,
    Allowed,
    Answer,
    FreeLimits,
    FreeRules,
    Limit,
    Refused,
    to_midnight_ms,
    whole_seconds,
)
from services.limiter.limits import Places, Window, local_most
from services.limiter.memory import DayCounts
from services.limiter.minutes import Minutes

SIZE = 100_000
# Of what was left of a daily quota when the store went, this part is granted while it is away.
DAILY_SHARE_PERCENT = 20

_ADMITTED = Allowed(degraded=True)
_LEASED = Allowed(degraded=True, leased=True)


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
        self._windows = Minutes()
        self._pace: Bounded[str, int] = Bounded(SIZE)
        self._allowances: Bounded[tuple[str, str, int], _Allowance] = Bounded(SIZE)
        self._given: Bounded[str, _Given] = Bounded(SIZE)
        self._places: dict[str, int] = {}

    def windows(self, account_id: str, windows: Sequence[Window], shadow: Collection[Limit], now_ms: int) -> Answer:
        """One request against this process's part of each window: all count it or none does."""
        counted = []
        for window in windows:
            name = f"{account_id}:{window.name}"
            if self._windows.state(name, now_ms)[0] < local_most(window, self._processes):
                counted.append(name)
            elif window.limit not in shadow:
                return Refused(window.limit)
        for name in counted:
            self._windows.count(name, now_ms)
        return _ADMITTED

    def place(self, request_id: str, places: Places, now_ms: int) -> Answer:
        """A place of those all accounts share, by the plain share; music is let through, for the ledger counts it."""
        if places.limit is Limit.MUSIC:
            return _LEASED
        for old in [held for held, ends_ms in self._places.items() if ends_ms <= now_ms]:
            del self._places[old]
        if request_id not in self._places and len(self._places) >= max(1, places.most // self._processes):
            return Refused(places.limit, places.retry_after_s)
        self._places[request_id] = now_ms + places.lease_ms
        return _LEASED

    def leave(self, request_id: str) -> None:
        """A place is free again."""
        self._places.pop(request_id, None)

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
                again_ms = to_midnight_ms(now_ms)
                return Refused(Limit.FREE_DAY, whole_seconds(again_ms), again_ms)
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
        self._places.clear()

    def _allowance(self, key: tuple[str, str, int], rest: int) -> _Allowance:
        allowance = self._allowances.get(key)
        if allowance is None:
            share = rest * DAILY_SHARE_PERCENT // 100 // self._processes
            allowance = self._allowances[key] = _Allowance(max(1, share))
        return allowance

    def _paced(self, ask: Admit, limits: FreeLimits, allowance: _Allowance | None, now_ms: int) -> Answer:
        window = f"{ask.account_id}:free:{limits.rpm_scope}"
        used, ends_ms = self._windows.state(window, now_ms)
        share = max(1, limits.rpm // self._processes) if limits.rpm else 0
        if share and used >= share:
            return Refused(Limit.FREE_MINUTE, whole_seconds(ends_ms - now_ms))
        pace = self._pace.get(ask.account_id, 0)
        if pace > now_ms + self._rules.max_wait_ms + self._rules.gap_max_ms:
            pace = 0
        wait_ms = max(0, pace - now_ms)
        if wait_ms > self._rules.max_wait_ms:
            return Refused(Limit.FREE_FLOOD)
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
