"""The PAYG spend limit inside the one decision: rolling, on posted money, the crossing request completes."""

import pytest

from services.ledger.domain.calls import Denied
from tests.service.ledger.conftest import Books, reserve, settle

COST = 600_000


async def _limit(books: Books, account: str, amount: int, window: str = "24 hours") -> None:
    await books.admin.execute(
        f"update wallet set payg_limit = $2, payg_window = interval '{window}' where account_id = $1", account, amount
    )


async def _spend(books: Books, account: str) -> None:
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))


async def _pass(books: Books, interval: str) -> None:
    """Let time pass: all spend so far lies further back."""
    await books.admin.execute(
        f"update spend_mark set minute = minute - extract(epoch from interval '{interval}')::bigint / 60"
    )
    await books.admin.execute("update wallet set mark_minute = 0")


@pytest.mark.rule("BILL-025")
async def test_the_request_that_crosses_the_limit_completes_and_the_next_is_refused(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await _limit(books, account, COST + 1)

    await _spend(books, account)
    await _spend(books, account)
    denied = await books.reserve(reserve(account))

    assert isinstance(denied, Denied)
    assert (denied.status, denied.code) == (402, "payg_limit_reached")


async def test_spend_exactly_at_the_limit_refuses(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await _limit(books, account, COST)
    await _spend(books, account)

    assert isinstance(await books.reserve(reserve(account)), Denied)


@pytest.mark.rule("BILL-019", "BILL-027")
@pytest.mark.parametrize("window", ["24 hours", "30 days"])
async def test_spend_leaves_the_window_by_itself(books: Books, account: str, window: str) -> None:
    await books.credit(account, 100_000_000)
    await _limit(books, account, COST, window)
    await _spend(books, account)
    await _pass(books, f"{window}' - interval '2 minutes")
    assert isinstance(await books.reserve(reserve(account)), Denied)

    await _pass(books, "4 minutes")

    await _spend(books, account)
    assert isinstance(await books.reserve(reserve(account)), Denied)


async def test_free_use_does_not_count(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await _limit(books, account, COST)

    await books.settle(settle(reserve(account), billing_kind="free"))

    await _spend(books, account)


async def test_the_limit_comes_before_the_balance(books: Books, account: str) -> None:
    await books.credit(account, 4_200_000)
    await _limit(books, account, 0)

    denied = await books.reserve(reserve(account, max_tokens=1_000_000))

    assert isinstance(denied, Denied)
    assert denied.code == "payg_limit_reached"
