"""What a batch leaves behind beside the changed state: holds, entries, usage rows, events, contradictions.

Filled by movements.py and plans.py, written by services/ledger/books.py. Field names are those of the tables.
"""

from enum import IntEnum
from typing import Any

import msgspec

from libs.events.base import EventData
from services.ledger.domain.state import Hold


class Book(IntEnum):
    """Accounts of the double entry: two buckets of each customer, and ours."""

    PAID = 1
    BONUS = 2
    USAGE_REVENUE = 10
    PAYMENT_CLEARING = 20
    PROMOTION_EXPENSE = 30
    JOBS_IN_PROGRESS = 40
    PLAN_REVENUE = 60


class Transfer(msgspec.Struct, gc=False):
    """One amount moved from ``debit`` to ``credit``."""

    day: str
    request_id: str
    line: int
    kind: str
    seq: int
    account_id: str
    debit: int
    credit: int
    amount: int


class UsageRow(msgspec.Struct, gc=False, kw_only=True):
    """One request served; ``started_ms`` is its time in the log."""

    day: str
    request_id: str
    line: int
    account_id: str
    key_id: str
    model: str
    vendor: str
    endpoint: str
    billing_kind: str
    outcome: str
    estimated: bool
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cost: int
    catalog: int
    settle_hash: str
    started_ms: int
    member_id: str
    cache_saved: int
    units: int
    trace: str


class Conflict(msgspec.Struct, gc=False):
    """A settlement that says something else than what stands."""

    request_id: str
    line: int
    account_id: str
    reason: str
    cost: int
    settle_hash: str


class Effects:
    """All of one batch, in the order in which it happened."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []
        self.ended: list[Hold] = []
        self.usage: list[UsageRow] = []
        self.transfers: list[Transfer] = []
        self.conflicts: list[Conflict] = []
        self.events: list[tuple[str, EventData]] = []
        """Account and event, of everything but settled usage: that is told from its row."""

    def move(self, hold: Hold, kind: str, seq: int, debit: int, credit: int, amount: int) -> None:
        """Enter a transfer that belongs to a hold; nothing when there is nothing to move."""
        if amount > 0:
            self.transfers.append(
                Transfer(hold.day, hold.request_id, hold.line, kind, seq, hold.account_id, debit, credit, amount)
            )

    def tell(self, account_id: str, *events: Any) -> None:
        self.events.extend((account_id, event) for event in events)
