"""What the ledger is asked and what it answers, free of any wire.

Made by rpc.py and consumers.py, worked on by posting.py. Amounts are micro-Rupiah; ids of requests are UUIDv7 hex.
"""

import hashlib
from typing import Literal

import msgspec

from libs.core.errors import Permanent, Transient
from libs.core.money import Micros

BillingKind = Literal["payg", "plan", "coupon", "token_alloc", "free", "byok"]
Outcome = Literal["completed", "client_closed", "interrupted"]
BILLING_KINDS = frozenset({"payg", "plan", "coupon", "token_alloc", "free", "byok"})
OUTCOMES = frozenset({"completed", "client_closed", "interrupted"})
FUNDINGS = frozenset({"order", "balance", "free", "byok"})
CAP_PERIODS = frozenset({"", "day", "week", "month"})
REFUND_REASONS = frozenset({"failed", "expired", "cancelled"})
CHAT_ENDPOINTS = frozenset({"chat", "messages", "responses", "kyara"})

_INT32 = 2**31 - 1


class InvalidCallError(Permanent):
    """A call that no state of the books could make right."""


class RefusedError(Permanent):
    """A call that contradicts what is in the books; ``reason`` says how."""


class NotDoneError(Transient):
    """The call was not done, or nobody knows; asking again under the same id is safe."""


class KeyCaps(msgspec.Struct, frozen=True, gc=False):
    """Caps of the key that asks; 0 is no cap. ``period`` says when they start anew: "", day, week or month."""

    spend: int = 0
    tokens: int = 0
    period: str = ""
    epoch: int = 0

    def __bool__(self) -> bool:
        return self.spend > 0 or self.tokens > 0


NO_CAPS = KeyCaps()


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """Hold the worst case of one request. ``max_tokens`` is already limited to what the model can produce.

    ``funding`` is "order" (of the endpoint), "balance", "free" or "byok". ``units`` are what endpoints count that
    are not billed by tokens. ``on_acceptance`` pays a job now instead of holding its price.
    """

    request_id: str
    line: int
    account_id: str
    key_id: str
    endpoint: str
    model: str
    price_version: str
    input_tokens: int
    max_tokens: int
    asked_hash: bytes
    member_id: str = ""
    funding: str = "order"
    caps: KeyCaps = NO_CAPS
    subscribers_only: bool = False
    units: int = 0
    shared_key: bool = False
    on_acceptance: bool = False

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        _check_ref(self.request_id, self.line, self.account_id)
        if not (0 <= self.input_tokens <= _INT32 and 0 <= self.max_tokens <= _INT32 and 0 <= self.units <= _INT32):
            raise InvalidCallError("token counts are out of range")
        if self.max_tokens == 0 and self.endpoint in CHAT_ENDPOINTS:
            raise InvalidCallError("a chat request needs max_tokens")
        if self.funding not in FUNDINGS or self.caps.period not in CAP_PERIODS or "/" in self.member_id:
            raise InvalidCallError("unknown funding, cap period or member")
        if self.caps.spend < 0 or self.caps.tokens < 0:
            raise InvalidCallError("a cap is out of range")

    def content_hash(self) -> str:
        """The same for every retry of this call, another for any other call."""
        return _digest(
            f"{self.account_id}|{self.key_id}|{self.endpoint}|{self.model}|{self.price_version}"
            f"|{self.input_tokens}|{self.max_tokens}|{self.funding}|{self.units}|{self.member_id}|",
            self.asked_hash,
        )


class Settle(msgspec.Struct, frozen=True, gc=False):
    """Charge what one request used and give the rest of its hold back."""

    request_id: str
    line: int
    account_id: str
    key_id: str
    endpoint: str
    model: str
    vendor: str
    price_version: str
    billing_kind: str
    outcome: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    estimated: bool
    descriptor: str
    started_at_ms: int
    units: int = 0

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        _check_ref(self.request_id, self.line, self.account_id)
        tokens = (
            self.units,
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            self.cache_write_tokens,
        )
        if min(tokens) < 0 or max(tokens) > _INT32:
            raise InvalidCallError("token counts are out of range")
        if self.billing_kind not in BILLING_KINDS or self.outcome not in OUTCOMES:
            raise InvalidCallError("unknown billing kind or outcome")

    def content_hash(self) -> str:
        """The same for the call and the event that report one settlement, another for any other."""
        return _digest(
            f"{self.account_id}|{self.model}|{self.price_version}|{self.billing_kind}|{self.outcome}"
            f"|{self.prompt_tokens}|{self.completion_tokens}|{self.cached_tokens}|{self.cache_write_tokens}|{self.units}"
        )


