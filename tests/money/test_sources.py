"""Coupons, token allocations and what else pays before or instead of the balance."""

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Redirect
from tests.money.model.facts import DAY
from tests.money.scenes import answer, begun, chat, granted, refused, run, subscribed
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.rule("SUB-062", "SUB-063")
async def test_a_coupon_pays_before_the_plan_until_its_budget_is_spent(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)
    await pair.grant_coupon(("alpha",), RUPIAH + 1, pair.now + DAY)

    assert (await granted(pair, chat(pair))).kind == "coupon"
    # What runs is expected to use the rest of it.
    assert (await granted(pair, chat(pair))).kind == "plan"
    await pair.pass_ms(120_000)
    await run(pair, chat(pair))
    await run(pair, chat(pair), answer(900))
    await pair.compare()

    assert (await granted(pair, chat(pair))).kind == "plan"
    await pair.compare()


async def test_a_coupon_counts_the_list_value(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair, free_cache=("alpha",))
    await pair.grant_coupon(("alpha",), 3 * RUPIAH, pair.now + DAY)

    await run(pair, chat(pair), answer(100, 1_000, 900))

    account = pair.book.account(pair.account)
    assert account.rows[next(iter(account.rows))].catalog == 1_180_000
    await pair.compare()


@pytest.mark.rule("SUB-064")
async def test_a_spent_coupon_without_a_plan_leaves_the_balance_or_free_models(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.grant_coupon(("alpha",), RUPIAH, pair.now + DAY)
    await run(pair, chat(pair))

    assert (await granted(pair, chat(pair))).kind == "payg"
    await pair.choose(keep_balance=False, free_fallback=True)
    assert await pair.reserve(chat(pair)) == Redirect()
    assert (await granted(pair, chat(pair, model="gamma"))).kind == "payg"


@pytest.mark.rule("SUB-065")
async def test_a_coupon_past_its_expiry_pays_for_nothing(real: RealLedger) -> None:
    pair = await begun(real)
    await pair.grant_coupon(("alpha",), None, pair.now + DAY)
    await pair.pass_ms(DAY - 1)
    assert (await granted(pair, chat(pair))).kind == "coupon"

    await pair.pass_ms(1)

    assert await refused(pair, chat(pair)) == (402, "insufficient_balance")
    await pair.compare()


@pytest.mark.rule("SUB-067")
async def test_a_coupon_opens_its_own_models_for_subscribers(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await pair.grant_coupon(("alpha",), RUPIAH, pair.now + DAY)

    assert await refused(pair, chat(pair, model="gamma", subscribers_only=True)) == (403, "subscribers_only")
    await run(pair, chat(pair, subscribers_only=True))
    assert await refused(pair, chat(pair, subscribers_only=True)) == (403, "subscribers_only")


async def test_a_token_allocation_pays_after_the_coupon_and_before_the_plan(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)
    await pair.grant_tokens((), 1_100, pair.now + DAY)
    await pair.grant_coupon(("alpha",), RUPIAH, pair.now + DAY)

    assert (await granted(pair, chat(pair))).kind == "coupon"
    assert (await granted(pair, chat(pair))).kind == "token_alloc"
    assert (await granted(pair, chat(pair))).kind == "plan"
    await pair.compare()


async def test_an_allocation_counts_all_tokens_and_the_last_request_completes(real: RealLedger) -> None:
    pair = await begun(real)
    await pair.grant_tokens((), 1_000, pair.now + DAY)

    await run(pair, chat(pair), answer(399, 600, 500))
    await run(pair, chat(pair), answer(900, 600))
    await pair.compare()

    assert await refused(pair, chat(pair)) == (402, "insufficient_balance")


async def test_the_allocation_that_ends_first_pays_first(real: RealLedger) -> None:
    pair = await begun(real)
    await pair.grant_tokens((), 5_000, pair.now + 2 * DAY)
    await pair.grant_tokens(("alpha",), 5_000, pair.now + DAY)

    await run(pair, chat(pair))

    later, sooner = pair.book.account(pair.account).allocations
    account = pair.book.account(pair.account)
    assert [row.hold.source.allocation for row in account.rows.values()] == [sooner.allocation_id]
    assert later.tokens == 5_000
    await pair.compare()


async def test_the_balance_can_be_asked_for_directly(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair, free_cache=("alpha",))
    await pair.grant_coupon(("alpha",), None, pair.now + DAY)

    settled = await run(pair, chat(pair, funding="balance"), answer(100, 1_000, 900))

    # The backup of an own key pays list price: no plan, no free cache.
    assert settled.cost == 100 * 2_000 + 900 * 200 + 100 * 8_000
    await pair.compare()
