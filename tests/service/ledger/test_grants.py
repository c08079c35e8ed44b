"""Coupons, token allocations, the allowance of searches, endpoints billed by units, and jobs paid on acceptance."""

from typing import Any

import pytest

from libs.core.ids import uuid7_hex
from libs.core.pricing import Price
from libs.events.ledger import Refunded as RefundTold
from services.ledger.domain.calls import (
    Charged,
    Complete,
    Denied,
    InvalidCallError,
    Redirected,
    Refund,
    RefusedError,
)
from services.ledger.funding_settings import Choice
from tests.service.ledger.conftest import Books, reserve, settle
from tests.service.ledger.funding import DAY_MS, RUPIAH, Funds, amount, spend, told

COST = 600_000
UNIT = Price("v-unit", 4_000_000, 0, unit=1_500 * RUPIAH)


@pytest.fixture
def funds(books: Books) -> Funds:
    books.router.prices[UNIT.version] = UNIT
    return Funds(books)


async def coupon(books: Books, funds: Funds, account: str, budget: int | None = None, **more: Any) -> str:
    now = int(await books.admin.fetchval("select extract(epoch from now()) * 1000"))
    values = {"key": uuid7_hex(), "name": "Coupon", "models": ["sim-1"], "ends_ms": now + DAY_MS, **more}
    return await funds.subscriptions.grant_coupon(account, budget=budget, **values)


@pytest.mark.rule("SUB-062", "SUB-063")
async def test_a_coupon_pays_before_the_plan_until_its_budget_is_spent(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("month", 100))
    await funds.grant(account)
    await coupon(books, funds, account, 1_000_000)

    assert [await spend(books, account) for _ in range(3)] == ["coupon", "coupon", "plan"]
    (left,) = (await funds.of(account)).coupons
    assert (left.used_micro_idr, await funds.used(account)) == (2 * COST, {"month": COST})


async def test_without_a_plan_a_spent_coupon_is_followed_as_an_ended_plan(
    books: Books, funds: Funds, account: str
) -> None:
    await books.credit(account, 50_000_000)
    await coupon(books, funds, account, 1)
    assert await spend(books, account) == "coupon"

    assert await spend(books, account) == "payg"
    await funds.settings.choose(account, Choice(free_fallback=True))
    assert isinstance(await books.reserve(reserve(account)), Redirected)
    assert await spend(books, account, model="other") == "payg"


async def test_a_coupon_opens_a_subscriber_model_it_lists(books: Books, funds: Funds, account: str) -> None:
    await coupon(books, funds, account)

    assert await spend(books, account, subscribers_only=True) == "coupon"
    barred = await books.reserve(reserve(account, subscribers_only=True, model="other"))
    assert isinstance(barred, Denied)
    assert barred.code == "subscribers_only"


async def test_a_coupon_given_twice_under_one_key_is_one(books: Books, funds: Funds, account: str) -> None:
    ends = 4 * 10**12
    first = await coupon(books, funds, account, key="once", ends_ms=ends)
    again = await coupon(books, funds, account, key="once", ends_ms=ends)

    assert first == again
    assert len((await funds.of(account)).coupons) == 1
    with pytest.raises(RefusedError, match="something else"):
        await coupon(books, funds, account, key="once", ends_ms=ends, name="Other")
    with pytest.raises(InvalidCallError):
        await coupon(books, funds, account, models=[])


async def test_tokens_pay_after_coupons_and_before_the_plan(books: Books, funds: Funds, account: str) -> None:
    await funds.plan(**amount("month", 100))
    await funds.grant(account)
    ends = 4 * 10**12
    await funds.subscriptions.grant_tokens(account, "t", [], 300, ends)
    await coupon(books, funds, account, 1)

    kinds = [await spend(books, account) for _ in range(4)]

    # 150 tokens a request: the second request on it crosses the end of the allocation.
    assert kinds == ["coupon", "token_alloc", "token_alloc", "plan"]
    (left,) = (await funds.of(account)).token_allocations
    assert (left.tokens, left.used) == (300, 300)


