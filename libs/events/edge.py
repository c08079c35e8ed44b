"""Events of the edge: requests, tries at providers, and usage to be settled. No prompt, answer or secret.

The edge builds them without these models (they are on its hot path); tests hold both against each other.
"""

from typing import ClassVar, Literal

from libs.events.base import EventData


class RequestFinished(EventData):
    """One request of a client, finished in whatever way."""

    TYPE: ClassVar[str] = "edge.request_finished.v1"

    request_id: str
    account_id: str
    key_id: str
    endpoint: str
    client_format: str
    model: str
    stream: bool
    status: int
    error_code: str | None = None
    billing_kind: str | None = None
    upstream_id: str | None = None
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    started_at_ms: int
    first_byte_ms: int | None = None
    duration_ms: int


class AttemptFinished(EventData):
    """One try at an upstream. ``outcome`` is what its health is judged by."""

    TYPE: ClassVar[str] = "edge.attempt_finished.v1"

    request_id: str
    upstream_id: str
    model: str
    attempt: int
    outcome: Literal[
        "completed",
        "client_closed",
        "rejected",
        "rate_limited",
        "refused",
        "timeout",
        "failed",
        "interrupted",
        "junk",
    ]
    status: int | None = None
    retry_after_ms: int | None = None
    first_byte_ms: int | None = None
    duration_ms: int
    output_tokens: int = 0


class UsageRecorded(EventData):
    """What a request used; settling it twice changes nothing."""

    TYPE: ClassVar[str] = "edge.usage_recorded.v1"

    request_id: str
    line: int
    account_id: str
    key_id: str
    endpoint: str
    model: str
    vendor: str
    price_version: str
    billing_kind: str
    outcome: Literal["completed", "client_closed", "interrupted"]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    estimated: bool
    descriptor: str
    started_at_ms: int
    # What was delivered where tokens are not the unit.
    units: int = 0
