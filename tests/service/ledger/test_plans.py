"""Plans in the books: quota windows, what follows when they are spent, buying, renewing, upgrading, starting anew."""

import asyncio

import pytest

from libs.events.ledger import AccountState, AlertRaised, PlanChanged
from services.ledger.domain.calls import Denied, Redirected, RefusedError
from services.ledger.funding_settings import Choice
from tests.service.ledger.conftest import Books, opened, reserve, settle
from tests.service.ledger.funding import DAY_MS, RUPIAH, Funds, amount, spend, told
from tests.support.stack import Postgres

COST = 600_000
"""100 tokens in, 50 out."""


@pytest.fixture
def funds(books: Books) -> Funds:
    return Funds(books)


@pytest.mark.rule("SUB-001", "SUB-003", "BILL-037")
async def test_a_covered_model_draws_on_every_window_and_not_on_the_balance(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("five_hour", 10), **amount("month", 100))
    await books.credit(account, 5_000_000)
    await funds.grant(account)

    assert await spend(books, account) == "plan"
    assert await spend(books, account, completion=100) == "plan"

    assert await funds.used(account) == {"five_hour": COST + 1_000_000, "month": COST + 1_000_000}
    assert (await books.balance(account)).balance == 5_000_000
    assert await books.admin.fetchval("select sum(catalog) from usage_row") == COST + 1_000_000
    assert await books.admin.fetchval("select sum(cost) from usage_row") == 0


@pytest.mark.rule("SUB-004", "SUB-005", "SUB-040")
async def test_one_spent_window_is_enough_to_stop_and_the_request_that_crosses_completes(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("five_hour", 1), **amount("month", 100))
    await books.credit(account, 50_000_000)
    await funds.grant(account)

    assert [await spend(books, account) for _ in range(2)] == ["plan", "plan"]
    refused = await books.reserve(reserve(account))

    assert isinstance(refused, Denied)
    assert (refused.status, refused.code) == (429, "plan_limit_reached")
    assert await funds.used(account) == {"five_hour": 2 * COST, "month": 2 * COST}

    await funds.later(account, 5 * 3_600_000)
    assert await spend(books, account) == "plan"
    assert await funds.used(account) == {"five_hour": COST, "month": 3 * COST}


async def test_requests_under_way_count_as_what_they_are_believed_to_cost(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("week", 1))
    await funds.grant(account)

    # 100 tokens in, at most 4,096 out are believed: the first alone is above the ceiling.
    await books.granted(reserve(account, max_tokens=60_000))
    refused = await books.reserve(reserve(account))

    assert isinstance(refused, Denied)
    assert await books.admin.fetchval("select reserved from plan_window") == 200_000 + 4_096 * 8_000


@pytest.mark.rule("SUB-006", "SUB-007")
async def test_what_was_admitted_in_a_window_is_booked_on_it_whenever_it_ends(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("five_hour", 10))
    await funds.grant(account)
    call = reserve(account)
    granted = await books.granted(call)

    await funds.later(account, 5 * 3_600_000)
    await books.settle(settle(call, granted.descriptor, billing_kind="plan"))

    assert await funds.used(account) == {"five_hour": 0}
    assert await books.admin.fetchval("select used from plan_window where idx = 0") == COST
    assert await books.admin.fetchval("select sum(reserved) from plan_window") == 0


@pytest.mark.rule("SUB-036", "SUB-037", "SUB-038", "SUB-039")
@pytest.mark.parametrize(
    ("keep", "fallback", "kind"),
    [(True, False, "payg"), (True, True, "payg"), (False, True, "redirect"), (False, False, "denied")],
)
async def test_two_settings_say_what_follows_a_spent_window(
    books: Books, funds: Funds, account: str, keep: bool, fallback: bool, kind: str
) -> None:
    await funds.plan(**amount("month", 1))
    await books.credit(account, 50_000_000)
    await funds.grant(account)
    fresh = (await funds.of(account)).settings
    assert (fresh.keep_balance, fresh.free_fallback) == (False, False)
    await funds.settings.choose(account, Choice(keep_balance=keep, free_fallback=fallback))
    await spend(books, account, completion=200)

    answer = await books.reserve(reserve(account))

    refusals: dict[type, str] = {Denied: "denied", Redirected: "redirect"}
    assert (refusals.get(type(answer)) or answer.billing_kind) == kind


@pytest.mark.rule("SUB-011", "SUB-050", "SUB-058")
async def test_a_model_the_plan_does_not_list_is_paid_from_the_balance(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("month", 100))
    await books.credit(account, 50_000_000)
    await funds.grant(account)
    await funds.settings.choose(account, Choice(free_fallback=True))

    assert await spend(books, account, model="other") == "payg"


