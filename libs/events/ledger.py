"""Events of the ledger: money that moved, and what others may know of an account's funds."""

from typing import ClassVar, Literal

from libs.events.base import EventData


class UsageSettled(EventData):
    """A request was charged (or recorded at cost 0)."""

    TYPE: ClassVar[str] = "ledger.usage_settled.v1"

    request_id: str
    line: int
    account_id: str
    key_id: str
    model: str
    vendor: str
    endpoint: str
    billing_kind: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost_micro_idr: int
    catalog_micro_idr: int
    # What free cache took off the charge or the quota.
    cache_saved_micro_idr: int = 0
    units: int = 0
    member_id: str = ""


class Credited(EventData):
    """Money came in: a top-up or bonus."""

    TYPE: ClassVar[str] = "ledger.credited.v1"

    ref: str
    account_id: str
    kind: Literal["top_up", "bonus"]
    amount_micro_idr: int
    balance_micro_idr: int
    # The caller's key, under which a restored ledger can be credited again.
    idempotency_key: str = ""


class PlanChanged(EventData):
    """A subscription began, went on or ended. ``paid_micro_idr`` was taken from the balance."""

    TYPE: ClassVar[str] = "ledger.plan_changed.v1"

    account_id: str
    plan_id: str
    plan_name: str
    change: Literal["started", "renewed", "upgraded", "restarted", "auto_renewed", "auto_renew_failed", "lapsed"]
    source: Literal["paid", "gift", "trial", "granted"]
    ends_at_ms: int
    paid_micro_idr: int = 0


class AlertRaised(EventData):
    """Something the owner of an account wants to hear of; raised once for each ``subject``."""

    TYPE: ClassVar[str] = "ledger.alert_raised.v1"

    account_id: str
    kind: Literal[
        "quota.week.warn",
        "quota.week.out",
        "quota.month.warn",
        "quota.month.out",
        "wallet.low",
        "key.cap.hit",
        "member.cap.hit",
    ]
    # The key, member or window it is about; empty for the wallet.
    subject: str = ""
    used_micro_idr: int = 0
    limit_micro_idr: int = 0
    resets_at_ms: int = 0


class Refunded(EventData):
    """The charge of a job was given back to where it had come from."""

    TYPE: ClassVar[str] = "ledger.refunded.v1"

    request_id: str
    line: int
    account_id: str
    reason: str
    amount_micro_idr: int


class HoldExpired(EventData):
    """A hold nobody finished ran out and its amount became available again."""

    TYPE: ClassVar[str] = "ledger.hold_expired.v1"

    request_id: str
    line: int
    account_id: str
    amount_micro_idr: int


class AccountState(EventData):
    """Hints about an account's funds; money decisions never use them."""

    TYPE: ClassVar[str] = "ledger.account_state_changed.v1"

    account_id: str
    version: int
    paid_in_total_micro_idr: int
    # The active plan, until when, and the daily quota of free requests it sets (None: the default of plans).
    plan: str | None = None
    plan_ends_at_ms: int = 0
    plan_free_daily: int | None = None
