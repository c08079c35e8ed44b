"""How long reads of usage take for an account with a million requests a month, beside other accounts' rows."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from libs.db.migrate import folders
from services.ledger import rollup
from services.ledger.usage_reads import LogQuery, UsageQuery
from tests.service.ledger.conftest import Books, opened
from tests.service.ledger.usage_rows import write_many
from tests.support.stack import Postgres

END = 1_800_003_600 - 1_800_003_600 % 3_600 + 1_234
DAY_S = 86_400
MONTH_S = 30 * DAY_S
YEAR_S = 365 * DAY_S

# What the design asks for on CI's machine, in milliseconds.
FIGURES = {"summary 30 d": 50, "summary 366 d": 200, "daily 366 d": 200, "log page 0": 20, "log page 200": 20}


async def median_ms(read: Callable[[], Awaitable[Any]]) -> float:
    """Of nine reads, the connection's plans being made."""
    took = []
    for _ in range(9):
        started = time.perf_counter()
        await read()
        took.append((time.perf_counter() - started) * 1000)
    return sorted(took)[4]


async def prepare(books: Books, account: str, rows: int, days: int) -> None:
    """A year of use: the last month as rows, the eleven before as sums only."""
    last = datetime.fromtimestamp(END, UTC).date()
    for number in range(days):
        day = last - number * timedelta(days=1)
        await books.admin.execute(
            f"create table if not exists usage_row_{day:%Y%m%d} partition of usage_row"
            f" for values from ('{day}') to ('{day + timedelta(days=1)}')"
        )
    await write_many(books.admin, account, rows, END - MONTH_S, END)
    await write_many(books.admin, f"{account}_other", rows // 10, END - MONTH_S, END)
    month = datetime.fromtimestamp(END - MONTH_S, UTC).date()
    await rollup.rebuild(books.database, month, last)
    for number in range(1, 13):
        await books.admin.execute(
            "insert into usage_sum select account_id, key_id, span, start - $1 * interval '30 days', model,"
            " billing_kind, requests, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cost,"
            " catalog from usage_sum where start >= to_timestamp($2)"
            " and start - $1 * interval '30 days' >= to_timestamp($3)"
            " on conflict do nothing",
            number,
            float(END - MONTH_S),
            float(END - YEAR_S),
        )
    await books.admin.execute("analyze usage_row")
    await books.admin.execute("vacuum analyze usage_sum")


async def measure(books: Books, account: str) -> dict[str, float]:
    usage = books.reads.usage

    def sums(seconds: int) -> UsageQuery:
        return UsageQuery(account_id=account, start=END - seconds, end=END)

    def page(number: int) -> LogQuery:
        return LogQuery(account_id=account, start=END - MONTH_S, end=END, page=number, limit=50)

    return {
        "summary 30 d": await median_ms(lambda: usage.summary(sums(MONTH_S))),
        "summary 366 d": await median_ms(lambda: usage.summary(sums(YEAR_S))),
        "daily 366 d": await median_ms(lambda: usage.daily(sums(YEAR_S))),
        "log page 0": await median_ms(lambda: usage.log(page(0))),
        "log page 200": await median_ms(lambda: usage.log(page(200))),
    }


@pytest.mark.parametrize(
    ("rows", "days", "slack"),
    [
        (5_000, 32, 10),
        # The figures are those of a machine that does nothing else.
        pytest.param(1_000_000, 367, 1, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
async def test_reads_of_a_year_are_quick(
    postgres: Postgres,
    account: str,
    rows: int,
    days: int,
    slack: int,
    record_property: Callable[[str, object], None],
) -> None:
    async with opened(postgres, await postgres.database(folders()["ledger"])) as books:
        await prepare(books, account, rows, days)

        took = await measure(books, account)

        for name, ms in took.items():
            record_property(name, ms)
        print(", ".join(f"{name} {ms:.1f} ms" for name, ms in took.items()))
        assert {name: ms for name, ms in took.items() if ms > FIGURES[name] * slack} == {}
