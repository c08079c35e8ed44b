"""What happened: everything the model remembers of an account. Sums and reservations are derived, never stored.

Made and read by the other modules here. Times are Unix milliseconds, amounts micro-Rupiah.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.money.model.prices import Price

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
CYCLE = 30 * DAY

LENGTHS = {"five_hour": 5 * HOUR, "week": 7 * DAY, "month": CYCLE}
LIMIT_WINDOWS = {"day": DAY, "month": CYCLE}

Ref: TypeAlias = tuple[str, int]
Kind: TypeAlias = Literal["payg", "plan", "coupon", "token_alloc", "free", "byok"]
State: TypeAlias = Literal["open", "settled", "released", "expired"]


@dataclass(frozen=True)
class Caps:
    """Caps of a key; 0 is none. ``period`` is empty, day, week or month."""

    spend: int = 0
    tokens: int = 0
    period: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class Ask:
    """A reservation. ``funding`` is order, balance, free or own_key."""

    ref: Ref
    account: str
    key: str
    endpoint: str
    model: str
    price: Price
    est_input: int = 0
    max_tokens: int = 0
    units: int = 0
    funding: str = "order"
    member: str = ""
    caps: Caps = Caps()
    subscribers_only: bool = False
    shared: bool = False


@dataclass(frozen=True)
class KeySlot:
    """Where the use of a capped key is counted: one period of one epoch."""

    key: str
    epoch: int
    start: str
    caps: Caps


@dataclass(frozen=True)
class Source:
    """What pays, as decided at admission. ``windows``: name and number of each window the request counts in."""

    kind: Kind
    subscription: int | None = None
    windows: tuple[tuple[str, int], ...] = ()
    coupon: str = ""
    allocation: str = ""
    search_day: int | None = None
    free_cache: bool = False


@dataclass
class Hold:
    """A running or finished request. ``amount`` is reserved in the wallet, the others where they are named after."""

    ask: Ask
    source: Source
    amount: int
    max_tokens: int
    expires: int
    slot: KeySlot | None
    key_amount: int
    key_tokens: int
    quota: int
    tokens: int
    state: State = "open"


@dataclass
class Row:
    """A settled request (or job). ``net`` is what it took of a quota or the balance, ``catalog`` its list value."""

    hold: Hold
    said: object
    booked: int
    cost: int
    catalog: int
    saved: int
    net: int
    tokens: int
    from_bonus: int = 0


@dataclass
class Job:
    """A job paid on acceptance."""

    hold: Hold
    booked: int
    cost: int
    from_bonus: int
    state: Literal["running", "done", "refunded"] = "running"


@dataclass
class Plan:
    """A plan on sale or sold once; a ceiling of None is no ceiling."""

    plan_id: str
    price: int
    ceilings: dict[str, int | None]
    models: tuple[str, ...]
    free_cache: tuple[str, ...] = ()
    daily_searches: int = 0
    on_sale: bool = True


@dataclass
class Subscription:
    """One plan of an account from its anchor on. ``worth`` is the price of 30 days, credited at an upgrade."""

    number: int
    plan: Plan
    source: str
    anchor: int
    ends: int
    worth: int


@dataclass
class Coupon:
    """Time-limited access to models; a budget of None is no limit."""

    coupon_id: str
    models: tuple[str, ...]
    budget: int | None
    expires: int


@dataclass
class Allocation:
    """Tokens granted; no models are all models."""

    allocation_id: str
    models: tuple[str, ...]
    tokens: int
    expires: int


@dataclass
class Account:
    """All facts about one account."""

    account_id: str
    known: bool = False
    paid: int = 0
    bonus: int = 0
    paid_in: int = 0
    keep_balance: bool = False
    free_fallback: bool = False
    limit: tuple[int, str] | None = None
    auto_renew: bool = False
    subscriptions: list[Subscription] = field(default_factory=list)
    coupons: list[Coupon] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    member_caps: dict[str, int] = field(default_factory=dict)
    holds: dict[Ref, Hold] = field(default_factory=dict)
    rows: dict[Ref, Row] = field(default_factory=dict)
    jobs: dict[Ref, Job] = field(default_factory=dict)
    done: dict[str, tuple[object, object]] = field(default_factory=dict)
