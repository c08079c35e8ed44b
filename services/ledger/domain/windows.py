"""Quota windows of a plan: which one a moment lies in, when it resets, whether it has room (contract: Subscriptions).

Called by funding.py, movements.py and by the reads. Windows follow each other from the start of the cycle; they know
nothing of calendars.
"""

from collections.abc import Iterator

from services.ledger.domain.state import Account, Plan

NAMES = ("five_hour", "week", "month")
LENGTHS_MS = (5 * 3_600_000, 7 * 86_400_000, 30 * 86_400_000)
CYCLE_MS = LENGTHS_MS[2]
"""A plan is paid for 30 days."""


def index(plan: Plan, kind: int, at_ms: int) -> int:
    """Which window of ``kind`` (1 five hours, 2 week, 3 month) the moment lies in, the first being 0."""
    return (at_ms - plan.cycle) // LENGTHS_MS[kind - 1]


def resets_ms(plan: Plan, kind: int, at_ms: int) -> int:
    """When that window ends."""
    return plan.cycle + (index(plan, kind, at_ms) + 1) * LENGTHS_MS[kind - 1]


def limited(plan: Plan) -> Iterator[tuple[int, int]]:
    """Kind and ceiling of the windows that have one."""
    for kind, ceiling in enumerate(plan.ceilings, 1):
        if ceiling is not None:
            yield kind, ceiling


def has_room(account: Account, plan: Plan, at_ms: int) -> bool:
    """Whether every window with a ceiling takes one more request; the one that crosses the ceiling completes."""
    for kind, ceiling in limited(plan):
        window = account.windows.get((plan.cycle, kind, index(plan, kind, at_ms)))
        if window is not None and window.used + window.reserved >= ceiling:
            return False
    return True


def left(account: Account, plan: Plan, at_ms: int) -> list[tuple[str, int]]:
    """What is unused of each window with a ceiling, in hundredths rounded down."""
    shares = []
    for kind, ceiling in limited(plan):
        window = account.windows.get((plan.cycle, kind, index(plan, kind, at_ms)))
        used = window.used if window is not None else 0
        shares.append((NAMES[kind - 1], max(0, ceiling - used) * 100 // ceiling))
    return shares
