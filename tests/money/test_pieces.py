"""Endpoints billed by something else than chat tokens, and jobs paid on acceptance."""

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Charged, Denied, Ended
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.scenes import begun, granted, piece, refused, run, texts
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.rule("BILL-055", "BILL-063")
@pytest.mark.parametrize(("delivered", "cost"), [(3, 2_100_000), (1, 700_000), (5, 2_100_000)])
async def test_what_was_delivered_is_charged_and_never_more_than_was_held(
    real: RealLedger, delivered: int, cost: int
) -> None:
    pair = await begun(real, 5 * RUPIAH)
    ask = piece(pair, units=3)
    assert (await granted(pair, ask)).hold == 2_100_000

    settled = await pair.settle(ask, Report(Used(units=delivered)))

    assert getattr(settled, "cost", None) == cost
    await pair.compare()


@pytest.mark.rule("BILL-065")
async def test_a_hold_that_does_not_fit_refuses(real: RealLedger) -> None:
    pair = await begun(real, 2_099_999)

    assert await refused(pair, piece(pair, units=3)) == (402, "insufficient_balance")
    await pair.credit(1)
    await granted(pair, piece(pair, units=3))


@pytest.mark.rule("BILL-053")
@pytest.mark.parametrize("endpoint", ["embeddings", "rerank", "moderations"])
async def test_texts_cost_what_was_estimated_whatever_is_reported(real: RealLedger, endpoint: str) -> None:
    pair = await begun(real, 5 * RUPIAH)

    settled = await run(pair, texts(pair, endpoint), Report(Used(prompt=9_999)))

    assert (settled.cost, settled.catalog) == (150_000, 150_000)
    await pair.compare()


@pytest.mark.rule("BILL-054")
@pytest.mark.parametrize(("reported", "cost"), [(60, 90_000), (100, 150_000), (101, 150_000)])
async def test_system_one_costs_what_is_reported_up_to_what_was_held(
    real: RealLedger, reported: int, cost: int
) -> None:
    pair = await begun(real, 5 * RUPIAH)

    settled = await run(pair, texts(pair, "systemone"), Report(Used(prompt=reported, completion=40)))

    assert settled.cost == cost
    await pair.compare()


@pytest.mark.rule("BILL-059")
async def test_a_job_is_paid_when_accepted_and_booked_when_done(real: RealLedger) -> None:
    pair = await begun(real, 5 * RUPIAH)
    job = piece(pair, "videos", 5)

    assert await pair.charge(job) == Charged(3_500_000, 1_500_000)
    assert await pair.charge(job) == Charged(3_500_000, 1_500_000, duplicate=True)
    await pair.compare()
    assert await pair.complete(job.ref) == Ended(3_500_000)
    assert await pair.complete(job.ref) == Ended(3_500_000, duplicate=True)

    assert isinstance(await pair.refund(job.ref), str)
    await pair.compare()


async def test_a_failed_job_goes_back_where_it_came_from_once(real: RealLedger) -> None:
    pair = await begun(real, 5 * RUPIAH)
    await pair.credit(RUPIAH, "bonus")
    job = piece(pair, "videos", 5)
    await pair.charge(job)
    await pair.credit(400_000, "bonus")

    assert await pair.refund(job.ref) == Ended(3_500_000)
    assert await pair.refund(job.ref) == Ended(3_500_000, duplicate=True)

    account = pair.book.account(pair.account)
    assert (account.paid, account.bonus) == (5 * RUPIAH, 1_400_000)
    assert isinstance(await pair.complete(job.ref), str)
    await pair.compare()


async def test_a_job_that_cannot_be_paid_is_refused(real: RealLedger) -> None:
    pair = await begun(real, 3_499_999)

    found = await pair.charge(piece(pair, "videos", 5))

    assert found == Denied(402, "insufficient_balance", 3_499_999, 3_500_000)
    await pair.compare()
