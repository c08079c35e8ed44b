"""The model's arithmetic against fractions, and the ledger's own against the model."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.core import pricing
from tests.money.model.prices import (
    LOWEST,
    SOFT_OUTPUT,
    Price,
    Used,
    expected,
    full_value,
    lowered,
    most_tokens,
    value_without_cache,
    worst_case,
)
from tests.money.sizes import EXAMPLES, LONG_S

pytestmark = pytest.mark.timeout(LONG_S)

RUPIAH = 1_000_000
# Rp 2,000, 8,000, 200 and 2,500 per million tokens.
PLAIN = Price("v", 2_000 * RUPIAH, 8_000 * RUPIAH, 200 * RUPIAH, 2_500 * RUPIAH)

amounts = st.integers(0, 10**12) | st.integers(0, 50)
counts = st.integers(0, 2**31 - 1) | st.integers(0, 5_000)
prices = st.builds(
    Price, st.just("v"), amounts, amounts, cache_read=st.none() | amounts, cache_write=st.none() | amounts
)


@st.composite
def usages(draw: st.DrawFn) -> Used:
    """What providers report, cache tokens beyond the prompt included."""
    return Used(draw(counts), draw(counts), draw(counts), draw(counts))


def test_the_contracts_refusal_is_about_a_hold_of_21_500() -> None:
    # Rp 1 a token in, Rp 1.5 a token out; 20,000 tokens in and 1,000 out are Rp 20,000 + Rp 1,500.
    price = Price("v", RUPIAH * RUPIAH, RUPIAH * RUPIAH * 3 // 2)

    assert worst_case(price, 20_000, 1_000) == 21_500 * RUPIAH
    assert most_tokens(price, 20_000, 19_589 * RUPIAH, 1_000) == -1


def test_a_charge_by_hand() -> None:
    # 500 fresh at 2,000, 300 read at 200, 200 written at 2,500, 100 out at 8,000, all micro-Rupiah a token.
    used = Used(1_000, 100, 300, 200)

    assert full_value(PLAIN, used) == 500 * 2_000 + 300 * 200 + 200 * 2_500 + 100 * 8_000 == 2_360_000
    assert value_without_cache(PLAIN, used) == 500 * 2_000 + 100 * 8_000


def test_a_hold_by_hand() -> None:
    # Input at the dearer cache-write price: 100 x 2,500 + 500 x 8,000.
    assert worst_case(PLAIN, 100, 500) == 4_250_000
    # Room for 250,000 of input and 1,500 tokens of output, and a micro-Rupiah that buys nothing.
    assert most_tokens(PLAIN, 100, 250_000 + 1_500 * 8_000 + 1, 65_536) == 1_500


@settings(max_examples=EXAMPLES, deadline=None)
@given(prices, usages())
def test_a_charge_is_the_exact_sum_rounded_down_once(price: Price, used: Used) -> None:
    exact = (
        Fraction(used.fresh * price.input + used.completion * price.output, 10**6)
        + Fraction(used.cached * min(price.input if price.cache_read is None else price.cache_read, price.input), 10**6)
        + Fraction(used.written * (price.input if price.cache_write is None else price.cache_write), 10**6)
    )

    assert 0 <= exact - full_value(price, used) < 1
    assert value_without_cache(price, used) <= full_value(price, used)


@settings(max_examples=EXAMPLES, deadline=None)
@given(prices, st.integers(0, 10**6), st.integers(1, 10**6), st.data())
def test_a_hold_covers_every_use_within_it(price: Price, est: int, tokens: int, data: st.DataObject) -> None:
    prompt = data.draw(st.integers(0, est))
    cached = data.draw(st.integers(0, prompt))
    written = data.draw(st.integers(0, prompt - cached))
    used = Used(prompt, data.draw(st.integers(0, tokens)), cached, written)

    assert full_value(price, used) <= worst_case(price, est, tokens)
    assert expected(price, est, tokens) <= worst_case(price, est, tokens)
    assert (expected(price, est, tokens) == worst_case(price, est, tokens)) or tokens > SOFT_OUTPUT


@settings(max_examples=EXAMPLES, deadline=None)
@given(prices, usages(), usages())
def test_more_tokens_never_cost_less(price: Price, one: Used, more: Used) -> None:
    both = Used(one.prompt, one.completion + more.completion, one.cached, one.written)

    assert full_value(price, both) >= full_value(price, one)


@settings(max_examples=EXAMPLES, deadline=None)
@given(prices, st.integers(0, 10**5), st.integers(1, 200_000), st.integers(-(10**9), 10**12))
def test_the_lowered_value_is_the_largest_that_fits(price: Price, est: int, asked: int, room: int) -> None:
    value = lowered(most_tokens(price, est, room, asked), asked)

    if value is None:
        # Not even the least that may run fits.
        assert worst_case(price, est, min(asked, LOWEST)) > room
    else:
        assert worst_case(price, est, value) <= room
        assert value == asked or (value >= LOWEST and worst_case(price, est, value + 1) > room)


@pytest.mark.parametrize(
    ("most", "asked", "value"),
    [(1_024, 1_025, 1_024), (1_023, 1_025, None), (1_023, 1_024, None), (1_024, 1_024, 1_024), (9, 9, 9), (8, 9, None)],
)
def test_the_floor_of_lowering(most: int, asked: int, value: int | None) -> None:
    assert lowered(most, asked) == value


@settings(max_examples=EXAMPLES, deadline=None)
@given(prices, usages())
def test_the_ledgers_arithmetic_is_the_models(price: Price, used: Used) -> None:
    theirs = pricing.Price("v", price.input, price.output, price.cache_read, price.cache_write)
    spent = pricing.Tokens(used.prompt, used.completion, used.cached, used.written)

    assert pricing.chat_cost(theirs, spent) == full_value(price, used)
    assert pricing.free_cache_cost(theirs, spent) == value_without_cache(price, used)
