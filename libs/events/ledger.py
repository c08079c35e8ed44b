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


class Credited(EventData):
    """Money came in: a top-up or bonus."""

    TYPE: ClassVar[str] = "ledger.credited.v1"

    ref: str
    account_id: str
    kind: Literal["top_up", "bonus"]
    amount_micro_idr: int
    balance_micro_idr: int


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
    plan: str | None = None
