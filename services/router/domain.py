"""Which upstreams a request may try and in which order, and when an upstream is paused: pure rules, no clock, no IO.

Called by services/router/service.py. Upstreams are named by id (provider/credential); times are Unix milliseconds.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """What one try says about the upstream."""

    ALIVE = "alive"
    FAILED = "failed"
    AT_LIMIT = "at_limit"
    # Says nothing about it: the client left.
    SILENT = "silent"


_VERDICTS = {
    "completed": Verdict.ALIVE,
    # It answered; the request was at fault.
    "rejected": Verdict.ALIVE,
    "client_closed": Verdict.SILENT,
    "rate_limited": Verdict.AT_LIMIT,
}
# Our credential is refused or out of funds: whatever the edge calls it, other requests will meet the same.
_CREDENTIAL_STATUSES = (401, 402)


def verdict(outcome: str, status: int | None) -> Verdict:
    """Class of an ``AttemptFinished``: refused, timeout, failed, interrupted and junk count against the upstream."""
    if status in _CREDENTIAL_STATUSES:
        return Verdict.FAILED
    return _VERDICTS.get(outcome, Verdict.FAILED)


@dataclass(frozen=True)
class HealthRules:
    """When an upstream is paused and for how long. Times in milliseconds."""

    failures_in_row: int = 3
    window_ms: int = 30_000
    window_least: int = 10
    window_percent: int = 50
    first_pause_ms: int = 5_000
    longest_pause_ms: int = 300_000
    longest_retry_after_ms: int = 3_600_000
    # A pause after this long without one starts at the first step again.
    forgive_ms: int = 120_000
    # Attempts reported later than this say nothing about now.
    stale_ms: int = 60_000
    # How long one probe may take before another is let through, and its wait for a first byte when other
    # upstreams can still serve the request.
    probe_ms: int = 15_000
    probe_first_byte_ms: int = 10_000


# Tuples: one of each is made for every try of every edge, and a frozen dataclass costs five times as much.
class Health(NamedTuple):
    """What is known of one upstream. ``until_ms`` 0: takes requests; in the future: paused; past: one probe at a time.

    ``pauses`` counts pauses in close succession and sets the length of the next one.
    """

    until_ms: int = 0
    pauses: int = 0
    reason: str = ""
    healed_ms: int = 0
    in_row: int = 0
    window_start_ms: int = 0
    window_good: int = 0
    window_bad: int = 0

    def takes_all(self) -> bool:
        """True when requests need no permission."""
        return self.until_ms == 0


class Try(NamedTuple):
    """One finished try at an upstream."""

    verdict: Verdict
    reason: str
    started_ms: int
    finished_ms: int
    retry_after_ms: int | None = None
    # It is the very request that was let through to find out.
    probe: bool = False


def judge(health: Health, tried: Try, now_ms: int, rules: HealthRules) -> Health:
    """Return the health after one try; the same object when the try changes nothing."""
    if tried.verdict is Verdict.SILENT or now_ms - tried.finished_ms > rules.stale_ms:
        return health
    if not health.takes_all():
        return _judge_paused(health, tried, now_ms, rules)
    start, good, bad = health.window_start_ms, health.window_good, health.window_bad
    if now_ms - start >= rules.window_ms:
        start, good, bad = now_ms, 0, 0
    if tried.verdict is Verdict.ALIVE:
        return health._replace(in_row=0, window_start_ms=start, window_good=good + 1, window_bad=bad)
    bad += 1
    in_row = health.in_row + 1
    over_rate = good + bad >= rules.window_least and bad * 100 >= (good + bad) * rules.window_percent
    if _told_to_wait(tried) or in_row >= rules.failures_in_row or over_rate:
        return _pause(health, tried, now_ms, rules)
    return health._replace(in_row=in_row, window_start_ms=start, window_good=good, window_bad=bad)


def _judge_paused(health: Health, tried: Try, now_ms: int, rules: HealthRules) -> Health:
    # Tries begun before the pause ended were on their way when it began. Another router's probe is told from them
    # by its start; our own is known, whatever the edge's clock says.
    if not tried.probe and tried.started_ms < health.until_ms:
        longer = _told_to_wait(tried) and _wait_over_ms(tried, rules) > health.until_ms
        return health._replace(until_ms=_wait_over_ms(tried, rules), reason=tried.reason) if longer else health
    if tried.verdict is Verdict.ALIVE:
        return Health(pauses=health.pauses, healed_ms=now_ms, window_start_ms=now_ms, window_good=1)
    return _pause(health, tried, now_ms, rules)


def _told_to_wait(tried: Try) -> bool:
    return tried.verdict is Verdict.AT_LIMIT and bool(tried.retry_after_ms)


def _wait_over_ms(tried: Try, rules: HealthRules) -> int:
    # The provider's wait runs from its answer.
    return tried.finished_ms + min(tried.retry_after_ms or 0, rules.longest_retry_after_ms)


def _pause(health: Health, tried: Try, now_ms: int, rules: HealthRules) -> Health:
    forgiven = health.takes_all() and now_ms - health.healed_ms >= rules.forgive_ms
    pauses = 1 if forgiven else health.pauses + 1
    if _told_to_wait(tried):
        return Health(until_ms=max(_wait_over_ms(tried, rules), now_ms + 1), pauses=health.pauses, reason=tried.reason)
    # Capped before shifting: pauses may be large.
    wait = min(rules.first_pause_ms << min(pauses - 1, 20), rules.longest_pause_ms)
    return Health(until_ms=now_ms + wait, pauses=pauses, reason=tried.reason)


@dataclass(frozen=True)
class Server:
    """A way to serve a model: an upstream and its name for the model.

    Lower ``order`` is tried first; servers of the same order share by ``weight``.
    """

    upstream_id: str
    upstream_model: str
    order: int
    weight: int


@dataclass(frozen=True)
class Plan:
    """Places in the model's list of servers, by how they may be used now."""

    # Healthy servers of the best order that has any: one of them, by weight, is tried first.
    first: tuple[int, ...]
    # Weights of ``first`` added up, for picking.
    bounds: tuple[int, ...]
    # Healthy servers of later orders, in the order in which they are tried.
    rest: tuple[int, ...]
    # Paused ones whose pause is over: each may take one request to find out.
    due: tuple[int, ...]
    # When the next paused one is due; 0 when none is paused.
    next_due_ms: int