@pytest.mark.rule("BILL-053", "BILL-054", "BILL-063")
@pytest.mark.parametrize(
    ("endpoint", "asked", "used", "cost"),
    [
        ("images", {"units": 3}, {"units": 2}, 2 * 1_500),
        ("images", {"units": 3}, {"units": 9}, 3 * 1_500),
        ("speech", {"units": 2}, {"units": 2}, 2 * 1_500),
        ("transcriptions", {"units": 60}, {"units": 31}, 31 * 1_500),
        ("music", {"units": 1}, {"units": 1}, 1_500),
        ("ocr", {"units": 4}, {"units": 0}, 0),
        ("embeddings", {"input_tokens": 250_000}, {"prompt_tokens": 9}, 1),
        ("rerank", {"input_tokens": 500_000}, {"prompt_tokens": 9}, 2),
        ("moderations", {"input_tokens": 250_001}, {"prompt_tokens": 9}, 1.000004),
        ("systemone", {"input_tokens": 500_000}, {"prompt_tokens": 250_000}, 1),
        ("systemone", {"input_tokens": 250_000}, {"prompt_tokens": 900_000}, 1),
    ],
)
async def test_other_endpoints_are_paid_by_their_unit_from_the_balance_never_above_their_hold(
    books: Books, funds: Funds, account: str, endpoint: str, asked: dict[str, int], used: dict[str, int], cost: float
) -> None:
    await funds.plan(**amount("month", 100))
    await funds.grant(account)
    await books.credit(account, 10**12)
    call = reserve(account, endpoint=endpoint, price=UNIT, max_tokens=0, **asked)
    granted = await books.granted(call)
    settled = await books.settle(settle(call, granted.descriptor, completion=0, **used))

    assert granted.billing_kind == "payg"
    assert settled.cost == round(cost * RUPIAH) <= granted.hold
    assert (await books.balance(account)).balance == 10**12 - settled.cost


@pytest.mark.rule("BILL-065")
async def test_a_non_chat_request_is_not_lowered(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 4_000 * RUPIAH)
    refused = await books.reserve(reserve(account, endpoint="images", price=UNIT, max_tokens=0, units=3))
    assert isinstance(refused, Denied)
    assert refused.code == "insufficient_balance"


