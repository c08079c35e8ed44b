"""Calls and jobs as unit tests make them: sensible unless a test says otherwise."""

from typing import Any

from libs.core.ids import uuid7_hex
from libs.core.pricing import Price
from services.ledger.domain.calls import Reserve, Settle
from services.ledger.job import Answer, Call, Job

PRICE = Price("v", 2_000_000_000, 8_000_000_000)


def reserve(**more: Any) -> Reserve:
    values: dict[str, Any] = {
        "request_id": uuid7_hex(),
        "line": 0,
        "account_id": "acct_1",
        "key_id": "key_1",
        "endpoint": "chat",
        "model": "m",
        "price_version": "v",
        "input_tokens": 10,
        "max_tokens": 20,
        "asked_hash": b"",
    }
    return Reserve(**(values | more))


def settle(**more: Any) -> Settle:
    values: dict[str, Any] = {
        "request_id": uuid7_hex(),
        "line": 0,
        "account_id": "acct_1",
        "key_id": "key_1",
        "endpoint": "chat",
        "model": "m",
        "vendor": "Maker",
        "price_version": "v",
        "billing_kind": "payg",
        "outcome": "completed",
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "estimated": False,
        "descriptor": "",
        "started_at_ms": 0,
    }
    return Settle(**(values | more))


class Heard(Job):
    """A priced job that remembers what it was told."""

    __slots__ = ("answers", "late", "reasons")

    def __init__(self, call: Call, *, late: bool = False) -> None:
        super().__init__(call)
        self.price = PRICE
        self.late = late
        self.answers: list[Answer] = []
        self.reasons: list[str] = []

    def done(self, answer: Answer) -> None:
        self.answers.append(answer)

    def fail(self, reason: str) -> None:
        self.reasons.append(reason)

    def expired(self) -> bool:
        return self.late
