"""Prices, holds and charges in plain integers (contract: Price dimensions, How a chat request is charged)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ledger.domain.calls import Settle
from services.ledger.domain.charging import charge
from services.ledger.domain.pricing import LOWEST_MAX_TOKENS, Price, Tokens, chat_cost, worst_case

RUPIAH = 1_000_000
PLAIN = Price("v", 2_000 * RUPIAH, 8_000 * RUPIAH)
FULL = Price("v", 2_000 * RUPIAH, 8_000 * RUPIAH, cache_read=200 * RUPIAH, cache_write=2_500 * RUPIAH)

amounts = st.integers(0, 10**13)
counts = st.integers(0, 2**31 - 1)
prices = st.builds(
    Price,
    version=st.just("v"),
    input=amounts,
    output=amounts,
    cache_read=st.none() | amounts,
    cache_write=st.none() | amounts,
)


def settled(outcome: str = "completed", kind: str = "payg", prompt: int = 1_000, completion: int = 100) -> Settle:
    return Settle(
        "0" * 32, 0, "acct_1", "key_1", "chat", "m", "Maker", "v", kind, outcome, prompt, completion, 0, 0, False, "", 0
    )


@pytest.mark.rule("BILL-044", "BILL-045")
def test_cost_is_the_sum_over_four_dimensions() -> None:
    tokens = Tokens(prompt=1_000, completion=100, cached=300, cache_write=200)

    # 500 fresh at 2,000, 300 read at 200, 200 written at 2,500, 100 out at 8,000, each per million.
    assert chat_cost(FULL, tokens) == (500 * 2_000 + 300 * 200 + 200 * 2_500 + 100 * 8_000)


@pytest.mark.rule("BILL-046", "BILL-048")
def test_without_cache_prices_the_input_price_applies() -> None:
    cached = Tokens(prompt=1_000, completion=100, cached=300, cache_write=200)

    assert chat_cost(PLAIN, cached) == chat_cost(PLAIN, Tokens(1_000, 100))


@pytest.mark.rule("BILL-047")
def test_reading_from_the_cache_never_costs_more_than_input() -> None:
    dear = Price("v", PLAIN.input, PLAIN.output, cache_read=PLAIN.input * 3)

    assert chat_cost(dear, Tokens(1_000, 0, cached=1_000)) == chat_cost(PLAIN, Tokens(1_000, 0))


@pytest.mark.rule("BILL-043", "BILL-049")
def test_reasoning_tokens_are_output_tokens() -> None:
    # A reply of reasoning alone reports them as completion tokens; nothing else is charged at the output price.
    assert charge(settled(prompt=0, completion=70), PLAIN, charge_interrupted=False).cost == 70 * 8_000


@pytest.mark.rule("BILL-050")
@given(prices, counts, counts, st.integers(0, 2**30), st.integers(0, 2**30))
def test_every_charge_is_a_whole_number_that_never_rounds_up(
    price: Price, prompt: int, completion: int, cached: int, written: int
) -> None:
    read = price.input if price.cache_read is None else min(price.cache_read, price.input)
    write = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, prompt - cached - written)
    exact = fresh * price.input + cached * read + written * write + completion * price.output

    cost = chat_cost(price, Tokens(prompt, completion, cached, written))

    assert isinstance(cost, int)
    assert 0 <= exact - cost * 1_000_000 < 1_000_000


@given(prices, counts, counts, counts)
def test_more_tokens_never_cost_less(price: Price, prompt: int, completion: int, more: int) -> None:
    assert chat_cost(price, Tokens(prompt, completion + more)) >= chat_cost(price, Tokens(prompt, completion))
    assert chat_cost(price, Tokens(prompt + more, completion)) >= chat_cost(price, Tokens(prompt, completion))


@given(prices, counts, counts, st.integers(0, 2**31 - 1))
def test_a_hold_covers_any_use_within_it(price: Price, estimated: int, max_tokens: int, written: int) -> None:
    use = Tokens(estimated, max_tokens, cache_write=min(written, estimated))

    assert worst_case(price, estimated, max_tokens).full >= chat_cost(price, use)


@given(prices, counts, st.integers(1, 2**31 - 1))
def test_only_requests_above_the_floor_can_be_lowered(price: Price, estimated: int, max_tokens: int) -> None:
    worst = worst_case(price, estimated, max_tokens)

    if max_tokens <= LOWEST_MAX_TOKENS or price.output == 0:
        assert worst.least is None
    else:
        assert worst.least is not None
        assert worst.least <= worst.full


def test_a_dearer_cache_write_price_is_held() -> None:
    assert worst_case(FULL, 1_000_000, 1).input_price == 2_500 * RUPIAH
    assert worst_case(PLAIN, 1_000_000, 1).input_price == 2_000 * RUPIAH


def test_a_hold_rounds_up_and_a_charge_down() -> None:
    odd = Price("v", 1, 1)

    assert worst_case(odd, 1, 1).full == 1
    assert chat_cost(odd, Tokens(1, 1)) == 0


@pytest.mark.parametrize("outcome", ["completed", "client_closed", "interrupted"])
def test_no_output_costs_nothing_however_it_ended(outcome: str) -> None:
    for interrupted in (False, True):
        charged = charge(settled(outcome, completion=0), PLAIN, charge_interrupted=interrupted)
        assert (charged.cost, charged.catalog) == (0, 0)


@pytest.mark.parametrize("kind", ["plan", "coupon", "token_alloc", "free", "byok"])
def test_only_payg_takes_money_but_all_have_a_value(kind: str) -> None:
    charged = charge(settled(kind=kind), PLAIN, charge_interrupted=False)

    assert (charged.cost, charged.catalog) == (0, 2_800_000)


def test_a_broken_off_answer_is_free_by_default() -> None:
    assert charge(settled("interrupted"), PLAIN, charge_interrupted=False).cost == 0
    assert charge(settled("interrupted"), PLAIN, charge_interrupted=True).cost == 2_800_000
    assert charge(settled("client_closed"), PLAIN, charge_interrupted=False).cost == 2_800_000
