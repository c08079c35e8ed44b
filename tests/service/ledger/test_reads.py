"""What accounts may read: balance and usage log. Reading changes nothing."""

import pytest

from libs.core.ids import uuid7_hex
from services.ledger.domain.calls import InvalidCallError
from services.ledger.usage_reads import LogQuery
from tests.service.ledger.conftest import TABLES, Books, reserve, settle

NOW = 1_800_000_000


def query(account_id: str, **more: object) -> LogQuery:
    values: dict[str, object] = {
        "account_id": account_id,
        "start": NOW - 100,
        "end": NOW + 100,
        "model": "",
        "key_id": "",
        "billing_kind": "",
        "page": 0,
        "limit": 50,
    }
    return LogQuery(**(values | more))  # type: ignore[arg-type]


async def used(books: Books, account: str, at_s: int, **more: object) -> str:
    """A free request at that time in the log; return its id."""
    request_id = f"{at_s * 1000:012x}{uuid7_hex()[12:]}"
    call = reserve(account, request_id=request_id)
    await books.settle(settle(call, billing_kind="free", **more))  # type: ignore[arg-type]
    return request_id


@pytest.fixture
async def partitions(books: Books) -> None:
    await books.admin.execute("select make_partitions(to_timestamp($1)::date, to_timestamp($1)::date)", float(NOW))


async def test_an_account_nobody_heard_of_has_nothing(books: Books, account: str) -> None:
    balance = await books.balance(account)

    assert (balance.balance, balance.reserved, balance.available) == (0, 0, 0)


@pytest.mark.usefixtures("partitions")
async def test_both_ends_of_the_window_count(books: Books, account: str) -> None:
    inside = {await used(books, account, second) for second in (NOW - 100, NOW, NOW + 100)}
    await used(books, account, NOW - 101)
    await used(books, account, NOW + 101)

    page = await books.reads.usage.log(query(account))

    assert {row["request_id"].hex for row in page.rows} == inside
    assert page.total == 3


@pytest.mark.usefixtures("partitions")
async def test_pages_are_newest_first_and_give_every_row_once(books: Books, account: str) -> None:
    made = [await used(books, account, NOW + number // 3) for number in range(20)]

    pages = [await books.reads.usage.log(query(account, page=page, limit=7)) for page in range(4)]

    read = [row["request_id"].hex for page in pages for row in page.rows]
    assert sorted(read) == sorted(made)
    assert read == sorted(made, key=lambda request: (request[:12], request), reverse=True)
    assert [len(page.rows) for page in pages] == [7, 7, 6, 0]
    assert {page.total for page in pages} == {20}


@pytest.mark.usefixtures("partitions")
async def test_filters_combine(books: Books, account: str) -> None:
    await used(books, account, NOW, model="a", key_id="key_1")
    wanted = await used(books, account, NOW, model="b", key_id="key_1")
    await used(books, account, NOW, model="b", key_id="key_2")
    await used(books, "acct_other", NOW, model="b", key_id="key_1")

    page = await books.reads.usage.log(query(account, model="b", key_id="key_1", billing_kind="free"))

    assert [row["request_id"].hex for row in page.rows] == [wanted]
    assert (await books.reads.usage.log(query(account, model="B"))).total == 0
    assert (await books.reads.usage.log(query(account, billing_kind="payg"))).total == 0


@pytest.mark.parametrize("wrong", [{"page": 201, "limit": 50}, {"limit": 0}, {"limit": 201}, {"start": NOW, "end": 1}])
async def test_a_page_out_of_range_is_refused(books: Books, account: str, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidCallError):
        await books.reads.usage.log(query(account, **wrong))


async def test_the_deepest_page_is_served(books: Books, account: str) -> None:
    assert (await books.reads.usage.log(query(account, page=200, limit=50))).rows == []


@pytest.mark.rule("ACC-007", "USE-064")
async def test_reading_changes_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))
    before = [await books.admin.fetch(f"select * from {table}") for table in TABLES]

    await books.balance(account)
    await books.reads.usage.log(query(account))
    await books.reads.request(call.request_id)

    assert [await books.admin.fetch(f"select * from {table}") for table in TABLES] == before


@pytest.mark.rule("USE-026", "USE-024")
async def test_the_cost_in_the_log_is_what_left_the_balance(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))
    await books.settle(settle(reserve(account), billing_kind="free"))

    rows = await books.admin.fetch("select billing_kind, cost from usage_row order by billing_kind")

    assert [tuple(row) for row in rows] == [("free", 0), ("payg", 600_000)]
    assert 10_000_000 - (await books.balance(account)).balance == 600_000


async def test_everything_about_one_request(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor))

    said = await books.reads.request(call.request_id)

    assert [(row["state"], row["amount"], row["cost"]) for row in said.holds] == [("settled", 4_200_000, 600_000)]
    assert [row["cost"] for row in said.usage] == [600_000]
    assert [(row["debit"], row["credit"], row["amount"]) for row in said.transfers] == [(1, 10, 600_000)]
    nothing = await books.reads.request(uuid7_hex())
    assert (nothing.holds, nothing.usage, nothing.transfers) == ([], [], [])
