"""Reservations on the real books: what fits, what is lowered, what is refused, and what a retry gets."""

import asyncio
import time
from typing import Any

import pytest

from libs.core.ids import uuid7_hex
from libs.core.pricing import Price
from services.ledger.domain.calls import Denied, NotDoneError, RefusedError
from services.ledger.job import AwaitedJob
from tests.service.ledger.conftest import PRICE, Books, opened, reserve, settle
from tests.support.stack import Postgres

HOLD = 4_200_000


@pytest.mark.rule("BILL-029", "ACC-013")
async def test_a_granted_request_holds_its_worst_case(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)

    granted = await books.granted(reserve(account))

    assert (granted.hold, granted.max_tokens, granted.lowered) == (HOLD, 500, False)
    assert granted.billing_kind == "payg"
    balance = await books.balance(account)
    assert (balance.balance, balance.reserved, balance.available) == (10_000_000, HOLD, 10_000_000 - HOLD)
    assert granted.available == balance.available


@pytest.mark.rule("ACC-015")
async def test_holds_of_running_requests_add_up(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)

    await books.granted(reserve(account))
    await books.granted(reserve(account))

    assert (await books.balance(account)).reserved == 2 * HOLD


async def test_an_account_nobody_heard_of_has_no_money(books: Books, account: str) -> None:
    denied = await books.reserve(reserve(account))

    assert isinstance(denied, Denied)
    assert (denied.status, denied.code, denied.available) == (402, "insufficient_balance", 0)
    assert await books.count("wallet") == 0


async def test_the_refusal_names_what_is_there_and_what_it_can_cost(books: Books, account: str) -> None:
    # Rp 3.9 are there, shown rounded down; Rp 4.2 are needed, shown rounded up.
    await books.credit(account, 3_900_000)

    denied = await books.reserve(reserve(account))

    assert isinstance(denied, Denied)
    assert (denied.available, denied.worst_case) == (3_900_000, HOLD)
    assert "Rp 3 is available" in denied.message
    assert "Rp 5 (the estimated input plus max_tokens at the output price)" in denied.message
    assert "https://kenari.id/pay" in denied.message


async def test_a_request_below_the_floor_is_never_lowered(books: Books, account: str) -> None:
    await books.credit(account, 100 * 2_000 + 1_023 * 8_000)

    assert isinstance(await books.reserve(reserve(account, max_tokens=1_024)), Denied)
    assert (await books.granted(reserve(account, max_tokens=1_023))).max_tokens == 1_023


@pytest.mark.rule("BILL-034")
@pytest.mark.parametrize("spare", [0, 1, 7_999])
async def test_max_tokens_is_lowered_to_the_most_the_balance_pays(books: Books, account: str, spare: int) -> None:
    await books.credit(account, 100 * 2_000 + 2_000 * 8_000 + spare)

    granted = await books.granted(reserve(account, max_tokens=65_536))

    assert (granted.max_tokens, granted.lowered) == (2_000, True)
    assert granted.available == spare


async def test_below_1024_affordable_tokens_the_request_is_refused(books: Books, account: str) -> None:
    await books.credit(account, 100 * 2_000 + 1_024 * 8_000 - 1)
    assert isinstance(await books.reserve(reserve(account, max_tokens=65_536)), Denied)

    await books.credit(account, 1)
    assert (await books.granted(reserve(account, max_tokens=65_536))).max_tokens == 1_024


@pytest.mark.rule("BILL-031")
async def test_of_parallel_requests_only_as_many_run_as_fit(books: Books, account: str) -> None:
    await books.credit(account, 10 * HOLD + HOLD - 1)

    answers = await asyncio.gather(*(books.reserve(reserve(account)) for _ in range(64)))

    assert sum(not isinstance(answer, Denied) for answer in answers) == 10
    assert (await books.balance(account)).reserved == 10 * HOLD


async def test_a_retry_gets_the_same_hold(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account, max_tokens=65_536)

    first = await books.granted(call)
    again = await books.granted(call)

    assert again == first
    assert await books.count("hold") == 1


async def test_other_content_under_the_same_id_is_refused(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account)
    await books.granted(call)

    with pytest.raises(RefusedError) as refused:
        await books.reserve(reserve(account, request_id=call.request_id, max_tokens=501))

    assert refused.value.reason == "other_content"


