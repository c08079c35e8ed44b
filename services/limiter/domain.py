"""What is asked of the limiter and what it answers, and which free-model limits apply. Pure values in, values out.

Called by every module of this service (contract: Rate limits, Free models).
"""

from dataclasses import dataclass
from enum import StrEnum

from libs.core.money import Micros

MINUTE_MS = 60_000
DAY_MS = 86_400_000
# What a client is told to wait when nothing but requests in flight stands between it and its quota.
IN_FLIGHT_RETRY_S = 5
MUSIC_RETRY_S = 60


class Subject(StrEnum):
    """What a request counts against."""

    PAID_CHAT = "paid_chat"
    FREE_CHAT = "free_chat"
    USAGE_READ = "usage_read"
    KEY_REQUEST = "key_request"
    MUSIC = "music"
    PASSTHROUGH = "passthrough"


class Code(StrEnum):
    """Error codes of refusals, as the contract spells them."""

    RATE_LIMIT = "rate_limit_exceeded"
    FREE_RPM = "free_quota_rpm"
    FREE_DAILY = "free_quota_daily"
    PASSTHROUGH_BUSY = "passthrough_busy"


class Limit(StrEnum):
    """Everything that can refuse a request."""

    ACCOUNT_REQUESTS = "account_requests"
    KEY_REQUESTS = "key_requests"
    KEY_TOKENS = "key_tokens"
    SHARED_KEY = "shared_key"
    ADDRESS = "address"
    USAGE_READS = "usage_reads"
    FREE_MINUTE = "free_minute"
    FREE_DAY = "free_day"
    FREE_IN_FLIGHT = "free_in_flight"
    FREE_FLOOD = "free_flood"
    MODEL_TOKENS = "model_tokens"
    MUSIC = "music"
    PASSTHROUGH = "passthrough"


_CODES = {
    Limit.FREE_MINUTE: Code.FREE_RPM,
    Limit.FREE_IN_FLIGHT: Code.FREE_RPM,
    Limit.FREE_DAY: Code.FREE_DAILY,
    Limit.PASSTHROUGH: Code.PASSTHROUGH_BUSY,
}


@dataclass(frozen=True, slots=True)
class Admit:
    """May this request go? Limits of a free model and of a key are None or 0 where it has none of its own.

    ``tokens`` is what the input is believed to be; ``address`` names who uses a shared key.
    """

    request_id: str
    account_id: str
    subject: Subject
    model: str = ""
    model_rpm: int | None = None
    model_daily: int | None = None
    key_id: str = ""
    key_shared: bool = False
    key_rpm: int = 0
    key_tpm: int = 0
    address: str = ""
    tokens: int = 0
    model_token_budget: int | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """An admitted request has ended and used so many tokens.

    ``key_id`` is set where the key's tokens are limited, ``model_tokens`` where the model's are.
    """

    request_id: str
    account_id: str
    model: str
    success: bool
    model_daily: int | None = None
    subject: Subject = Subject.FREE_CHAT
    key_id: str = ""
    model_tokens: bool = False
    tokens: int = 0


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
    """It may not; ``retry_after_s`` 0 means that no Retry-After header is sent.

    For ``again_ms`` the answer stays the same as long as the limit does; 0 when that is not known.
    """

    limit: Limit
    retry_after_s: int = 0
    again_ms: int = 0

    @property
    def code(self) -> Code:
        """The contract's code."""
        return _CODES.get(self.limit, Code.RATE_LIMIT)


Answer = Allowed | Refused

ADMITTED = Allowed()
LEASED = Allowed(leased=True)
IN_FLIGHT = Refused(Limit.FREE_IN_FLIGHT, IN_FLIGHT_RETRY_S)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of an account's money: all that was ever paid in, and its active plan.

    ``plan_daily`` is the plan's own daily quota on free models; None leaves it to the tier.
    """

    paid_in: Micros
    has_plan: bool = False
    plan_daily: int | None = None


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


def free_limits(rules: FreeRules, ask: Admit, standing: Standing) -> FreeLimits:
    """The limits of one free request: those of the account's tier, or the model's own where it has them.

    The cap on accounts that have not qualified holds on every free model, whatever its own limit.
    """
    qualified = standing.has_plan or qualifies(rules, standing.paid_in)
    tier = _tier(rules, standing, qualified=qualified)
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


def starting_tier(rules: FreeRules) -> Tier:
    """What is in force for an account that has paid nothing in."""
    if qualifies(rules, Micros(0)):
        return rules.qualified
    cap, rpm = rules.unqualified_rpm_cap, rules.new.rpm
    return Tier(rpm=min(rpm or cap, cap) if cap else rpm, daily=rules.new.daily)


def _tier(rules: FreeRules, standing: Standing, *, qualified: bool) -> Tier:
    if not standing.has_plan:
        return rules.qualified if qualified else rules.new
    daily = rules.plan.daily if standing.plan_daily is None else standing.plan_daily
    return Tier(rules.plan.rpm, daily)


def daily_scope(ask: Admit | Done) -> str:
    """Whose daily quota a free request uses: a model with a quota of its own counts apart from the account."""
    return "" if ask.model_daily is None else ask.model


def pacer_gap_ms(rules: FreeRules, rpm: int) -> int:
    """Milliseconds between two free requests of a burst: a quarter of the even spacing, within bounds."""
    if not rpm:
        return rules.gap_min_ms
    return min(max(MINUTE_MS // rpm // 4, rules.gap_min_ms), rules.gap_max_ms)


def whole_seconds(ms: int) -> int:
    """Milliseconds as the whole seconds of a Retry-After header: rounded up, at least 1."""
    return max(1, -(-ms // 1000))


def to_midnight_ms(now_ms: int) -> int:
    """Milliseconds until the next 00:00 UTC."""
    return DAY_MS - now_ms % DAY_MS
