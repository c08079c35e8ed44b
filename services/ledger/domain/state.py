"""What the books know of one account while its calls are worked on: everything that may pay or refuse.

Filled and written back by services/ledger/books.py, changed by movements.py and plans.py under the account's lock. The
field names are those of the tables. Amounts are micro-Rupiah, moments are Unix milliseconds.
"""

from collections.abc import Iterator

import msgspec


class Wallet(msgspec.Struct, gc=False):
    """Balance and the rules its owner set. ``cum_from`` is ``cum`` where the PAYG limit's window begins."""

    account: str
    paid: int = 0
    bonus: int = 0
    reserved: int = 0
    cum: int = 0
    mark: int = 0
    payg_limit: int | None = None
    limit_ms: int | None = None
    keep_balance: bool = False
    free_fallback: bool = False
    alert_pct: int = 80
    low_threshold: int = 0
    low_armed: bool = False
    has_grants: bool = False
    cum_from: int | None = None
    changed: bool = False

    @property
    def balance(self) -> int:
        return self.paid + self.bonus

    @property
    def room(self) -> int:
        """What a new request can hold; below 0 after a charge above its hold."""
        return self.paid + self.bonus - self.reserved

    @property
    def available(self) -> int:
        return max(0, self.room)

    @property
    def limit_spent(self) -> int:
        """Taken from the balance for usage within the PAYG limit's window."""
        return 0 if self.cum_from is None else max(0, self.cum - self.cum_from)


class Plan(msgspec.Struct, gc=False):
    """The account's plan, in force or ended. ``ceilings`` are those of five hours, week and month."""

    account: str
    plan_id: str
    name: str
    source: str
    cycle: int
    ends_ms: int
    auto_renew: bool
    paid: int
    price: int
    ceilings: list[int | None]
    models: list[str]
    free_cache: list[str]
    daily_searches: int
    on_sale: bool

    def active(self, now_ms: int) -> bool:
        return now_ms < self.ends_ms


class Window(msgspec.Struct, gc=False):
    """One quota window of a plan. ``warned`` and ``spent``: that alert was raised."""

    account: str
    cycle: int
    kind: int
    idx: int
    used: int = 0
    reserved: int = 0
    warned: bool = False
    spent: bool = False
    changed: bool = False


class Coupon(msgspec.Struct, gc=False):
    """Pays for its models at list price up to its budget; None is no limit."""

    account: str
    id: str
    name: str
    models: list[str]
    budget: int | None
    used: int
    reserved: int
    ends_ms: int
    changed: bool = False


class Allocation(msgspec.Struct, gc=False):
    """Pays for requests in tokens. No models means every model."""

    account: str
    id: str
    models: list[str]
    tokens: int
    used: int
    reserved: int
    ends_ms: int
    changed: bool = False


class KeySpend(msgspec.Struct, gc=False):
    """What a capped key has used since ``starts`` (ISO date) of its ``epoch``."""

    account: str
    key: str
    epoch: int
    starts: str
    spend_cap: int = 0
    spent: int = 0
    reserved: int = 0
    tokens: int = 0
    tokens_reserved: int = 0
    hit: bool = False
    changed: bool = False


class MemberSpend(msgspec.Struct, gc=False):
    """A member's draw on the balance. ``cum_from`` is ``cum`` 30 days ago; None when nothing was drawn since."""

    account: str
    member: str
    cap: int | None = None
    cum: int = 0
    reserved: int = 0
    mark: int = 0
    alerted_until_ms: int = 0
    cum_from: int | None = None
    changed: bool = False

    @property
    def spent(self) -> int:
        return 0 if self.cum_from is None else max(0, self.cum - self.cum_from)


class Allowance(msgspec.Struct, gc=False):
    """Searches and page fetches of one UTC day (ISO date) that the plan pays for."""

    account: str
    day: str
    used: int = 0
    reserved: int = 0
    changed: bool = False


class Hold(msgspec.Struct, kw_only=True, gc=False):
    """What a running request may cost at most, and on what else it leans until it ends.

    ``quota`` is held on the coupon or on every window, in tokens on a token allocation, in calls on the allowance.
    ``windows`` are the indexes of the plan's windows by kind. ``key_*`` is held on the key's caps.
    """

    day: str
    request_id: str
    line: int
    account_id: str
    key_id: str
    member_id: str = ""
    endpoint: str
    model: str
    funding: str
    state: str = "open"
    amount: int = 0
    max_tokens: int = 0
    lowered: bool = False
    price_version: str
    request_hash: str = ""
    cost: int | None = None
    quota: int = 0
    source_id: str | None = None
    cycle: int | None = None
    windows: list[int | None] | None = None
    allowance_day: str | None = None
    key_epoch: int | None = None
    key_starts: str | None = None
    key_amount: int = 0
    key_tokens: int = 0
    free_cache: bool = False
    units: int = 0
    created_ms: int = 0
    expires_ms: int = 0


class Mark(msgspec.Struct, gc=False):
    """``cum`` of an account or member as it stood before its first spend of a minute."""

    scope_id: str
    minute: int
    cum_before: int


class Account:
    """All of one account. ``wallet`` is None when it never had money; ``marks`` are those made now."""

    def __init__(self, account_id: str) -> None:
        self.id = account_id
        self.wallet: Wallet | None = None
        self.plan: Plan | None = None
        self.windows: dict[tuple[int, int, int], Window] = {}
        self.coupons: list[Coupon] = []
        self.allocations: list[Allocation] = []
        self.keys: dict[tuple[str, int, str], KeySpend] = {}
        self.members: dict[str, MemberSpend] = {}
        self.allowances: dict[str, Allowance] = {}
        self.marks: list[Mark] = []

    def window(self, cycle: int, kind: int, idx: int) -> Window:
        return self.windows.setdefault((cycle, kind, idx), Window(self.id, cycle, kind, idx))

    def key(self, key_id: str, epoch: int, starts: str) -> KeySpend:
        return self.keys.setdefault((key_id, epoch, starts), KeySpend(self.id, key_id, epoch, starts))

    def member(self, member_id: str) -> MemberSpend:
        return self.members.setdefault(member_id, MemberSpend(self.id, member_id))

    def allowance(self, day: str) -> Allowance:
        return self.allowances.setdefault(day, Allowance(self.id, day))

    def windows_of(self, hold: Hold) -> Iterator[Window]:
        """The windows a hold leans on."""
        if hold.cycle is not None and hold.windows is not None:
            for kind, idx in enumerate(hold.windows, 1):
                if idx is not None:
                    yield self.window(hold.cycle, kind, idx)

    def coupon_of(self, hold: Hold) -> Coupon | None:
        return next((one for one in self.coupons if one.id == hold.source_id), None)

    def allocation_of(self, hold: Hold) -> Allocation | None:
        return next((one for one in self.allocations if one.id == hold.source_id), None)

    def key_of(self, hold: Hold) -> KeySpend | None:
        if hold.key_epoch is None or hold.key_starts is None:
            return None
        return self.key(hold.key_id, hold.key_epoch, hold.key_starts)
