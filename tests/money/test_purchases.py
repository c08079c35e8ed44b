"""Buying, renewing, upgrading and restarting plans from the balance."""

from dataclasses import replace

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Bought
from tests.money.model.facts import CYCLE, DAY, HOUR, Plan
from tests.money.pair import Pair
from tests.money.scenes import answer, begun, chat, granted, left, run, subscribed
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def dearer(pair: Pair, price: int) -> Plan:
    plan = Plan(f"{pair.account}-dearer", price, {"week": 50 * RUPIAH}, ("alpha", "beta"))
    await pair.put_plan(plan)
    return plan


def paid(bought: Bought | str) -> int:
    assert isinstance(bought, Bought), bought
    return bought.paid


@pytest.mark.rule("SUB-014", "SUB-015")
async def test_a_plan_takes_its_whole_price_or_nothing(real: RealLedger) -> None:
    pair = await begun(real, 9 * RUPIAH - 1)
    plan = await dearer(pair, 9 * RUPIAH)

    assert await pair.purchase(plan.plan_id) == "insufficient_balance"
    await pair.compare()
    await pair.credit(1, "bonus")

    assert paid(await pair.purchase(plan.plan_id, expected=9 * RUPIAH)) == 9 * RUPIAH
    await pair.compare()


async def test_money_that_is_held_buys_no_plan(real: RealLedger) -> None:
    pair = await begun(real, 9 * RUPIAH)
    plan = await dearer(pair, 9 * RUPIAH)
    await granted(pair, chat(pair, max_tokens=1))

    assert await pair.purchase(plan.plan_id) == "insufficient_balance"


async def test_a_purchase_happens_once(real: RealLedger) -> None:
    pair = await begun(real, 30 * RUPIAH)
    plan = await dearer(pair, 9 * RUPIAH)

    first = await pair.purchase(plan.plan_id, key=f"{pair.account}-once")
    again = await pair.purchase(plan.plan_id, key=f"{pair.account}-once")

    assert isinstance(first, Bought) and isinstance(again, Bought)
    assert (again.paid, again.duplicate) == (9 * RUPIAH, True)
    await pair.compare()


