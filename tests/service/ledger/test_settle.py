"""Settlements and releases: what is charged, what stands when calls repeat or contradict each other."""

import asyncio

import pytest

from services.ledger.domain.calls import Denied, RefusedError
from tests.service.ledger.conftest import DEARER, PRICE, Books, opened, reserve, settle
from tests.support.stack import Postgres

HOLD = 4_200_000
COST = 600_000


@pytest.mark.rule("BILL-001", "BILL-032", "ACC-014")
async def test_the_actual_usage_is_charged_and_the_rest_given_back(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)

    settled = await books.settle(settle(call, granted.descriptor))

    assert (settled.cost, settled.catalog, settled.duplicate, settled.conflict) == (COST, COST, False, False)
    balance = await books.balance(account)
    assert (balance.balance, balance.reserved, settled.available) == (10_000_000 - COST, 0, 10_000_000 - COST)
    row = await books.admin.fetchrow("select * from usage_row")
    assert (row["billing_kind"], row["cost"], row["account_id"]) == ("payg", COST, account)


async def test_a_second_settlement_changes_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    first = await books.settle(settle(call, granted.descriptor))

    again = await books.settle(settle(call, granted.descriptor))

    assert (again.cost, again.catalog, again.duplicate, again.conflict) == (first.cost, first.catalog, True, False)
    assert await books.count("transfer where kind = 'usage'") == 1
    assert await books.count("outbox where topic = 'ledger.entries.v1'") == 2  # the credit and the settlement


async def test_the_same_settlement_twice_in_one_moment_is_one(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)

    answers = await asyncio.gather(*(books.settle(settle(call, granted.descriptor)) for _ in range(5)))

    assert sorted(answer.duplicate for answer in answers) == [False, True, True, True, True]


async def test_another_settlement_of_the_same_request_is_noted_and_does_not_count(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))

    other = await books.settle(settle(call, granted.descriptor, completion=51))

    assert (other.cost, other.conflict) == (COST, True)
    assert (await books.balance(account)).balance == 10_000_000 - COST
    noted = await books.admin.fetchrow("select * from settle_conflict")
    assert (noted["account_id"], noted["reason"], noted["cost"]) == (account, "settled", COST + 8_000)
    assert books.metric("kenari_ledger_conflicts_total") == 1


async def test_a_released_hold_is_free_again_and_cannot_be_settled(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)

    assert await books.release(call)
    assert await books.release(call)
    assert (await books.balance(account)).available == 10_000_000

    late = await books.settle(settle(call, granted.descriptor))
    assert (late.cost, late.conflict) == (0, True)
    assert (await books.balance(account)).balance == 10_000_000
    assert await books.count("usage_row") == 0


async def test_releasing_what_is_settled_or_unknown_does_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))

    assert not await books.release(call)
    assert not await books.release(reserve(account))
    assert (await books.balance(account)).balance == 10_000_000 - COST


@pytest.mark.rule("ACC-016")
async def test_usage_above_the_hold_is_charged_below_zero(books: Books, account: str) -> None:
    await books.credit(account, HOLD)
    call = reserve(account)
    granted = await books.granted(call)

    settled = await books.settle(settle(call, granted.descriptor, prompt=5_000, completion=500))

    balance = await books.balance(account)
    assert balance.balance == HOLD - 5_000 * 2_000 - 500 * 8_000 < 0
    assert (balance.available, settled.available) == (0, 0)
    assert isinstance(await books.reserve(reserve(account)), Denied)


