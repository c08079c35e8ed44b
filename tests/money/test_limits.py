"""The PAYG limit and the caps of members: rolling sums of what was taken from the balance."""

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.facts import CYCLE, DAY, MINUTE
from tests.money.pair import Pair
from tests.money.scenes import CALLED, answer, begun, chat, granted, piece, refused, run, search, subscribed
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITED = (402, "payg_limit_reached")
CAPPED = (402, "member_spend_cap_reached")


@pytest.mark.rule("BILL-024", "BILL-025")
async def test_the_request_that_crosses_the_limit_completes_and_the_next_is_refused(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(1_000_001, "day")

    await run(pair, chat(pair))
    await run(pair, chat(pair))

    assert await refused(pair, chat(pair)) == LIMITED
    await pair.compare()


@pytest.mark.rule("BILL-019", "BILL-027")
@pytest.mark.parametrize(("window", "length"), [("day", DAY), ("month", CYCLE)])
async def test_a_minute_of_spend_counts_until_all_of_it_is_out_of_the_window(
    real: RealLedger, window: str, length: int
) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(RUPIAH, window)
    # Into the middle of a minute.
    await pair.pass_ms(MINUTE - pair.now % MINUTE + 30_000)
    await run(pair, chat(pair))

    await pair.pass_ms(length + 29_999)
    assert await refused(pair, chat(pair)) == LIMITED
    await pair.compare()
    await pair.pass_ms(1)

    await pair.compare()
    await granted(pair, chat(pair))


@pytest.mark.rule("BILL-018")
async def test_taking_the_limit_away_lets_requests_pass(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(0, "day")
    assert await refused(pair, chat(pair)) == LIMITED

    await pair.limit(0, "")

    await granted(pair, chat(pair))
    await pair.compare()


@pytest.mark.rule("BILL-026", "BILL-020")
@pytest.mark.parametrize("endpoint", ["web_search", "page_fetch", "x_search"])
async def test_a_fee_may_reach_the_limit_but_not_pass_it(real: RealLedger, endpoint: str) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(600_000, "day")

    for _ in range(2):
        ask = search(pair, endpoint)
        await granted(pair, ask)
        await pair.settle(ask, CALLED)
    assert await refused(pair, search(pair, endpoint)) == LIMITED
    await pair.limit(899_999, "day")
    assert await refused(pair, search(pair, endpoint)) == LIMITED
    await pair.limit(900_000, "day")
    await granted(pair, search(pair, endpoint))
    await pair.compare()


@pytest.mark.rule("BILL-028")
async def test_the_limit_holds_for_other_endpoints(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(RUPIAH, "month")
    await run(pair, chat(pair))

    assert await refused(pair, piece(pair)) == LIMITED


@pytest.mark.rule("BILL-021")
async def test_a_job_counts_from_acceptance_and_no_longer_once_refunded(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(3 * 700_000, "day")
    job = piece(pair, "videos", 2)
    await pair.charge(job)
    await pair.compare()
    await pair.pass_ms(10 * MINUTE)
    await run(pair, chat(pair))
    assert await refused(pair, chat(pair)) == LIMITED

    await pair.refund(job.ref)

    await pair.compare()
    await granted(pair, chat(pair))
    # The refund undid the spend of its own minute, not of a later one.
    await pair.pass_ms(DAY - 5 * MINUTE)
    await pair.compare()
    await pair.pass_ms(10 * MINUTE)
    await pair.compare()


@pytest.mark.rule("BILL-022", "BILL-023")
async def test_plans_bought_and_requests_without_cost_do_not_count(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.limit(1, "day")
    await subscribed(pair)

    await run(pair, chat(pair))
    await run(pair, chat(pair, funding="free"))

    await granted(pair, chat(pair, model="gamma"))
    await pair.compare()


async def _member(pair: Pair, cap: int) -> None:
    await pair.cap_member("mem_a", cap)


async def test_a_members_cap_lowers_and_then_refuses(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await _member(pair, 250_000 + 1_500 * 8_000)

    found = await granted(pair, chat(pair, max_tokens=5_000, member="mem_a"))

    assert (found.max_tokens, found.hold) == (1_500, 12_250_000)
    # What is held is not there for others of the member, but for everybody else.
    assert await refused(pair, chat(pair, max_tokens=1, member="mem_a")) == CAPPED
    await granted(pair, chat(pair, member="mem_b"))
    await granted(pair, chat(pair))
    await pair.compare()


async def test_a_members_draw_of_thirty_days_counts_also_from_before_the_cap(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await run(pair, chat(pair, member="mem_a"))
    await pair.pass_ms(CYCLE - 2 * MINUTE)
    await run(pair, chat(pair, member="mem_a"), answer(50))
    await _member(pair, 1_600_000)

    await pair.compare()
    assert await refused(pair, chat(pair, member="mem_a")) == CAPPED
    await pair.pass_ms(4 * MINUTE)

    await pair.compare()
    await granted(pair, chat(pair, max_tokens=90, member="mem_a"))


async def test_what_a_member_draws_from_a_plan_or_for_free_is_not_capped(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await subscribed(pair)
    await _member(pair, 0)

    await run(pair, chat(pair, member="mem_a"))
    await run(pair, chat(pair, member="mem_a", funding="free"))

    assert await refused(pair, chat(pair, member="mem_a", model="gamma")) == CAPPED
    await pair.compare()


async def test_the_narrowest_owner_is_named_first_and_the_balance_last(real: RealLedger) -> None:
    pair = await begun(real, RUPIAH)
    await _member(pair, 0)
    assert await refused(pair, chat(pair)) == (402, "insufficient_balance")
    assert await refused(pair, chat(pair, member="mem_a")) == CAPPED

    await pair.limit(0, "day")

    assert await refused(pair, chat(pair, member="mem_a")) == LIMITED
