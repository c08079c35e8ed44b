"""Calls know when they are the same and when they make no sense; what a batch looks at and leaves behind."""

import json
from collections import defaultdict
from typing import Any

import pytest

from libs.core.ids import uuid7_hex
from libs.core.money import Micros
from libs.core.pricing import Price
from libs.events.base import decode
from libs.events.ledger import UsageSettled
from services.ledger.batch import Batch
from services.ledger.books import Opened, close_arguments
from services.ledger.domain import movements
from services.ledger.domain.calls import InvalidCallError, KeyCaps, Release
from services.ledger.domain.descriptor import Signer
from services.ledger.domain.effects import Effects
from services.ledger.domain.meters import Worth
from services.ledger.domain.state import Account
from services.ledger.job import Call
from tests.service.ledger.bare import settings
from tests.unit.ledger.calls import Heard, reserve, settle

# The books' answer where there is nothing.
NOTHING = defaultdict[str, Any](lambda: None, now_ms=1_800_000_000_000)


@pytest.mark.parametrize(
    "other",
    [
        {"account_id": "acct_2"},
        {"model": "n"},
        {"price_version": "w"},
        {"billing_kind": "free"},
        {"outcome": "interrupted"},
        {"prompt_tokens": 11},
        {"completion_tokens": 6},
        {"cached_tokens": 1},
        {"cache_write_tokens": 1},
        {"units": 1},
    ],
)
def test_whatever_moves_money_makes_another_settlement(other: dict[str, Any]) -> None:
    assert settle(**other).content_hash() != settle().content_hash()


def test_what_moves_no_money_leaves_a_settlement_the_same() -> None:
    assert settle(descriptor="x", started_at_ms=9, vendor="Other").content_hash() == settle().content_hash()


@pytest.mark.parametrize(
    "other",
    [
        {"account_id": "acct_2"},
        {"key_id": "key_2"},
        {"model": "n"},
        {"max_tokens": 21},
        {"input_tokens": 11},
        {"price_version": "w"},
        {"endpoint": "messages"},
        {"funding": "balance"},
        {"units": 1},
        {"member_id": "person_1"},
        {"asked_hash": b"x"},
    ],
)
def test_whatever_was_asked_otherwise_makes_another_reservation(other: dict[str, Any]) -> None:
    assert reserve(**other).content_hash() != reserve().content_hash()


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": "00" * 16},
        {"request_id": "zz" * 16},
        {"request_id": ""},
        {"account_id": ""},
        {"line": 2**31},
        {"completion_tokens": 2**31},
        {"billing_kind": "gold"},
        {"outcome": ""},
    ],
)
def test_a_settlement_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCallError):
        settle(**wrong).check()


def test_a_call_too_large_for_the_books_is_left_out_of_its_batch() -> None:
    huge, dear = Heard(reserve(input_tokens=2**31 - 1)), Heard(settle(prompt_tokens=2**31 - 1))
    huge.price = dear.price = Price("v", 2**62, 0)
    fits = Heard(reserve())

    batch = Batch([huge, fits, dear], Signer(b"secret"), settings("postgres://nowhere"))

    assert [unfit for unfit, _ in batch.unfit] == [huge, dear]
    assert batch.jobs == [fits]


def test_a_batch_ends_requests_before_it_begins_others_and_keeps_the_order_they_came_in() -> None:
    calls: list[Call] = [
        reserve(account_id="b"),
        settle(account_id="a"),
        settle(account_id="b"),
        reserve(account_id="a", member_id="person_1", caps=KeyCaps(spend=5)),
        Release(uuid7_hex(), 0, "b"),
        settle(account_id="c", billing_kind="free"),
    ]

    batch = Batch([Heard(call) for call in calls], Signer(b"secret"), settings("postgres://nowhere"))
    wanted = batch.wanted([])

    assert [job.call for job in batch.jobs] == [calls[n] for n in (1, 2, 4, 5, 0, 3)]
    # A free settlement looks at no wallet; a capped key needs one for a mutex.
    assert (wanted.paying, wanted.create) == (["a", "b"], ["a"])
    assert (wanted.settles, wanted.keys, wanted.members) == ([1, 2, 4], ["key_1"], ["a/person_1"])


def test_the_event_of_a_settlement_is_what_its_model_says() -> None:
    effects = Effects()
    movements.settle(
        Account("acct_1"),
        None,
        settle(billing_kind="free"),
        Worth(Micros(50_000), Micros(50_000), 15),
        effects,
        day="2026-12-01",
        now_ms=1_800_000_000_000,
        trace="",
    )

    arguments = close_arguments(Opened(NOTHING), effects)

    assert arguments is not None
    (told,) = json.loads(arguments[4] or "")
    event = decode(told["body"].encode())
    said = UsageSettled.model_validate(event.data)
    assert set(event.data) == set(UsageSettled.model_fields)
    assert (event.type, said.cost_micro_idr, said.catalog_micro_idr) == (UsageSettled.TYPE, 0, 50_000)