async def test_another_accounts_id_is_refused(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await books.credit("acct_other", 100_000_000)
    call = reserve(account)
    await books.granted(call)

    with pytest.raises(RefusedError) as refused:
        await books.reserve(reserve("acct_other", request_id=call.request_id))

    assert refused.value.reason == "other_content"
    assert (await books.balance("acct_other")).reserved == 0


@pytest.mark.parametrize("how", ["settled", "released"])
async def test_a_finished_id_is_not_held_again(books: Books, account: str, how: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    if how == "settled":
        await books.settle(settle(call, granted.descriptor))
    else:
        await books.release(call)

    with pytest.raises(RefusedError) as refused:
        await books.reserve(call)

    assert refused.value.reason == "already_finished"


@pytest.mark.parametrize("minutes", [-6, 6])
async def test_an_id_far_from_the_databases_clock_is_refused(books: Books, account: str, minutes: int) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account, request_id=uuid7_at(int(time.time() * 1000) + minutes * 60_000))

    with pytest.raises(RefusedError) as refused:
        await books.reserve(call)

    assert refused.value.reason == "request_id_time"


@pytest.mark.parametrize("wrong", [{"request_id": "0" * 32}, {"request_id": "x"}, {"line": -1}, {"max_tokens": 0}])
async def test_a_malformed_call_never_reaches_the_books(books: Books, account: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        await books.reserve(reserve(account, **wrong))

    assert refused.value.reason == "invalid"


async def test_an_amount_beyond_the_books_spares_the_rest_of_its_batch(books: Books, account: str) -> None:
    books.router.prices["v-huge"] = Price("v-huge", 2**62, 2**62)
    await books.credit(account, 100_000_000)
    huge = reserve(account, input_tokens=2**31 - 1, max_tokens=2**31 - 1, price=books.router.prices["v-huge"])

    answers = await asyncio.gather(books.reserve(huge), books.reserve(reserve(account)), return_exceptions=True)

    assert isinstance(answers[0], RefusedError)
    assert not isinstance(answers[1], BaseException)


async def test_a_price_nobody_knows_is_no_answer_yet(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)

    with pytest.raises(NotDoneError) as failed:
        await books.reserve(reserve(account, price=Price("v-unheard", 1, 1)))

    assert failed.value.reason == "unknown_price"


async def test_a_price_is_asked_for_once_and_kept(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)

    await asyncio.gather(*(books.granted(reserve(account)) for _ in range(20)))

    assert books.router.asked == 1
    assert await books.count("price_version") == 1


async def test_a_call_nobody_waits_for_is_dropped_before_the_database(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await books.granted(reserve(account))
    late = AwaitedJob(reserve(account))
    late.answer.cancel()

    books.ledger.submit(late)
    await books.granted(reserve(account))

    assert await books.count("hold") == 2


async def test_an_account_with_too_many_waiting_is_shed(postgres: Postgres, dsn: str, account: str) -> None:
    async with opened(postgres, dsn, queue={"per_account": 5, "shards": 1}) as books:
        await books.credit(account, 100_000_000)
        await books.credit("acct_calm", 100_000_000)
        await books.prices.load(PRICE.version)

        answers = await asyncio.gather(
            *(books.reserve(reserve(account)) for _ in range(8)),
            books.reserve(reserve("acct_calm")),
            return_exceptions=True,
        )

        shed = [answer for answer in answers if isinstance(answer, NotDoneError)]
        assert [error.reason for error in shed] == ["overloaded"] * 3
        assert not isinstance(answers[-1], BaseException)


async def test_a_release_takes_out_a_reservation_that_still_waits(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await books.prices.load(PRICE.version)
    call = reserve(account)
    waiting = AwaitedJob(call)

    books.ledger.submit(waiting)
    released = await books.release(call)

    assert not released
    with pytest.raises(NotDoneError):
        await waiting.answer
    assert await books.count("hold") == 0


def uuid7_at(unix_ms: int) -> str:
    """A request id of another time than now."""
    return f"{unix_ms:012x}{uuid7_hex()[12:]}"