async def test_a_purchase_is_refused_by_name(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    plan = await dearer(pair, 20 * RUPIAH)

    assert await pair.purchase(f"{pair.account}-none") == "plan_not_found"
    assert await pair.purchase(plan.plan_id, expected=1) == "price_changed"
    assert await pair.purchase(plan.plan_id, new_cycle=True) == "not_restartable"
    await pair.put_plan(replace(plan, on_sale=False))
    assert await pair.purchase(plan.plan_id) == "plan_not_on_sale"
    await pair.compare()


@pytest.mark.rule("SUB-008")
async def test_renewing_early_adds_thirty_days_and_keeps_the_windows(real: RealLedger) -> None:
    pair = await begun(real, 30 * RUPIAH)
    plan = await subscribed(pair)
    await run(pair, chat(pair), answer(1_000))
    await pair.pass_ms(HOUR)

    bought = await pair.purchase(plan.plan_id)

    assert paid(bought) == 9 * RUPIAH
    assert isinstance(bought, Bought)
    assert bought.subscription.ends == bought.subscription.anchor + 2 * CYCLE
    assert await left(pair) == {"five_hour": 18, "week": 72}
    await pair.compare()


@pytest.mark.rule("SUB-009", "SUB-010")
async def test_an_upgrade_credits_the_days_left_and_starts_anew(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair)
    await run(pair, chat(pair), answer(1_000))
    plan = await dearer(pair, 20 * RUPIAH)
    # 20 days and a millisecond less are left: 9,000,000 x (20 x 86,400,000 - 1) / 2,592,000,000, rounded down.
    await pair.pass_ms(10 * DAY + 1)

    assert paid(await pair.purchase(plan.plan_id)) == 20 * RUPIAH - 5_999_999
    assert await left(pair) == {"week": 100}
    await pair.compare()


async def test_an_upgrade_never_costs_less_than_nothing(real: RealLedger) -> None:
    pair = await begun(real, 90 * RUPIAH)
    first = await subscribed(pair)
    for _ in range(3):
        await pair.purchase(first.plan_id)
    plan = await dearer(pair, 10 * RUPIAH)

    assert paid(await pair.purchase(plan.plan_id)) == 0
    await pair.compare()


async def test_a_request_under_way_at_an_upgrade_counts_in_the_old_plan(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair)
    ask = chat(pair)
    await granted(pair, ask)
    plan = await dearer(pair, 20 * RUPIAH)

    await pair.purchase(plan.plan_id)
    await pair.compare()
    await pair.settle(ask, answer(1_000))

    assert await left(pair) == {"week": 100}
    await pair.compare()


async def test_a_cheaper_plan_cannot_be_bought_while_one_is_active(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair)
    cheaper = await dearer(pair, 9 * RUPIAH - 1)

    assert await pair.purchase(cheaper.plan_id) == "plan_lower"
    await pair.pass_ms(CYCLE)
    assert paid(await pair.purchase(cheaper.plan_id)) == 9 * RUPIAH - 1
    await pair.compare()


@pytest.mark.rule("SUB-027", "SUB-028", "SUB-029")
async def test_a_new_cycle_costs_the_full_price_and_forfeits_the_days_left(real: RealLedger) -> None:
    pair = await begun(real, 30 * RUPIAH)
    plan = await subscribed(pair)
    await run(pair, chat(pair), answer(1_000))
    await pair.pass_ms(3 * DAY)

    bought = await pair.purchase(plan.plan_id, new_cycle=True)

    assert isinstance(bought, Bought)
    assert (bought.paid, bought.subscription.ends) == (9 * RUPIAH, pair.now + CYCLE)
    assert await left(pair) == {"five_hour": 100, "week": 100}
    await pair.compare()


@pytest.mark.rule("SUB-031", "SUB-032")
async def test_trials_and_plans_off_sale_cannot_be_restarted_but_gifts_can(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    plan = await dearer(pair, 9 * RUPIAH)
    await pair.grant(plan.plan_id, "trial", days=3)
    assert await pair.purchase(plan.plan_id, new_cycle=True) == "not_restartable"
    await pair.pass_ms(3 * DAY)
    await pair.grant(plan.plan_id, "gift")
    assert paid(await pair.purchase(plan.plan_id, new_cycle=True)) == 9 * RUPIAH

    await pair.put_plan(replace(plan, on_sale=False))
    assert isinstance(await pair.purchase(plan.plan_id, new_cycle=True), str)
    await pair.compare()


@pytest.mark.rule("SUB-021")
async def test_auto_renew_goes_on_without_a_gap(real: RealLedger) -> None:
    pair = await begun(real, 9 * RUPIAH)
    await subscribed(pair)
    await pair.auto_renew(True)
    anchor = pair.book.account(pair.account).subscriptions[0].anchor

    await pair.pass_ms(CYCLE + 60_000)

    sub = pair.book.account(pair.account).subscriptions[-1]
    assert (sub.anchor, sub.ends) == (anchor, anchor + 2 * CYCLE)
    assert (await granted(pair, chat(pair))).kind == "plan"
    await pair.compare()


@pytest.mark.rule("SUB-022", "SUB-023")
async def test_auto_renew_takes_all_of_the_price_or_ends(real: RealLedger) -> None:
    pair = await begun(real, 9 * RUPIAH - 1)
    await subscribed(pair)
    await pair.auto_renew(True)

    await pair.pass_ms(CYCLE)
    await pair.compare()
    await pair.credit(RUPIAH)
    await pair.pass_ms(1_000)

    assert not pair.book.account(pair.account).auto_renew
    await pair.compare()


@pytest.mark.rule("SUB-024", "SUB-071")
async def test_a_plan_off_sale_is_kept_to_its_end_and_not_renewed(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    plan = await subscribed(pair)
    await pair.auto_renew(True)
    await pair.put_plan(replace(plan, on_sale=False))
    assert (await granted(pair, chat(pair))).kind == "plan"

    await pair.pass_ms(CYCLE)

    assert (await granted(pair, chat(pair))).kind == "payg"
    await pair.compare()


async def test_days_that_nobody_paid_for_are_not_credited_at_an_upgrade(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    plan = await dearer(pair, 9 * RUPIAH)
    await pair.grant(plan.plan_id, "trial", days=30)
    await pair.purchase(plan.plan_id)
    higher = Plan(f"{pair.account}-higher", 50 * RUPIAH, {}, ("alpha",))
    await pair.put_plan(higher)

    # Sixty days are left, thirty of which were paid for: Rp 9, less the rounding of what a millisecond is worth.
    assert paid(await pair.purchase(higher.plan_id)) in (41 * RUPIAH, 41 * RUPIAH + 1, 41 * RUPIAH + 2)
    await pair.compare()


@pytest.mark.parametrize("source", ["trial", "granted"])
async def test_days_given_on_top_take_nothing_from_a_paid_plan(real: RealLedger, source: str) -> None:
    pair = await begun(real, 60 * RUPIAH)
    plan = await subscribed(pair)
    await pair.grant(plan.plan_id, source, days=3)
    await pair.compare()

    assert paid(await pair.purchase(plan.plan_id, new_cycle=True)) == 9 * RUPIAH
