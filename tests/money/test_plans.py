"""Plans: their windows, what happens when one is spent, free cache, searches, and the end."""

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Granted, Redirect
from tests.money.model.facts import CYCLE, DAY, HOUR
from tests.money.pair import Pair
from tests.money.scenes import (
    CALLED,
    answer,
    begun,
    chat,
    granted,
    left,
    piece,
    refused,
    run,
    search,
    subscribed,
    texts,
)
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITED = (429, "plan_limit_reached")


async def spent(pair: Pair) -> None:
    """Use the five hours' ceiling of Rp 10 up."""
    await run(pair, chat(pair), answer(1_225))


@pytest.mark.rule("SUB-001", "SUB-003", "BILL-037")
async def test_a_covered_model_draws_quota_and_leaves_the_balance_alone(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)

    ask = chat(pair)
    assert await granted(pair, ask) == Granted("plan", 1_000, False, 0, 0, {"five_hour": 100, "week": 100})
    settled = await pair.settle(ask, answer())

    assert getattr(settled, "catalog", None) == 1_000_000
    found = await granted(pair, chat(pair))
    assert found.plan_left == {"five_hour": 90, "week": 96}
    await pair.compare()


@pytest.mark.rule("SUB-004", "SUB-005", "SUB-040")
async def test_one_spent_window_is_enough_to_refuse_until_it_turns(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)
    await run(pair, chat(pair), answer(1_224))
    # Rp 9.992 of Rp 10: there is room, and the request that crosses completes.
    await run(pair, chat(pair), answer(2_000))
    await pair.compare()

    assert await refused(pair, chat(pair)) == LIMITED
    await pair.pass_ms(5 * HOUR - 1)
    assert await refused(pair, chat(pair)) == LIMITED
    await pair.pass_ms(1)

    await granted(pair, chat(pair))
    await pair.compare()


@pytest.mark.rule("SUB-002")
async def test_a_window_without_ceiling_never_refuses(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair, ceilings={"week": None})

    for _ in range(3):
        await run(pair, chat(pair), answer(60_000))

    assert await left(pair) == {}
    await pair.compare()


async def test_running_requests_are_expected_to_use_some_of_a_window(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair, ceilings={"five_hour": 33_018_000})

    # The first is expected to use 250,000 + 4,096 x 8,000 = 33,018,000, which leaves no room beside it.
    await granted(pair, chat(pair, max_tokens=60_000))
    await pair.compare()
    assert await refused(pair, chat(pair)) == LIMITED


async def test_expected_use_one_below_the_ceiling_leaves_room(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair, ceilings={"five_hour": 33_018_001})

    await granted(pair, chat(pair, max_tokens=60_000))
    await granted(pair, chat(pair, max_tokens=60_000))
    await pair.compare()


@pytest.mark.rule("SUB-006", "SUB-007")
async def test_use_counts_where_the_request_began(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)
    await pair.pass_ms(5 * HOUR - 1_000)
    ask = chat(pair)
    await granted(pair, ask)

    await pair.pass_ms(2_000)
    await pair.compare()
    await pair.settle(ask, answer(1_250))

    # The new five hours are untouched; the week goes on.
    assert await left(pair) == {"five_hour": 100, "week": 66}
    await pair.compare()


@pytest.mark.rule("SUB-036", "SUB-037", "SUB-038", "SUB-039", "SUB-041")
@pytest.mark.parametrize(
    ("keep", "free", "then"),
    [(True, False, "payg"), (True, True, "payg"), (False, True, "redirect"), (False, False, "refused")],
)
async def test_two_settings_decide_once_a_window_is_spent(real: RealLedger, keep: bool, free: bool, then: str) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair)
    await spent(pair)
    if keep or free:
        await pair.choose(keep_balance=keep, free_fallback=free)

    found = await pair.reserve(chat(pair))

    if then == "payg":
        assert getattr(found, "kind", None) == "payg"
    elif then == "redirect":
        assert found == Redirect()
    else:
        assert getattr(found, "code", None) == "plan_limit_reached"
    await pair.compare()


@pytest.mark.rule("SUB-038", "SUB-042")
async def test_with_the_balance_kept_its_limits_hold_and_free_models_do_not_help(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)
    await spent(pair)
    await pair.choose(keep_balance=True, free_fallback=True)

    assert await refused(pair, chat(pair)) == (402, "insufficient_balance")
    await pair.limit(0, "day")
    assert await refused(pair, chat(pair)) == (402, "payg_limit_reached")


@pytest.mark.rule("SUB-011", "SUB-050")
@pytest.mark.parametrize("free", [True, False])
async def test_a_model_the_plan_does_not_list_is_paid_from_the_balance(real: RealLedger, free: bool) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair)
    await pair.choose(keep_balance=False, free_fallback=free)

    assert (await granted(pair, chat(pair, model="gamma"))).kind == "payg"
    await spent(pair)
    assert (await granted(pair, chat(pair, model="gamma"))).kind == "payg"
    await pair.pass_ms(CYCLE)
    assert (await granted(pair, chat(pair, model="gamma"))).kind == "payg"


