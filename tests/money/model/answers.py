"""What the model answers: the shapes the ledger's answers are compared with.

Made by the modules of this package; amounts are micro-Rupiah.
"""

from dataclasses import dataclass

from tests.money.model.facts import Subscription


@dataclass(frozen=True)
class Granted:
    """The request may run. ``plan_left``: hundredths of each ceiling that were left, of an account with a plan."""

    kind: str
    max_tokens: int
    lowered: bool
    hold: int
    available: int
    plan_left: dict[str, int] | None


@dataclass(frozen=True)
class Denied:
    """The request may not run."""

    status: int
    code: str
    available: int = 0
    worst_case: int = 0


@dataclass(frozen=True)
class Redirect:
    """The request goes to the free models."""


@dataclass(frozen=True)
class Settled:
    """What stands for a request now."""

    cost: int
    catalog: int
    available: int
    duplicate: bool = False
    conflict: bool = False


@dataclass(frozen=True)
class Released:
    """Whether the hold is given back."""

    released: bool


@dataclass(frozen=True)
class Charged:
    """A job was paid for."""

    cost: int
    available: int
    duplicate: bool = False


@dataclass(frozen=True)
class Ended:
    """A job was completed (its cost) or refunded (what was given back)."""

    amount: int
    duplicate: bool = False


@dataclass(frozen=True)
class Bought:
    """A plan began or goes on."""

    subscription: Subscription
    paid: int
    balance: int
    duplicate: bool = False


class RefusedError(Exception):
    """A call that contradicts the books; its text is the reason."""