@pytest.mark.rule("SUB-043", "SUB-044", "SUB-045", "SUB-059")
async def test_after_its_end_a_plan_pays_for_nothing(books: Books, funds: Funds, account: str) -> None:
    await funds.plan(free_cache=["sim-1"], **amount("month", 100))
    await books.credit(account, 50_000_000)
    await funds.grant(account)
    await funds.later(account, 30 * DAY_MS)

    call = reserve(account)
    granted = await books.granted(call)
    settled = await books.settle(settle(call, granted.descriptor, cached_tokens=100))
    assert (granted.billing_kind, settled.cost, granted.plan_left) == ("payg", COST, None)

    await funds.settings.choose(account, Choice(free_fallback=True))
    assert isinstance(await books.reserve(reserve(account)), Redirected)
    assert await spend(books, account, model="other") == "payg"
    barred = await books.reserve(reserve(account, subscribers_only=True))
    assert isinstance(barred, Denied)
    assert (barred.status, barred.code) == (403, "subscribers_only")


@pytest.mark.rule("SUB-055", "SUB-056", "SUB-057", "SUB-060")
async def test_free_cache_spends_neither_quota_nor_the_balance_after_it(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(models=["sim-1", "plain"], free_cache=["sim-1"], **amount("month", 1))
    await books.credit(account, 50_000_000)
    await funds.grant(account)
    await funds.settings.choose(account, Choice(keep_balance=True))

    async def used(model: str) -> tuple[str, int, int]:
        call = reserve(account, model=model)
        granted = await books.granted(call)
        ended = settle(call, granted.descriptor, billing_kind=granted.billing_kind, cached_tokens=60)
        settled = await books.settle(ended)
        return granted.billing_kind, settled.cost, settled.catalog

    # 40 fresh tokens and 50 out are 480,000; the 60 cached ones were 120,000 more.
    assert await used("sim-1") == ("plan", 0, COST)
    assert (await funds.used(account))["month"] == COST - 120_000
    assert await used("plain") == ("plan", 0, COST)
    assert (await funds.used(account))["month"] == 2 * COST - 120_000
    assert await used("sim-1") == ("payg", COST - 120_000, COST)
    assert await used("plain") == ("payg", COST, COST)
    assert await books.admin.fetchval("select sum(cache_saved) from usage_row") == 240_000


@pytest.mark.rule("SUB-014", "SUB-015")
async def test_a_plan_is_bought_whole_or_not_at_all_and_once_for_a_key(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan()
    await books.credit(account, 99 * RUPIAH)
    with pytest.raises(RefusedError, match="balance"):
        await funds.buy(account)
    assert not (await funds.of(account)).HasField("subscription")
    await books.credit(account, 3 * RUPIAH, kind="bonus")

    first = await funds.buy(account)
    again = await funds.buy(account)

    assert (first.paid, first.balance, first.duplicate) == (100 * RUPIAH, 2 * RUPIAH, False)
    assert (again.paid, again.balance, again.duplicate) == (100 * RUPIAH, 2 * RUPIAH, True)
    with pytest.raises(RefusedError, match="something else"):
        await funds.buy(account, new_cycle=True)
    sub = (await funds.of(account)).subscription
    assert (sub.active, sub.source, sub.ends_at_ms - sub.started_at_ms) == (True, "paid", 30 * DAY_MS)
    # Bonus went first, and none of it is PAYG spending.
    wallet = await books.admin.fetchrow("select paid, bonus, payg_cum, paid_in_total from wallet")
    assert tuple(wallet) == (2 * RUPIAH, 0, 0, 99 * RUPIAH)
    (event,) = await told(books, PlanChanged)
    assert (event.change, event.paid_micro_idr) == ("started", 100 * RUPIAH)
    assert [state.plan for state in await told(books, AccountState)][-1] == "plan_a"


@pytest.mark.rule("SUB-008")
async def test_renewing_early_adds_days_and_leaves_the_windows(books: Books, funds: Funds, account: str) -> None:
    await funds.plan(**amount("month", 100))
    await books.credit(account, 300 * RUPIAH)
    await funds.buy(account)
    await spend(books, account)
    before = (await funds.of(account)).subscription

    await funds.buy(account, key="buy-2")

    after = (await funds.of(account)).subscription
    assert after.ends_at_ms == before.ends_at_ms + 30 * DAY_MS
    assert (after.started_at_ms, await funds.used(account)) == (before.started_at_ms, {"month": COST})


@pytest.mark.rule("SUB-009", "SUB-010")
async def test_an_upgrade_credits_the_days_left_and_starts_new_windows(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("month", 100))
    await funds.plan("plan_b", 250 * RUPIAH, **amount("month", 500))
    await books.credit(account, 400 * RUPIAH)
    await funds.buy(account)
    await spend(books, account)
    await funds.later(account, 15 * DAY_MS)

    bought = await funds.buy(account, "plan_b", key="up")

    # Half of the cycle, but for the moments the test itself took.
    assert 200 * RUPIAH <= bought.paid < 200 * RUPIAH + 10_000
    sub = (await funds.of(account)).subscription
    assert (sub.plan_id, sub.windows[0].used_micro_idr) == ("plan_b", 0)
    with pytest.raises(RefusedError, match="higher"):
        await funds.buy(account, "plan_a", key="down")


@pytest.mark.rule("SUB-027", "SUB-028", "SUB-029", "SUB-030", "SUB-031", "SUB-032")
async def test_a_new_cycle_costs_the_full_price_and_forfeits_the_days_left(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("week", 100))
    await books.credit(account, 250 * RUPIAH)
    await funds.buy(account)
    await spend(books, account)
    await funds.later(account, 3 * DAY_MS)

    bought = await funds.buy(account, key="anew", new_cycle=True)

    sub = (await funds.of(account)).subscription
    assert (bought.paid, sub.windows[0].used_micro_idr) == (100 * RUPIAH, 0)
    assert sub.ends_at_ms - sub.started_at_ms == 30 * DAY_MS
    with pytest.raises(RefusedError, match="balance"):
        await funds.buy(account, key="short", new_cycle=True)
    for source, restarts in (("trial", False), ("granted", False), ("gift", True)):
        other = f"{account}-{source}"
        await books.credit(other, 200 * RUPIAH)
        await funds.grant(other, source=source, key=source)
        if restarts:
            assert (await funds.buy(other, key=f"{source}-anew", new_cycle=True)).paid == 100 * RUPIAH
        else:
            with pytest.raises(RefusedError, match="paid plan"):
                await funds.buy(other, key=f"{source}-anew", new_cycle=True)
    await funds.plan(on_sale=False, **amount("week", 100))
    with pytest.raises(RefusedError, match="on sale"):
        await funds.buy(account, key="retired", new_cycle=True)


@pytest.mark.rule("SUB-021", "SUB-022", "SUB-023", "SUB-024", "SUB-025")
@pytest.mark.parametrize(
    ("balance", "renews", "on_sale", "change"),
    [
        (100, True, True, "auto_renewed"),
        (99, True, True, "auto_renew_failed"),
        (100, True, False, "auto_renew_failed"),
        (100, False, True, "lapsed"),
    ],
)
async def test_at_its_end_a_plan_renews_from_the_balance_whole_or_ends(
    books: Books, funds: Funds, account: str, balance: int, renews: bool, on_sale: bool, change: str
) -> None:
    await funds.plan(**amount("month", 100))
    await books.credit(account, (100 + balance) * RUPIAH)
    await funds.buy(account)
    await funds.subscriptions.set_auto_renew(account, on=renews)
    await funds.plan(on_sale=on_sale, **amount("month", 100))
    await funds.later(account, 30 * DAY_MS)
    before = (await funds.of(account)).subscription

    runs = [await funds.subscriptions.renew_due(100) for _ in range(2)]

    sub = (await funds.of(account)).subscription
    assert runs == [1, 0]
    assert [event.change for event in await told(books, PlanChanged)] == ["started", change]
    if change == "auto_renewed":
        assert (sub.active, sub.ends_at_ms) == (True, before.ends_at_ms + 30 * DAY_MS)
        assert (sub.started_at_ms, sub.auto_renew) == (before.started_at_ms, True)
        assert (await books.balance(account)).balance == 0
    else:
        assert (sub.active, sub.auto_renew) == (False, False)
        assert (await books.balance(account)).balance == balance * RUPIAH


async def test_racing_purchases_and_renewals_take_the_price_once(postgres: Postgres, dsn: str, account: str) -> None:
    async with opened(postgres, dsn) as books, opened(postgres, dsn) as other:
        one, two = Funds(books), Funds(other)
        await one.plan()
        await books.credit(account, 1_000 * RUPIAH)
        bought = await asyncio.gather(*(funds.buy(account) for funds in (one, two) for _ in range(8)))
        assert [done.duplicate for done in bought].count(False) == 1
        await one.subscriptions.set_auto_renew(account, on=True)
        await one.later(account, 30 * DAY_MS)
        await asyncio.gather(*(funds.subscriptions.renew_due(10) for funds in (one, two) for _ in range(4)))
        assert (await books.balance(account)).balance == 800 * RUPIAH
        await books.assert_sound()


async def test_quota_alerts_come_once_a_window(books: Books, funds: Funds, account: str) -> None:
    await funds.plan(**amount("five_hour", 1), **amount("week", 2), **amount("month", 100))
    await funds.grant(account)
    await funds.settings.choose(account, Choice(alert_pct=50, keep_balance=True))
    await books.credit(account, 50_000_000)

    for _ in range(4):
        await spend(books, account)
        await funds.later(account, 5 * 3_600_000)

    # 0.6, 1.2 (60 %), 1.8, 2.4 (above 2) of the week; nothing is told of five hours.
    alerts = [(one.kind, one.used_micro_idr) for one in await told(books, AlertRaised)]
    assert alerts == [("quota.week.warn", 1_200_000), ("quota.week.out", 2_400_000)]


async def test_a_settlement_whose_hold_was_lost_still_counts_on_the_plan(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(**amount("month", 100))
    await funds.grant(account)
    await spend(books, account)
    call = reserve(account)
    granted = await books.granted(call)
    # A failover forgot the reservation.
    await books.admin.execute("delete from hold where request_id = $1", call.request_id)
    await books.admin.execute("update plan_window set reserved = 0")

    ended = settle(call, granted.descriptor, billing_kind="plan")
    first, again = await books.settle(ended), await books.settle(ended)

    assert (first.catalog, first.duplicate, again.duplicate) == (COST, False, True)
    assert await funds.used(account) == {"month": 2 * COST}