def plan(servers: Sequence[Server], health: Sequence[Health], probing_until: Sequence[int], now_ms: int) -> Plan:
    """Sort the servers of one model by what their upstreams' health allows now; three lists of the same length.

    ``probing_until`` is when a probe that is under way runs out, 0 when none is.
    """
    well = [n for n, state in enumerate(health) if state.takes_all()]
    due, waits = [], []
    for n, state in enumerate(health):
        if not state.takes_all():
            free_at = max(state.until_ms, probing_until[n])
            if free_at <= now_ms:
                due.append(n)
            else:
                waits.append(free_at)
    well.sort(key=lambda n: (servers[n].order, -servers[n].weight, n))
    best = servers[well[0]].order if well else 0
    first = tuple(n for n in well if servers[n].order == best)
    bounds, total = [], 0
    for n in first:
        total += servers[n].weight
        bounds.append(total)
    rest = tuple(n for n in well if servers[n].order != best)
    return Plan(first, tuple(bounds), rest, tuple(due), min(waits, default=0))


def pick(chosen: Plan, conversation: str) -> int:
    """Which of ``chosen.first`` starts: by weight over conversations, and the same one for one of them every time.

    Keeping a conversation on its provider keeps its prompt cache warm; it moves only when the list changes.
    """
    point = zlib.crc32(conversation.encode()) * chosen.bounds[-1] >> 32
    for place, bound in enumerate(chosen.bounds):
        if point < bound:
            return place
    return 0


def attempts(chosen: Plan, start: int) -> tuple[int, ...]:
    """Every healthy server once: the one picked, the others of its order, then the later orders."""
    return (*chosen.first[start:], *chosen.first[:start], *chosen.rest)


def retry_after_s(chosen: Plan, now_ms: int) -> int:
    """Whole seconds until it is worth asking again, at least 1."""
    return max(1, -(-(chosen.next_due_ms - now_ms) // 1000))
