"""Each limit as calls of Valkey scripts, and the scripts' replies as answers: the key layout lives here.

Called by service.py and budgets.py. All keys of a call carry one {tag}, mostly an account's id: it touches one slot.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

from services.limiter.domain import (
    ADMITTED,
    IN_FLIGHT,
    LEASED,
    MINUTE_MS,
    Admit,
    Allowed,
    Answer,
    Done,
    FreeLimits,
    FreeRules,
    Limit,
    Refused,
    whole_seconds,
)
from services.limiter.limits import EXACT_UP_TO, Budget, Places, Window
from services.limiter.store import (
    BUDGET_DRAW,
    BUDGET_SETTLE,
    FREE_ADMIT,
    FREE_DONE,
    PLACE_LEAVE,
    PLACE_TAKE,
    WINDOWS,
    Reply,
    packed,
)

# How long a repeated question is recognised: an asker that lost its stream repeats within a second or two.
SEEN_MS = 10_000

_MINUTE = b"%d" % MINUTE_MS
_SEEN = b"%d" % SEEN_MS


def windows_call(ask: Admit, windows: Sequence[Window], shadow: Collection[Limit]) -> bytes:
    """Count one request in all of ``windows``, or in none; those in ``shadow`` refuse nothing."""
    prefix = f"{{{ask.account_id}}}:"
    keys = [f"{prefix}{window.name}{'' if window.most <= EXACT_UP_TO else ':s'}".encode() for window in windows]
    if ask.request_id:
        keys.append(f"{prefix}{windows[-1].name}:{ask.request_id}".encode())
    limits = tuple([(window.most, window.limit not in shadow) for window in windows])
    return WINDOWS.call_packed(keys, _window_arguments(limits), 2 + 3 * len(windows))


@lru_cache(maxsize=4096)
def _window_arguments(limits: tuple[tuple[int, bool], ...]) -> bytes:
    """Packed once: there are few limits, and packing takes longer than all else about a question."""
    arguments = [_MINUTE, _SEEN]
    for most, enforced in limits:
        arguments += (b"%d" % most, b"log" if most <= EXACT_UP_TO else b"sum", b"%d" % enforced)
    return packed(arguments)


def windows_answer(reply: Reply, windows: Sequence[Window]) -> tuple[Answer, list[Limit]]:
    """The answer behind a reply to ``windows_call``, and the limits that would have refused but are in shadow."""
    if not isinstance(reply, list):
        return ADMITTED, []
    place, again_ms, bits = reply
    passed = [window.limit for number, window in enumerate(windows) if bits >> number & 1]
    return (Refused(windows[place - 1].limit, again_ms=again_ms) if place else ADMITTED), passed


def free_call(ask: Admit, limits: FreeLimits, rules: FreeRules, known: tuple[int, int]) -> bytes:
    """Ask for one free request; ``known`` is the day and the successes this process last heard of."""
    minute = _free_key(ask.account_id, "minute", limits.rpm_scope)
    pace = _free_key(ask.account_id, "pace", "")
    numbers = (
        limits.daily, limits.rpm, limits.gap_ms, rules.gap_max_ms, rules.max_wait_ms, rules.lease_ms, *known,
    )  # fmt: skip
    return FREE_ADMIT.call(
        [*_quota_keys(ask, limits.daily_scope), minute, pace],
        [ask.request_id.encode(), *(b"%d" % number for number in numbers)],
    )


def free_answer(reply: list[int]) -> Answer:
    """The answer behind a reply to ``free_call``."""
    code, limit, remaining, reset_s, wait_ms, again_ms = reply[:6]
    match code:
        case 0:
            return Allowed(limit, remaining, reset_s, wait_ms, leased=True)
        case 1:
            return Refused(Limit.FREE_DAY, whole_seconds(again_ms), again_ms)
        case 2:
            return IN_FLIGHT
        case 3:
            return Refused(Limit.FREE_MINUTE, whole_seconds(again_ms), again_ms)
        case _:
            return Refused(Limit.FREE_FLOOD, again_ms=again_ms)


def done_call(done: Done, scope: str, owed: bool, known: tuple[int, int]) -> bytes:
    """Report the end of a free request; ``owed``: it was admitted without the store and holds no lease there."""
    return FREE_DONE.call(
        _quota_keys(done, scope),
        [done.request_id.encode(), b"%d" % done.success, b"%d" % owed, b"%d" % known[0], b"%d" % known[1]],
    )


def draw_call(ask: Admit, budget: Budget, mark_ms: int, *, enforced: bool) -> bytes:
    """Draw what the input is believed to be from a budget; ``mark_ms`` is the longest a request takes."""
    numbers = (ask.tokens, budget.most, budget.window_ms, mark_ms, enforced)
    return BUDGET_DRAW.call(_budget_keys(budget, ask.request_id), [b"%d" % number for number in numbers])


def settle_call(request_id: str, budget: Budget, tokens: int) -> bytes:
    """Put what was used in place of what was drawn."""
    return BUDGET_SETTLE.call(_budget_keys(budget, request_id), [b"%d" % tokens, b"%d" % budget.window_ms])


def place_call(ask: Admit, places: Places) -> bytes:
    """Take one of the places, or keep the one the request has."""
    return PLACE_TAKE.call(
        [_places_key(places)], [ask.request_id.encode(), b"%d" % places.most, b"%d" % places.lease_ms]
    )


def place_answer(reply: Reply, places: Places) -> Answer:
    """The answer behind a reply to ``place_call``."""
    return LEASED if reply == 1 else Refused(places.limit, places.retry_after_s)


def leave_call(done: Done, places: Places) -> bytes:
    """Free the place of a request."""
    return PLACE_LEAVE.call([_places_key(places)], [done.request_id.encode()])


def _quota_keys(ask: Admit | Done, scope: str) -> list[bytes]:
    answer = _free_key(ask.account_id, "answer", f"{scope}:{ask.request_id}")
    return [_free_key(ask.account_id, "leases", scope), answer, _free_key(ask.account_id, "day", scope)]


def _free_key(account_id: str, name: str, scope: str) -> bytes:
    return f"{{{account_id}}}:free:{name}:{scope}".encode()


def _budget_keys(budget: Budget, request_id: str) -> list[bytes]:
    counter = f"{{{budget.tag}}}:{budget.name}"
    return [counter.encode(), f"{counter}:{request_id}".encode()]


def _places_key(places: Places) -> bytes:
    return f"{{{places.tag}}}:{places.limit}:places".encode()