@pytest.mark.rule("SUB-025", "SUB-043", "SUB-044")
async def test_after_the_end_the_balance_pays_or_free_models_answer(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair)
    await pair.pass_ms(CYCLE - 1)
    assert (await granted(pair, chat(pair))).kind == "plan"
    await pair.pass_ms(1)
    await pair.compare()

    assert (await granted(pair, chat(pair))).kind == "payg"
    await pair.choose(keep_balance=False, free_fallback=True)
    assert await pair.reserve(chat(pair)) == Redirect()
    await pair.choose(keep_balance=True, free_fallback=True)
    assert (await granted(pair, chat(pair))).kind == "payg"
    await pair.compare()


@pytest.mark.rule("SUB-045", "SUB-066", "SUB-067")
async def test_models_for_subscribers_need_an_active_plan(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    refusal = (403, "subscribers_only")
    assert await refused(pair, chat(pair, subscribers_only=True)) == refusal
    assert await refused(pair, piece(pair, subscribers_only=True)) == refusal
    plan = await subscribed(pair)
    await granted(pair, chat(pair, subscribers_only=True))
    await granted(pair, piece(pair, subscribers_only=True))

    await pair.pass_ms(CYCLE)
    await pair.choose(keep_balance=False, free_fallback=True)
    assert await refused(pair, chat(pair, subscribers_only=True)) == refusal

    await pair.grant(plan.plan_id, "trial", days=3)
    await granted(pair, chat(pair, subscribers_only=True))


@pytest.mark.rule("SUB-055", "SUB-056", "SUB-058")
async def test_free_cache_spends_no_quota(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair, models=("alpha", "beta"), free_cache=("alpha",))
    report = answer(100, 1_000, 600, 300)

    await run(pair, chat(pair), report)
    # 100 fresh and 100 out count, 600 x 200 + 300 x 2,500 do not.
    assert await left(pair) == {"five_hour": 90, "week": 96}
    await run(pair, chat(pair, model="beta"), report)
    assert await left(pair) == {"five_hour": 71, "week": 90}
    # Not covered: all of it is charged.
    settled = await run(pair, chat(pair, model="gamma"), report)
    assert settled.cost == 1_000_000 + 600 * 200 + 300 * 2_500
    await pair.compare()


@pytest.mark.rule("SUB-057", "SUB-059")
async def test_free_cache_holds_for_the_balance_after_a_spent_window_of_a_live_plan(real: RealLedger) -> None:
    pair = await begun(real, 60 * RUPIAH)
    await subscribed(pair, free_cache=("alpha",))
    await spent(pair)
    await pair.choose(keep_balance=True, free_fallback=False)
    report = answer(100, 1_000, 600, 300)
    full = 1_000_000 + 600 * 200 + 300 * 2_500

    settled = await run(pair, chat(pair), report)
    assert (settled.cost, settled.catalog) == (1_000_000, full)
    await pair.pass_ms(CYCLE)
    settled = await run(pair, chat(pair), report)

    assert (settled.cost, settled.catalog) == (full, full)
    await pair.compare()


@pytest.mark.rule("BILL-039")
async def test_no_output_spends_no_quota(real: RealLedger) -> None:
    pair = await begun(real)
    await subscribed(pair)

    await run(pair, chat(pair), answer(0))

    assert await left(pair) == {"five_hour": 100, "week": 100}
    await pair.compare()


@pytest.mark.rule("SUB-051", "SUB-052", "SUB-053")
async def test_searches_of_a_day_are_part_of_the_plan_and_then_paid(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair)
    failed, kept = search(pair), search(pair, "page_fetch")
    await granted(pair, failed)
    await granted(pair, kept)
    assert (await granted(pair, search(pair))).kind == "payg"
    await pair.release(failed.ref)

    settled = await pair.settle(kept, CALLED)
    assert (getattr(settled, "cost", None), getattr(settled, "catalog", None)) == (0, 300_000)
    assert (await run(pair, search(pair), CALLED)).cost == 0
    assert (await run(pair, search(pair), CALLED)).cost == 300_000
    await pair.compare()

    await pair.pass_ms(DAY - pair.now % DAY)
    assert (await run(pair, search(pair), CALLED)).cost == 0
    await pair.compare()


@pytest.mark.rule("SUB-054")
async def test_searching_x_is_never_part_of_a_plan(real: RealLedger) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair)

    assert (await run(pair, search(pair, "x_search"), CALLED)).cost == 300_000
    await pair.compare()


@pytest.mark.rule("SUB-046", "SUB-047", "SUB-048")
@pytest.mark.parametrize("endpoint", ["images", "speech", "transcriptions", "music", "ocr", "videos"])
async def test_a_plan_never_pays_for_pieces(real: RealLedger, endpoint: str) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair, models=("alpha", endpoint))

    assert (await granted(pair, piece(pair, endpoint))).kind == "payg"


@pytest.mark.rule("SUB-047")
@pytest.mark.parametrize("endpoint", ["embeddings", "rerank", "moderations", "systemone"])
async def test_a_plan_never_pays_for_texts(real: RealLedger, endpoint: str) -> None:
    pair = await begun(real, 20 * RUPIAH)
    await subscribed(pair, models=("alpha", endpoint))

    assert (await granted(pair, texts(pair, endpoint))).kind == "payg"
