"""Caps of keys: hard, reserved, counted at list value, renewed by the calendar or by the owner."""

from dataclasses import replace

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.facts import DAY, Ask, Caps
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.scenes import CALLED, answer, begun, chat, granted, piece, refused, run, search, subscribed, texts
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

REACHED = (402, "key_spend_cap_reached")
HOLD = 8_250_000


def capped(pair: Pair, *, spend: int = 0, tokens: int = 0, period: str = "", epoch: int = 0, **more: object) -> Ask:
    return chat(pair, key=f"key_{pair.account}_c", caps=Caps(spend, tokens, period, epoch), **more)


async def test_requests_at_once_cannot_spend_more_than_the_cap(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    await granted(pair, capped(pair, spend=2 * HOLD))
    await granted(pair, capped(pair, spend=2 * HOLD))

    assert await refused(pair, capped(pair, spend=2 * HOLD)) == REACHED
    await granted(pair, chat(pair))
    await pair.compare()


async def test_a_spend_cap_lowers_max_tokens_to_what_is_left_of_it(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    cap = 250_000 + 1_500 * 8_000

    found = await granted(pair, capped(pair, spend=cap, max_tokens=5_000))

    assert (found.max_tokens, found.lowered, found.hold) == (1_500, True, cap)


async def test_a_token_cap_lowers_max_tokens_to_what_is_left_of_it(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    assert (await granted(pair, capped(pair, tokens=1_600, max_tokens=5_000))).max_tokens == 1_500
    assert await refused(pair, capped(pair, tokens=1_600, max_tokens=5_000)) == REACHED
    await pair.compare()


async def test_below_the_floor_a_cap_refuses(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    assert await refused(pair, capped(pair, tokens=1_123, max_tokens=5_000)) == REACHED
    assert await refused(pair, capped(pair, spend=250_000 + 1_024 * 8_000 - 1, max_tokens=5_000)) == REACHED
    assert (await granted(pair, capped(pair, tokens=1_124, max_tokens=5_000))).max_tokens == 1_024


async def test_what_was_not_used_comes_back_to_the_cap(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    await run(pair, capped(pair, spend=HOLD + 1_000_000))
    await granted(pair, capped(pair, spend=HOLD + 1_000_000))
    await pair.compare()

    assert await refused(pair, capped(pair, spend=HOLD + 1_000_000, max_tokens=1)) == REACHED


async def test_a_released_request_comes_back_to_the_cap(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    ask = capped(pair, spend=HOLD, tokens=1_100)
    await granted(pair, ask)

    await pair.release(ask.ref)

    await granted(pair, capped(pair, spend=HOLD, tokens=1_100))
    await pair.compare()


async def test_a_request_may_use_more_than_it_reserved_and_then_the_cap_is_reached(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    await run(pair, capped(pair, spend=HOLD), answer(2_000))

    assert await refused(pair, capped(pair, spend=HOLD, max_tokens=1)) == REACHED
    await pair.compare()


async def test_a_plan_pays_but_the_list_value_counts(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair, free_cache=("alpha",))
    cap = 10 * RUPIAH

    settled = await run(pair, capped(pair, spend=cap), answer(100, 1_000, 900))

    assert (settled.cost, settled.catalog) == (0, 100 * 2_000 + 900 * 200 + 100 * 8_000)
    assert (await granted(pair, capped(pair, spend=cap, max_tokens=1_500))).max_tokens == 1_071
    await pair.compare()


async def test_a_reached_spend_cap_refuses_free_requests_too(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await run(pair, capped(pair, spend=RUPIAH + HOLD, funding="free"))
    await run(pair, capped(pair, spend=RUPIAH + HOLD), answer(1_200))

    assert await refused(pair, capped(pair, spend=RUPIAH, funding="free")) == REACHED
    await granted(pair, capped(pair, spend=30 * RUPIAH, funding="free"))
    await pair.compare()


async def test_a_spend_cap_met_to_the_last_micro_rupiah_is_reached(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    # 125 x 2,000 + 1,000 x 8,000.
    await run(pair, capped(pair, spend=HOLD), answer(1_000, 125))

    assert await refused(pair, capped(pair, spend=HOLD, funding="free")) == REACHED


@pytest.mark.parametrize("funding", ["free", "own_key"])
async def test_a_token_cap_counts_free_requests_and_own_keys(real: RealLedger, funding: str) -> None:
    pair = await begun(real)

    await run(pair, capped(pair, tokens=2_000, funding=funding), answer(800, 50))
    await pair.compare()
    # 1,150 are left.
    assert await refused(pair, capped(pair, tokens=2_000, funding=funding, est_input=151)) == REACHED
    await granted(pair, capped(pair, tokens=2_000, funding=funding, est_input=150))
    assert await refused(pair, capped(pair, tokens=2_000, funding=funding, est_input=0, max_tokens=1)) == REACHED
    await pair.compare()


async def test_no_output_counts_nothing(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)

    await run(pair, capped(pair, spend=HOLD, tokens=1_100), answer(0))

    await granted(pair, capped(pair, spend=HOLD, tokens=1_100))
    await pair.compare()


async def test_fees_units_and_jobs_count_at_list_value(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await subscribed(pair, daily_searches=1)
    caps = Caps(spend=300_000 + 2 * 700_000 + 150_000 + 700_000)

    await run(pair, search(pair, key=f"key_{pair.account}_c", caps=caps), CALLED)
    await run(pair, piece(pair, units=2, key=f"key_{pair.account}_c", caps=caps), Report(Used(units=2)))
    await run(pair, texts(pair, key=f"key_{pair.account}_c", caps=caps), Report(Used(90)))
    job = piece(pair, "videos", key=f"key_{pair.account}_c", caps=caps)
    await pair.charge(job)
    await pair.compare()

    assert await refused(pair, search(pair, key=f"key_{pair.account}_c", caps=caps)) == REACHED
    await pair.refund(job.ref)
    await granted(pair, search(pair, key=f"key_{pair.account}_c", caps=caps))
    await pair.compare()


async def test_a_job_that_does_not_fit_the_cap_is_refused(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    job = piece(pair, "videos", 2, key=f"key_{pair.account}_c", caps=Caps(spend=1_399_999))

    assert getattr(await pair.charge(job), "code", None) == REACHED[1]
    await pair.compare()


async def test_the_owner_starts_the_count_anew(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await run(pair, capped(pair, spend=RUPIAH + HOLD - 1, epoch=1))
    assert await refused(pair, capped(pair, spend=RUPIAH + HOLD - 1, epoch=1)) == REACHED

    await granted(pair, capped(pair, spend=RUPIAH + HOLD - 1, epoch=2))
    await pair.compare()


@pytest.mark.parametrize(("period", "days"), [("day", 1), ("week", 7), ("month", 31)])
async def test_a_cap_with_a_period_starts_anew_by_the_calendar(real: RealLedger, period: str, days: int) -> None:
    pair = await begun(real, 90 * RUPIAH)
    late = capped(pair, spend=RUPIAH + HOLD - 1, period=period)
    await granted(pair, late)
    await pair.touch([late.ref])

    # The request began in the old period and counts there.
    await pair.pass_ms(days * DAY)
    await pair.settle(late, answer())

    await granted(pair, capped(pair, spend=RUPIAH + HOLD - 1, period=period))
    await pair.compare()


async def test_a_changed_cap_keeps_what_was_spent(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    ask = capped(pair, spend=HOLD)
    await run(pair, ask)
    assert await refused(pair, capped(pair, spend=HOLD)) == REACHED

    await granted(pair, capped(pair, spend=HOLD + RUPIAH))
    assert await refused(pair, replace(capped(pair, spend=HOLD + RUPIAH + 7_999), max_tokens=1, est_input=0)) == REACHED
    await pair.compare()


async def test_the_cap_is_named_before_everything_but_subscribers(real: RealLedger) -> None:
    pair = await begun(real)
    await pair.limit(0, "day")
    await pair.cap_member("mem_a", 0)

    assert await refused(pair, capped(pair, spend=1, member="mem_a")) == REACHED
    assert await refused(pair, capped(pair, spend=1, subscribers_only=True)) == (403, "subscribers_only")


async def test_a_token_cap_that_is_used_up_to_the_last_token_refuses_everything(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await run(pair, capped(pair, tokens=1_100), answer(1_000))

    assert await refused(pair, piece(pair, key=f"key_{pair.account}_c", caps=Caps(tokens=1_100))) == REACHED
    await pair.compare()
