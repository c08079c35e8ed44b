"""Which limits apply to a request: tiers, a model's own limits, pacing. Pure values in, values out.

Called by service.py (contract: Rate limits, Free models).
"""

from dataclasses import dataclass
from enum import StrEnum

from libs.core.money import Micros

MINUTE_MS = 60_000
DAY_MS = 86_400_000
# Above this an exact log of every admission costs more memory than its last percent of exactness is worth.
EXACT_UP_TO = 1_000
# What a client is told to wait when nothing but requests in flight stands between it and its quota.
IN_FLIGHT_RETRY_S = 5


class Subject(StrEnum):
    """What a request counts against."""

    PAID_CHAT = "paid_chat"
    FREE_CHAT = "free_chat"
    USAGE_READ = "usage_read"


class Code(StrEnum):
    """Error codes of refusals, as the contract spells them."""

    RATE_LIMIT = "rate_limit_exceeded"
    FREE_RPM = "free_quota_rpm"
    FREE_DAILY = "free_quota_daily"


@dataclass(frozen=True, slots=True)
class Admit:
    """May this request go? ``model_rpm`` and ``model_daily`` are a free model's own limits, None when it has none."""

    request_id: str
    account_id: str
    subject: Subject
    model: str = ""
    model_rpm: int | None = None
    model_daily: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """A free request has ended."""

    request_id: str
    account_id: str
    model: str
    success: bool
    model_daily: int | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """It may go, after ``wait_ms``. ``limit`` 0 means that no X-RateLimit headers are shown."""

    limit: int = 0
    remaining: int = 0
    reset_unix_s: int = 0
    wait_ms: int = 0
    leased: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """It may not; ``retry_after_s`` 0 means that no Retry-After header is sent."""

    code: Code
    retry_after_s: int = 0


Answer = Allowed | Refused

PAID_ADMITTED = Allowed()
PAID_REFUSED = Refused(Code.RATE_LIMIT)
FLOOD = Refused(Code.RATE_LIMIT)
IN_FLIGHT = Refused(Code.FREE_RPM, IN_FLIGHT_RETRY_S)


@dataclass(frozen=True, slots=True)
class Tier:
    """Free-model limits of a kind of account: per minute and successes per day; 0 means no limit."""

    rpm: int
    daily: int


@dataclass(frozen=True, slots=True)
class FreeRules:
    """The operator's free-model rules. Times in milliseconds."""

    new: Tier
    qualified: Tier
    plan: Tier
    threshold: Micros
    # A per-minute cap on every free model for accounts that have not qualified; 0 means none.
    unqualified_rpm_cap: int
    gap_min_ms: int
    gap_max_ms: int
    max_wait_ms: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class FreeLimits:
    """What applies to one free request. A scope is "" for the account as a whole, else the model's id."""

    rpm: int
    daily: int
    rpm_scope: str
    daily_scope: str
    gap_ms: int


def qualifies(rules: FreeRules, paid_in: Micros) -> bool:
    """Whether what an account has paid in reaches the threshold."""
    return paid_in >= rules.threshold


def free_limits(rules: FreeRules, ask: Admit, *, paid_in: Micros, has_plan: bool) -> FreeLimits:
    """The limits of one free request: those of the account's tier, or the model's own where it has them.

    The cap on accounts that have not qualified holds on every free model, whatever its own limit.
    """
    qualified = has_plan or qualifies(rules, paid_in)
    tier = rules.plan if has_plan else rules.qualified if qualified else rules.new
    rpm = tier.rpm if ask.model_rpm is None else ask.model_rpm
    cap = rules.unqualified_rpm_cap
    if cap and not qualified:
        rpm = min(rpm, cap) if rpm else cap
    return FreeLimits(
        rpm=rpm,
        daily=tier.daily if ask.model_daily is None else ask.model_daily,
        rpm_scope="" if ask.model_rpm is None else ask.model,
        daily_scope=daily_scope(ask),
        gap_ms=pacer_gap_ms(rules, rpm),
    )


def daily_scope(ask: Admit | Done) -> str:
    """Whose daily quota a free request uses: a model with a quota of its own counts apart from the account."""
    return "" if ask.model_daily is None else ask.model


def pacer_gap_ms(rules: FreeRules, rpm: int) -> int:
    """Milliseconds between two free requests of a burst: a quarter of the even spacing, within bounds."""
    if not rpm:
        return rules.gap_min_ms
    return min(max(MINUTE_MS // rpm // 4, rules.gap_min_ms), rules.gap_max_ms)


def seconds_to_midnight(now_ms: int) -> int:
    """Whole seconds, at least 1, until the next 00:00 UTC."""
    return max(1, -(-(DAY_MS - now_ms % DAY_MS) // 1000))
