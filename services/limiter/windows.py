"""Each limit as calls of Valkey scripts, and the scripts' replies as answers: the key layout lives here.

Called by service.py. All keys of an account carry its id as {tag}, so that one call touches one slot.
"""

from services.limiter.domain import (
    EXACT_UP_TO,
    FLOOD,
    IN_FLIGHT,
    MINUTE_MS,
    PAID_ADMITTED,
    PAID_REFUSED,
    Admit,
    Allowed,
    Answer,
    Code,
    Done,
    FreeLimits,
    FreeRules,
    Refused,
)
from services.limiter.store import FREE_ADMIT, FREE_DONE, RING, SUBWINDOWS, Reply

# How long a repeated question is recognised: an asker that lost its stream repeats within a second or two.
SEEN_MS = 10_000

_MINUTE = b"%d" % MINUTE_MS
_MINUTE_S = b"%d" % (MINUTE_MS // 1000)
_SEEN = b"%d" % SEEN_MS


def minute_call(name: str, ask: Admit, limit: int) -> bytes:
    """Count one request against ``limit`` a minute under the account's window ``name``."""
    keys = [f"{{{ask.account_id}}}:{name}".encode()]
    if ask.request_id:
        keys.append(f"{{{ask.account_id}}}:{name}:{ask.request_id}".encode())
    if limit <= EXACT_UP_TO:
        return RING.call(keys, [b"%d" % limit, _MINUTE, _SEEN])
    keys[0] += b":s"
    return SUBWINDOWS.call(keys, [b"%d" % limit, _MINUTE_S, _SEEN])


def minute_answer(reply: Reply) -> Answer:
    """The answer behind a reply to ``minute_call``."""
    return PAID_ADMITTED if reply == 1 else PAID_REFUSED


def free_call(ask: Admit, limits: FreeLimits, rules: FreeRules, known: tuple[int, int]) -> bytes:
    """Ask for one free request; ``known`` is the day and the successes this process last heard of."""
    rpm = _free_key(ask.account_id, "rpm", limits.rpm_scope)
    pace = _free_key(ask.account_id, "pace", "")
    numbers = (
        limits.daily, limits.rpm, limits.gap_ms, rules.gap_max_ms, rules.max_wait_ms, rules.lease_ms, *known,
    )  # fmt: skip
    return FREE_ADMIT.call(
        [*_quota_keys(ask.account_id, limits.daily_scope), rpm, pace],
        [ask.request_id.encode(), *(b"%d" % number for number in numbers)],
    )


def free_answer(reply: list[int]) -> Answer:
    """The answer behind a reply to ``free_call``."""
    code, limit, remaining, reset_s, wait_ms, retry_after_s = reply[:6]
    match code:
        case 0:
            return Allowed(limit, remaining, reset_s, wait_ms, leased=True)
        case 1:
            return Refused(Code.FREE_DAILY, retry_after_s)
        case 2:
            return IN_FLIGHT
        case 3:
            return Refused(Code.FREE_RPM, retry_after_s)
        case _:
            return FLOOD


def done_call(done: Done, scope: str, owed: bool, known: tuple[int, int]) -> bytes:
    """Report the end of a free request; ``owed``: it was admitted without the store and holds no lease there."""
    return FREE_DONE.call(
        _quota_keys(done.account_id, scope),
        [done.request_id.encode(), b"%d" % done.success, b"%d" % owed, b"%d" % known[0], b"%d" % known[1]],
    )


def _quota_keys(account_id: str, scope: str) -> list[bytes]:
    return [_free_key(account_id, name, scope) for name in ("leases", "answers", "day")]


def _free_key(account_id: str, name: str, scope: str) -> bytes:
    return f"{{{account_id}}}:free:{name}:{scope}".encode()