@pytest.mark.rule("BILL-038", "BILL-040", "USE-054")
async def test_without_output_nothing_is_charged_but_the_request_is_in_the_log(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    refused = reserve(account, max_tokens=10_000_000, input_tokens=10_000_000)
    assert isinstance(await books.reserve(refused), Denied)

    settled = await books.settle(settle(call, granted.descriptor, completion=0))

    assert (settled.cost, settled.catalog) == (0, 0)
    assert (await books.balance(account)).available == 10_000_000
    rows = await books.admin.fetch("select request_id, prompt_tokens, cost from usage_row")
    assert [(row["request_id"].hex, row["prompt_tokens"], row["cost"]) for row in rows] == [(call.request_id, 100, 0)]
    assert await books.count("transfer where kind = 'usage'") == 0


async def test_an_interrupted_answer_is_free_unless_the_operator_wants_otherwise(
    postgres: Postgres, dsn: str, account: str
) -> None:
    for charged, cost in ((False, 0), (True, COST)):
        async with opened(postgres, dsn, charge_interrupted=charged) as books:
            await books.credit(account, 10_000_000)
            call = reserve(account)
            granted = await books.granted(call)

            settled = await books.settle(settle(call, granted.descriptor, outcome="interrupted"))

            assert settled.cost == cost
            assert (await books.balance(account)).reserved == 0
            await books.assert_sound()


@pytest.mark.rule("BILL-041", "BILL-042")
async def test_a_stream_the_client_closed_is_charged_for_what_was_delivered(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)

    settled = await books.settle(settle(call, granted.descriptor, outcome="client_closed", estimated=True))

    assert settled.cost == COST
    assert await books.admin.fetchval("select estimated from usage_row")


async def test_bonus_burns_before_paid_money(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    await books.credit(account, 900_000, kind="bonus")
    calls = [reserve(account, max_tokens=50) for _ in range(2)]
    grants = [await books.granted(call) for call in calls]

    for call, granted in zip(calls, grants, strict=True):
        await books.settle(settle(call, granted.descriptor))

    wallet = await books.admin.fetchrow("select * from wallet where account_id = $1", account)
    assert (wallet["bonus"], wallet["paid"]) == (0, 10_000_000 - 2 * COST + 900_000)
    legs = await books.admin.fetch("select debit, amount from transfer where kind = 'usage' order by request_id, seq")
    assert [tuple(leg) for leg in legs] == [(2, COST), (2, 300_000), (1, 300_000)]


async def test_the_price_of_admission_is_the_price_charged(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account, price=PRICE)
    granted = await books.granted(call)

    settled = await books.settle(settle(call, granted.descriptor, price_version=DEARER.version))

    assert settled.cost == COST


async def test_settlements_of_one_moment_over_many_accounts_stay_apart(books: Books) -> None:
    accounts = [f"acct_{number:03d}" for number in range(40)]
    for number, name in enumerate(accounts):
        await books.credit(name, 10_000_000 + number)
    calls = {name: reserve(name) for name in accounts}
    grants = dict(zip(accounts, await asyncio.gather(*(books.granted(calls[n]) for n in accounts)), strict=True))

    said = [settle(calls[name], grants[name].descriptor, completion=n) for n, name in enumerate(accounts, 1)]
    await asyncio.gather(*(books.settle(one) for one in said))

    for number, name in enumerate(accounts):
        balance = await books.balance(name)
        assert balance.balance == 10_000_000 + number - 200_000 - (number + 1) * 8_000
        assert balance.reserved == 0


async def test_a_lost_hold_is_rebuilt_from_its_signed_descriptor(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    # As after a failover to a copy that had not heard of the hold yet.
    await books.admin.execute("delete from hold")
    await books.admin.execute("update wallet set reserved = 0")

    settled = await books.settle(settle(call, granted.descriptor))
    again = await books.settle(settle(call, granted.descriptor))

    assert (settled.cost, again.duplicate) == (COST, True)
    balance = await books.balance(account)
    assert (balance.balance, balance.reserved) == (10_000_000 - COST, 0)


async def test_a_rebuilt_hold_makes_the_wallet_it_needs(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    for table in ("hold", "wallet", "idem"):
        await books.admin.execute(f"delete from {table}")
    await books.admin.execute("truncate transfer")

    await books.settle(settle(call, granted.descriptor))

    assert (await books.balance(account)).balance == -COST


@pytest.mark.parametrize("forged", ["", "bm90IG91cnM=", "other"])
async def test_without_a_hold_and_without_our_signature_nothing_is_charged(
    books: Books, account: str, forged: str
) -> None:
    await books.credit(account, 10_000_000)
    if forged == "other":
        forged = (await books.granted(reserve(account, max_tokens=1))).descriptor

    with pytest.raises(RefusedError) as refused:
        await books.settle(settle(reserve(account), forged))

    assert refused.value.reason == "unknown_hold"
    assert (await books.balance(account)).balance == 10_000_000


async def test_a_hold_is_settled_on_its_own_account_only(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    await books.credit("acct_other", 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)

    with pytest.raises(RefusedError) as refused:
        await books.settle(settle(call, granted.descriptor, account_id="acct_other"))

    assert refused.value.reason == "other_account"
    assert (await books.balance("acct_other")).balance == 10_000_000


@pytest.mark.rule("BILL-037", "USE-027")
async def test_a_free_request_needs_no_money_and_no_wallet(books: Books, account: str) -> None:
    call = reserve(account, model="sim-1:free")

    settled = await books.settle(settle(call, billing_kind="free"))

    assert (settled.cost, settled.catalog) == (0, COST)
    assert await books.count("wallet") == 0
    assert await books.count("hold") == 0
    row = await books.admin.fetchrow("select * from usage_row")
    assert (row["billing_kind"], row["cost"], row["catalog"]) == ("free", 0, COST)


async def test_free_requests_are_recorded_once_whoever_reports_them(postgres: Postgres, dsn: str, account: str) -> None:
    async with opened(postgres, dsn) as one, opened(postgres, one.dsn) as other:
        calls = [settle(reserve(account), billing_kind="free") for _ in range(100)]

        answers = await asyncio.gather(
            *(one.settle(call) for call in calls), *(other.settle(call) for call in reversed(calls))
        )

        assert await one.count("usage_row") == 100
        assert sum(not answer.duplicate for answer in answers) == 100
        assert await one.count("outbox") == 100
        await one.assert_sound()


async def test_a_free_request_reported_otherwise_is_a_conflict(books: Books, account: str) -> None:
    call = reserve(account)
    await books.settle(settle(call, billing_kind="free"))

    other = await books.settle(settle(call, billing_kind="free", completion=51))

    assert other.conflict
    assert await books.count("settle_conflict") == 1


async def test_several_lines_of_one_request_are_charged_each(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    first = reserve(account)
    second = reserve(account, request_id=first.request_id, line=1)
    grants = [await books.granted(call) for call in (first, second)]

    for call, granted in zip((first, second), grants, strict=True):
        await books.settle(settle(call, granted.descriptor))

    assert (await books.balance(account)).balance == 100_000_000 - 2 * COST
