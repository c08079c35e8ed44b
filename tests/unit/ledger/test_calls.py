"""Calls know when they are the same and when they make no sense; one batch is one statement's columns."""

import re
from typing import Any

import pytest

from libs.core.ids import uuid7_hex
from libs.events.base import decode
from libs.events.ledger import UsageSettled
from services.ledger.batch import POST, Batch, literal
from services.ledger.domain.calls import InvalidCallError, Release
from services.ledger.domain.pricing import Price
from services.ledger.job import Call
from tests.unit.ledger.calls import Heard, reserve, settle


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


def test_a_batch_groups_by_account_and_keeps_order_inside() -> None:
    calls: list[Call] = [
        reserve(account_id="b"),
        settle(account_id="a"),
        settle(account_id="b"),
        reserve(account_id="a"),
        Release(uuid7_hex(), 0, "b"),
        settle(account_id="c", billing_kind="free"),
    ]

    batch = Batch([Heard(call) for call in calls], charge_interrupted=False)
    columns = batch.columns(120_000, 300_000)

    assert columns[:4] == ('{"a","b","c"}', '{"a","b"}', "{1,3,4}", "{1,2,2}")
    assert [made.call for made in batch.finishes] == [calls[1], calls[2], calls[4], calls[5]]
    assert [made.call for made in batch.reserves] == [calls[3], calls[0]]
    assert len(columns) == POST.count("$")
    assert columns[10] == "{1,1,0,1}"
    assert columns[11] == '{"a","b","b","c"}'
    assert columns[33] == '{"a","b"}'


def test_the_event_of_a_settlement_is_what_its_model_says() -> None:
    batch = Batch([Heard(settle())], charge_interrupted=False)

    (text,) = [column for column in batch.columns(1, 1) if UsageSettled.TYPE in str(column)]

    event = decode(re.sub(r"\\(.)", r"\1", text.removeprefix('{"').removesuffix('"}')).encode())
    told = UsageSettled.model_validate(event.data)
    assert set(event.data) == set(UsageSettled.model_fields)
    assert (event.type, told.cost_micro_idr) == (UsageSettled.TYPE, 10 * 2_000 + 5 * 8_000)


def test_texts_in_arrays_are_quoted_and_numbers_are_not() -> None:
    assert literal(["a", "", "{b,c}", 'd"e', "f\\g"], "text") == '{"a","","{b,c}","d\\"e","f\\\\g"}'
    assert literal([1, None, 3], "int8") == "{1,NULL,3}"
    assert literal([], "text") == literal([], "int4") == "{}"


def test_a_call_too_large_for_the_books_is_left_out_of_its_batch() -> None:
    huge = Heard(reserve(input_tokens=2**31 - 1))
    huge.price = Price("v", 2**62, 0)

    batch = Batch([huge, Heard(reserve())], charge_interrupted=False)

    assert [unfit for unfit, _ in batch.unfit] == [huge]
    assert len(batch.reserves) == 1
