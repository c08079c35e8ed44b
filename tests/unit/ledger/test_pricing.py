"""Prices, holds and charges in plain integers (contract: Price dimensions, How a chat request is charged)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.core.pricing import LOWEST_MAX_TOKENS, Price, Tokens, chat_cost, free_cache_cost
from services.ledger.domain.meters import NOTHING, WorstCase, worst_case, worth
from tests.unit.ledger.calls import reserve, settle

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


def chat(price: Price, input_tokens: int, max_tokens: int) -> WorstCase:
    """What a chat request of that size may cost."""
    return worst_case(reserve(input_tokens=input_tokens, max_tokens=max_tokens), price)


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
    call = settle(prompt_tokens=0, completion_tokens=70)
    assert worth(call, None, PLAIN, charge_interrupted=False).value == 70 * 8_000


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

    assert chat(price, estimated, max_tokens).full >= chat_cost(price, use)


@pytest.mark.rule("BILL-034")
@given(prices, counts, st.integers(1, 2**31 - 1), st.integers(-(10**6), 10**16))
def test_what_is_lowered_fits_one_token_more_would_not_and_the_floor_holds(
    price: Price, estimated: int, asked: int, room: int
) -> None:
    worst = chat(price, estimated, asked)

    most = worst.most(room)

    if most == asked:
        assert worst.full <= room
    elif most >= 0:
        assert LOWEST_MAX_TOKENS <= most < asked
        assert worst.amount(most) <= room < worst.amount(most + 1)
    else:
        assert worst.full > room
        lowerable = asked > LOWEST_MAX_TOKENS and price.output > 0
        assert not lowerable or worst.amount(LOWEST_MAX_TOKENS) > room


def test_a_dearer_cache_write_price_is_held() -> None:
    assert chat(FULL, 1_000_000, 0).full == 2_500 * RUPIAH
    assert chat(PLAIN, 1_000_000, 0).full == 2_000 * RUPIAH


def test_a_hold_rounds_up_and_a_charge_down() -> None:
    odd = Price("v", 1, 1)

    assert chat(odd, 1, 1).full == 1
    assert chat_cost(odd, Tokens(1, 1)) == 0


@pytest.mark.parametrize("outcome", ["completed", "client_closed", "interrupted"])
def test_no_output_is_worth_nothing_however_it_ended(outcome: str) -> None:
    for interrupted in (False, True):
        call = settle(outcome=outcome, completion_tokens=0)
        assert worth(call, None, PLAIN, charge_interrupted=interrupted) is NOTHING


def test_a_broken_off_answer_is_free_by_default() -> None:
    def value(outcome: str, *, charge_interrupted: bool = False) -> int:
        call = settle(outcome=outcome, prompt_tokens=1_000, completion_tokens=100)
        return worth(call, None, PLAIN, charge_interrupted=charge_interrupted).value

    assert value("interrupted") == 0
    assert value("interrupted", charge_interrupted=True) == 2_800_000
    assert value("client_closed") == 2_800_000


@pytest.mark.rule("SUB-055")
@given(prices, counts, counts, st.integers(0, 2**30), st.integers(0, 2**30))
def test_free_cache_takes_exactly_the_cache_off(
    price: Price, prompt: int, completion: int, cached: int, written: int
) -> None:
    used = Tokens(prompt, completion, cached, written)

    net = free_cache_cost(price, used)

    assert net <= chat_cost(price, used)
    assert net == chat_cost(price, Tokens(max(0, prompt - cached - written), completion))
