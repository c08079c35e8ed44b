"""The balance: holds, lowering, charges and what ends them, in step with the model."""

from dataclasses import replace

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Denied, Granted, Settled
from tests.money.model.book import TTL
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.scenes import answer, begun, chat, granted, refused, run
from tests.money.world import ODD, RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_MONEY = (402, "insufficient_balance")


@pytest.mark.rule("BILL-029", "BILL-032", "BILL-044", "BILL-045")
async def test_a_request_holds_its_worst_case_and_pays_what_it_used(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    ask = chat(pair, max_tokens=2_000)

    # 100 x 2,500 + 2,000 x 8,000.
    assert await pair.reserve(ask) == Granted("payg", 2_000, False, 16_250_000, 3_750_000, None)
    settled = await pair.settle(ask, answer(300, 110, 50, 10))

    # 50 fresh at 2,000, 50 read at 200, 10 written at 2,500, 300 out at 8,000.
    assert settled == Settled(100_000 + 10_000 + 25_000 + 2_400_000, 2_535_000, 17_465_000)
    await pair.compare()


@pytest.mark.rule("BILL-033", "BILL-034")
async def test_max_tokens_is_lowered_to_the_most_that_fits(real: RealLedger) -> None:
    # Room for the input and for 1,500 tokens, less one micro-Rupiah.
    pair = await begun(real, 250_000 + 1_500 * 8_000 - 1)

    found = await granted(pair, chat(pair, max_tokens=5_000))

    assert (found.max_tokens, found.lowered, found.hold, found.available) == (1_499, True, 12_242_000, 7_999)


@pytest.mark.rule("BILL-035")
async def test_below_the_floor_a_request_is_refused(real: RealLedger) -> None:
    pair = await begun(real, 250_000 + 1_024 * 8_000 - 1)

    denied = await pair.reserve(chat(pair, max_tokens=5_000))

    assert denied == Denied(402, "insufficient_balance", 8_441_999, 250_000 + 5_000 * 8_000)


@pytest.mark.parametrize("asked", [1, 1_023, 1_024])
async def test_what_asks_for_the_floor_or_less_is_never_lowered(real: RealLedger, asked: int) -> None:
    pair = await begun(real, 250_000 + asked * 8_000 - 1)

    assert await refused(pair, chat(pair, max_tokens=asked)) == NO_MONEY
    await pair.credit(1)
    assert (await granted(pair, chat(pair, max_tokens=asked))).available == 0


@pytest.mark.rule("BILL-031")
async def test_of_requests_at_once_only_as_many_run_as_fit(real: RealLedger) -> None:
    pair = await begun(real, 2 * 8_250_000)

    await granted(pair, chat(pair))
    await granted(pair, chat(pair))

    assert await refused(pair, chat(pair)) == NO_MONEY
    await pair.compare()


@pytest.mark.rule("BILL-038", "BILL-040")
async def test_no_output_costs_nothing(real: RealLedger) -> None:
    pair = await begun(real, 10 * RUPIAH)

    assert await run(pair, chat(pair), answer(completion=0)) == Settled(0, 0, 10 * RUPIAH)
    await pair.compare()


@pytest.mark.rule("BILL-041", "BILL-042")
async def test_a_stream_the_client_closed_is_charged_and_one_the_provider_broke_is_not(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)

    closed = await run(pair, chat(pair), Report(Used(100, 100), "client_closed"))
    broken = await run(pair, chat(pair), Report(Used(100, 100), "interrupted"))

    assert (closed.cost, broken.cost, broken.catalog) == (1_000_000, 0, 0)


async def test_a_settlement_may_go_beyond_its_hold_and_the_balance_below_zero(real: RealLedger) -> None:
    pair = await begun(real, 8_250_000)

    settled = await run(pair, chat(pair), answer(2_000))

    assert settled == Settled(16_200_000, 16_200_000, 0)
    await pair.compare()
    assert await refused(pair, chat(pair, max_tokens=1)) == NO_MONEY


async def test_a_hold_nobody_keeps_ends_and_its_late_settlement_is_charged_once(real: RealLedger) -> None:
    pair = await begun(real, 10 * RUPIAH)
    ask, kept = chat(pair), chat(pair, max_tokens=1)
    await granted(pair, ask)
    await granted(pair, kept)
    await pair.pass_ms(TTL - 1)
    assert await pair.touch([kept.ref]) == []
    await pair.pass_ms(1)
    await pair.compare()
    assert await pair.touch([ask.ref, kept.ref]) == [ask.ref]

    first = await pair.settle(ask, answer())
    again = await pair.settle(ask, answer())
    other = await pair.settle(ask, answer(101))

    assert isinstance(first, Settled) and isinstance(again, Settled) and isinstance(other, Settled)
    assert (first.cost, first.duplicate) == (1_000_000, False)
    assert (again.cost, again.duplicate) == (1_000_000, True)
    assert (other.cost, other.conflict) == (1_000_000, True)
    await pair.compare()


async def test_what_was_released_cannot_be_settled(real: RealLedger) -> None:
    pair = await begun(real, 10 * RUPIAH)
    ask = chat(pair)
    await granted(pair, ask)
    await pair.release(ask.ref)

    settled = await pair.settle(ask, answer())

    assert isinstance(settled, Settled)
    assert (settled.cost, settled.conflict) == (0, True)
    assert await pair.reserve(ask) == "already_finished"
    await pair.compare()


async def test_the_same_question_gets_the_same_answer_and_another_is_refused(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    ask = chat(pair)

    assert await pair.reserve(ask) == await pair.reserve(ask)
    assert await pair.reserve(replace(ask, max_tokens=999)) == "other_content"
    await pair.compare()


async def test_bonus_burns_before_paid_money(real: RealLedger) -> None:
    pair = await begun(real, 10 * RUPIAH)
    await pair.credit(600_000, "bonus")

    await run(pair, chat(pair))

    account = pair.book.account(pair.account)
    assert (account.paid, account.bonus) == (9_600_000, 0)
    await pair.compare()


@pytest.mark.rule("BILL-047", "BILL-050")
async def test_a_broken_price_is_rounded_once_a_hold_up_and_a_charge_down(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    ask = chat(pair, price=ODD, model="beta", est_input=7, max_tokens=3)

    # (7 x 333,333,333 + 3 x 777,777,777) / 1,000,000 = 4,666.66...; reading the cache is never dearer than input.
    assert (await granted(pair, ask)).hold == 4_667
    settled = await pair.settle(ask, answer(3, 7, cached=5))

    assert isinstance(settled, Settled)
    assert (settled.cost, settled.catalog) == (4_666, 4_666)


@pytest.mark.rule("BILL-022", "BILL-037")
async def test_free_requests_and_own_keys_need_no_money(real: RealLedger) -> None:
    pair = await begun(real)

    for funding, kind in (("free", "free"), ("own_key", "byok")):
        ask = chat(pair, funding=funding)
        assert await granted(pair, ask) == Granted(kind, 1_000, False, 0, 0, None)
        settled = await pair.settle(ask, answer())
        assert settled == Settled(0, 1_000_000, 0)
    await pair.compare()