class Release(msgspec.Struct, frozen=True, gc=False):
    """Give a hold back: nothing was delivered."""

    request_id: str
    line: int
    account_id: str

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        _check_ref(self.request_id, self.line, self.account_id)


class Complete(msgspec.Struct, frozen=True, gc=False):
    """A job that was paid when accepted is done: the money is earned, its usage row written."""

    request_id: str
    line: int
    account_id: str
    vendor: str

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        _check_ref(self.request_id, self.line, self.account_id)


class Refund(msgspec.Struct, frozen=True, gc=False):
    """A job that was paid when accepted came to nothing: the money goes back to the buckets it came from."""

    request_id: str
    line: int
    account_id: str
    reason: str

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        _check_ref(self.request_id, self.line, self.account_id)
        if self.reason not in REFUND_REASONS:
            raise InvalidCallError("a refund is for a job that failed, expired or was cancelled")


class Granted(msgspec.Struct, frozen=True, gc=False):
    """The request may run and produce ``max_tokens``; ``available`` is what is left for others.

    ``plan_left``: with an active plan, what was left of each window before this request, in hundredths.
    """

    billing_kind: str
    max_tokens: int
    lowered: bool
    hold: int
    ttl_ms: int
    descriptor: str
    available: int
    plan_left: list[tuple[str, int]] | None = None
    free_cache: bool = False


class Denied(msgspec.Struct, frozen=True, gc=False):
    """The request may not run; status, code and message are those of the contract's error."""

    status: int
    code: str
    message: str
    available: int
    worst_case: int


class Redirected(msgspec.Struct, frozen=True, gc=False):
    """Nothing is held: the owner wants such a request to go to the free models."""

    reason: str


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What stands in the books for the request now. ``conflict``: another settlement was first and stays."""

    cost: int
    catalog: int
    available: int
    duplicate: bool
    conflict: bool


class Released(msgspec.Struct, frozen=True, gc=False):
    """Whether the request's hold is given back."""

    released: bool


class Charged(msgspec.Struct, frozen=True, gc=False):
    """A job was paid. ``duplicate``: it had been before."""

    cost: int
    available: int
    duplicate: bool


class Refunded(msgspec.Struct, frozen=True, gc=False):
    """A job's charge was given back. ``duplicate``: it had been before."""

    amount: int
    duplicate: bool


class Credit(msgspec.Struct, frozen=True, gc=False):
    """Put money into a wallet, once per idempotency key."""

    account_id: str
    amount: Micros
    idempotency_key: str
    kind: str
    note: str

    def check(self) -> None:
        """Raise InvalidCallError when the call cannot be worked on."""
        if self.kind not in ("top_up", "bonus"):
            raise InvalidCallError("kind is top_up or bonus")
        if not 0 < self.amount < 2**62:
            raise InvalidCallError("the amount is out of range")
        if not self.idempotency_key or not self.account_id:
            raise InvalidCallError("account and idempotency key are needed")

    def content_hash(self) -> str:
        """Of everything but the note, which may be worded anew."""
        return _digest(f"{self.account_id}|{self.amount}|{self.kind}")


def request_ms(request_id: str) -> int:
    """The milliseconds inside a checked request id."""
    return int(request_id[:12], 16)


def _check_ref(request_id: str, line: int, account_id: str) -> None:
    try:
        value = int(request_id, 16) if len(request_id) == 32 else 0
    except ValueError:
        value = 0
    if (value >> 76) & 0xF != 7:
        raise InvalidCallError("the request id is not a UUIDv7 in hex")
    if not account_id:
        raise InvalidCallError("an account is needed")
    if not 0 <= line <= _INT32:
        raise InvalidCallError("the line is out of range")


def _digest(text: str, more: bytes = b"") -> str:
    return hashlib.blake2b(text.encode() + more, digest_size=16).hexdigest()