@pytest.mark.rule("SUB-051", "SUB-052", "SUB-053", "SUB-054")
async def test_the_plans_allowance_pays_for_searches_and_fetches_that_succeed(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(daily_searches=2, **amount("month", 1))
    await funds.grant(account)
    await books.credit(account, 10_000 * RUPIAH)

    async def search(endpoint: str, *, works: bool = True) -> str:
        call = reserve(account, endpoint=endpoint, price=UNIT, max_tokens=0, units=1, model=endpoint, line=1)
        granted = await books.granted(call)
        if works:
            ended = settle(call, granted.descriptor, completion=0, units=1, billing_kind=granted.billing_kind)
            await books.settle(ended)
        else:
            await books.release(call)
        return granted.billing_kind

    assert await search("x_search") == "payg"
    assert await search("web_search", works=False) == "plan"
    kinds = [await search(one) for one in ("web_search", "page_fetch", "web_search", "page_fetch")]
    assert kinds == ["plan", "plan", "payg", "payg"]
    sub = (await funds.of(account)).subscription
    assert (sub.searches_used, sub.windows[0].used_micro_idr) == (2, 0)
    assert (await books.balance(account)).balance == (10_000 - 3 * 1_500) * RUPIAH

    await books.admin.execute("update search_allowance set day = day - 1")
    await books.admin.execute("update hold set allowance_day = allowance_day - 1 where allowance_day is not null")
    assert await search("web_search") == "plan"


@pytest.mark.rule("BILL-025", "BILL-026")
async def test_a_flat_fee_does_not_cross_the_payg_limit(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 10_000 * RUPIAH)
    await funds.settings.choose(account, Choice(payg_limit=(2_000 * RUPIAH, "month")))
    fee = reserve(account, endpoint="x_search", price=UNIT, max_tokens=0, units=1, model="x")
    granted = await books.granted(fee)
    await books.settle(settle(fee, granted.descriptor, completion=0, units=1))

    refused = await books.reserve(reserve(account, endpoint="x_search", price=UNIT, max_tokens=0, units=1, model="x"))

    assert isinstance(refused, Denied)
    assert refused.code == "payg_limit_reached"
    # A request that is not a flat fee may cross it, and completes.
    assert await spend(books, account) == "payg"


async def job(books: Books, account: str, **more: Any) -> tuple[Any, Any]:
    call = reserve(
        account, endpoint="videos", price=UNIT, max_tokens=0, units=8, model="film", on_acceptance=True, **more
    )
    return call, await books.reserve(call)


@pytest.mark.rule("BILL-021")
async def test_a_job_is_paid_when_accepted_and_earned_when_done(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 20_000 * RUPIAH)
    await funds.settings.choose(account, Choice(payg_limit=(15_000 * RUPIAH, "day")))
    call, charged = await job(books, account)
    again = await books.reserve(call)

    assert isinstance(charged, Charged)
    assert (charged.cost, charged.available) == (12_000 * RUPIAH, 8_000 * RUPIAH)
    assert isinstance(again, Charged)
    assert (again.cost, again.duplicate) == (12_000 * RUPIAH, True)
    assert (await funds.of(account)).payg_spent_micro_idr == 12_000 * RUPIAH
    assert await books.count("usage_row") == 0
    await books.assert_sound()

    done = Complete(call.request_id, 0, account, "Maker")
    assert [(await funds.charges.complete(done)).duplicate for _ in range(2)] == [False, True]
    row = await books.admin.fetchrow("select cost, units, billing_kind, vendor from usage_row")
    assert tuple(row) == (12_000 * RUPIAH, 8, "payg", "Maker")
    with pytest.raises(RefusedError, match="settled"):
        await funds.charges.refund(Refund(call.request_id, 0, account, "failed"))


async def test_a_job_that_came_to_nothing_gives_back_what_it_took_as_if_never_spent(
    books: Books, funds: Funds, account: str
) -> None:
    await books.credit(account, 10_000 * RUPIAH)
    await books.credit(account, 5_000 * RUPIAH, kind="bonus")
    await funds.settings.choose(account, Choice(payg_limit=(12_000 * RUPIAH, "day")))
    await funds.settings.cap_member(account, "person_1", 12_000 * RUPIAH)
    call, charged = await job(books, account, member_id="person_1")
    assert isinstance(charged, Charged)
    assert isinstance(await books.reserve(reserve(account)), Denied)

    refund = Refund(call.request_id, 0, account, "expired")
    assert [(await funds.charges.refund(refund)).duplicate for _ in range(2)] == [False, True]

    wallet = await books.admin.fetchrow("select paid, bonus, payg_cum from wallet")
    assert tuple(wallet) == (10_000 * RUPIAH, 5_000 * RUPIAH, 0)
    assert (await funds.of(account)).member_caps[0].spent_micro_idr == 0
    row = await books.admin.fetchrow("select cost, catalog, outcome from usage_row")
    assert tuple(row) == (0, 0, "expired")
    assert [one.amount_micro_idr for one in await told(books, RefundTold)] == [12_000 * RUPIAH]
    assert await spend(books, account, member_id="person_1") == "payg"


async def test_only_accepted_jobs_end(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 10**12)
    call = reserve(account)
    await books.granted(call)
    for wrong in (call.request_id, uuid7_hex()):
        with pytest.raises(RefusedError):
            await funds.charges.complete(Complete(wrong, 0, account, ""))
    with pytest.raises(RefusedError):
        await funds.charges.refund(Refund(call.request_id, 0, "acct_other", "failed"))
    with pytest.raises(InvalidCallError):
        await funds.charges.refund(Refund(call.request_id, 0, account, "regret"))
