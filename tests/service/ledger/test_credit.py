"""Money coming in: once per key, on both sides of the books, and told."""

import asyncio

import pytest

from libs.core.money import Micros
from libs.db.errors import DatabaseAwayError
from libs.events.base import decode
from libs.events.ledger import AccountState, Credited
from services.ledger.domain.calls import Credit, InvalidCallError, RefusedError
from tests.service.ledger.conftest import Books, reserve, settle


async def test_a_top_up_is_booked_from_clearing_to_the_paid_bucket(books: Books, account: str) -> None:
    outcome = await books.ledger.credit(Credit(account, Micros(5), "key-1", "top_up", ""))

    assert (outcome.balance, outcome.duplicate) == (5, False)
    row = await books.admin.fetchrow("select kind, debit, credit, amount, account_id from transfer")
    assert tuple(row) == ("top_up", 20, 1, 5, account)
    wallet = await books.admin.fetchrow("select paid, bonus, paid_in_total from wallet")
    assert tuple(wallet) == (5, 0, 5)


async def test_a_bonus_is_not_money_from_outside(books: Books, account: str) -> None:
    await books.credit(account, 5, kind="bonus")

    wallet = await books.admin.fetchrow("select paid, bonus, paid_in_total from wallet")
    assert tuple(wallet) == (0, 5, 0)
    assert tuple(await books.admin.fetchrow("select debit, credit from transfer")) == (30, 2)


async def test_the_same_key_credits_once_and_answers_as_it_did(books: Books, account: str) -> None:
    call = Credit(account, Micros(5), "key-1", "top_up", "first")
    await books.ledger.credit(call)
    await books.credit(account, 7)

    again = await books.ledger.credit(Credit(account, Micros(5), "key-1", "top_up", "worded otherwise"))

    assert (again.balance, again.duplicate) == (5, True)
    assert (await books.balance(account)).balance == 12


async def test_the_same_key_at_once_credits_once(books: Books, account: str) -> None:
    call = Credit(account, Micros(5), "key-1", "top_up", "")

    outcomes = await asyncio.gather(*(books.ledger.credit(call) for _ in range(8)))

    assert sum(not outcome.duplicate for outcome in outcomes) == 1
    assert (await books.balance(account)).balance == 5


@pytest.mark.parametrize("other", [{"amount": Micros(6)}, {"kind": "bonus"}, {"account_id": "acct_other"}])
async def test_a_key_used_for_something_else_is_refused(books: Books, account: str, other: dict[str, object]) -> None:
    values = {"account_id": account, "amount": Micros(5), "idempotency_key": "key-1", "kind": "top_up", "note": ""}
    await books.ledger.credit(Credit(**values))  # type: ignore[arg-type]

    with pytest.raises(RefusedError) as refused:
        await books.ledger.credit(Credit(**(values | other)))  # type: ignore[arg-type]

    assert refused.value.reason == "already_exists"
    assert (await books.balance(account)).balance == 5
    assert await books.count("transfer") == 1


@pytest.mark.parametrize(("amount", "kind"), [(0, "top_up"), (-1, "top_up"), (2**62, "bonus"), (5, "gift")])
async def test_a_credit_that_makes_no_sense_is_refused(books: Books, account: str, amount: int, kind: str) -> None:
    with pytest.raises(InvalidCallError):
        await books.credit(account, amount, kind=kind)


async def test_a_credit_is_told_as_entry_and_as_state(books: Books, account: str) -> None:
    await books.credit(account, 5)
    await books.credit(account, 7, kind="bonus")

    rows = await books.admin.fetch("select topic, key, body from outbox order by id")
    assert [row["topic"] for row in rows] == ["ledger.entries.v1", "ledger.states.v1"] * 2
    assert {row["key"] for row in rows} == {account}
    credited = Credited.model_validate(decode(rows[2]["body"]).data)
    assert (credited.kind, credited.amount_micro_idr, credited.balance_micro_idr) == ("bonus", 7, 12)
    states = [AccountState.model_validate(decode(rows[n]["body"]).data) for n in (1, 3)]
    assert [(state.version, state.paid_in_total_micro_idr) for state in states] == [(1, 5), (2, 5)]


async def test_a_topic_that_lost_its_states_can_be_filled_again(books: Books, account: str) -> None:
    await books.credit(account, 5)

    states = [(key, decode(body)) async for key, body in books.store.states()]

    assert [(key, event.type, event.data["paid_in_total_micro_idr"]) for key, event in states] == [
        (account, AccountState.TYPE, 5)
    ]


async def test_a_credit_during_traffic_loses_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10**9)

    async def spend() -> None:
        for _ in range(20):
            call = reserve(account)
            granted = await books.granted(call)
            await books.settle(settle(call, granted.descriptor))

    async def top_up() -> None:
        for _ in range(10):
            try:
                await books.credit(account, 1_000)
            except DatabaseAwayError as error:
                pytest.fail(f"a credit waited too long: {error}")

    await asyncio.gather(spend(), spend(), top_up())

    assert (await books.balance(account)).balance == 10**9 + 10_000 - 40 * 600_000
