"""Sums of usage agree with the rows of the log at any moment: while rows come, late, and after a rebuild."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from libs.core.ids import uuid7_hex
from services.ledger import rollup
from services.ledger.domain.calls import InvalidCallError
from services.ledger.usage_reads import LogQuery, UsageQuery, window_bounds
from tests.service.ledger.conftest import Books, opened, reserve, settle
from tests.service.ledger.usage_rows import COUNTERS, row, write
from tests.support.stack import Postgres

# Noon of a day whose partitions, and those of its neighbours, are there.
NOON = int(datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0).timestamp())
MIDNIGHT = NOON - 43_200
DAY_S = 86_400
KINDS = ("payg", "plan", "coupon", "token_alloc", "free", "byok")


@pytest.fixture
async def books(postgres: Postgres, dsn: str) -> AsyncIterator[Books]:
    async with opened(postgres, dsn) as made:
        yield made
        await assert_summed(made)


async def assert_summed(books: Books) -> None:
    """Rows written without their money break other invariants, not that of the sums."""
    assert (await books.broken()).get("rollup", []) == []


def query(account: str, start: int = NOON - DAY_S, end: int = NOON + DAY_S, **more: str) -> UsageQuery:
    return UsageQuery(account_id=account, start=start, end=end, **more)


def figures(rows: Any) -> dict[tuple[str, str], tuple[int, ...]]:
    return {(one["model"], one["billing_kind"]): tuple(one[name] for name in COUNTERS) for one in rows}


def expected(rows: list[dict[str, Any]], asked: UsageQuery) -> dict[tuple[str, str], tuple[int, ...]]:
    """The same sums, added up one by one."""
    sums: dict[tuple[str, str], list[int]] = {}
    for one in matching(rows, asked):
        counters = sums.setdefault((one["model"], one["kind"]), [0] * 7)
        values = (1, one["prompt"], one["completion"], one["cached"], one["written"], one["cost"], one["catalog"])
        for position, value in enumerate(values):
            counters[position] += value
    return {pair: tuple(counters) for pair, counters in sums.items()}


def matching(rows: list[dict[str, Any]], asked: UsageQuery) -> list[dict[str, Any]]:
    return [
        one
        for one in rows
        if asked.start * 1000 <= one["ms"] < (asked.end + 1) * 1000
        and asked.model in ("", one["model"])
        and asked.key_id in ("", one["key"])
    ]


def some_rows(account: str, seed: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of three days, many of them at the edges of hours and days."""
    made = []
    for _ in range(count):
        at = NOON + seed.choice((0, 3_600, -3_600, 43_200, -43_200)) + seed.choice((-1, -0.001, 0, 0.999, 1))
        if seed.random() < 0.6:
            at = NOON + seed.randint(-DAY_S, DAY_S)
        kind = seed.choice(KINDS)
        made.append(
            row(
                account,
                at,
                key=seed.choice(("key_1", "key_2", "")),
                model=seed.choice(("a", "A", "b:free")),
                kind=kind,
                prompt=seed.randint(0, 9_999),
                cost=seed.randint(0, 10**12) if kind == "payg" else 0,
                catalog=seed.randint(0, 10**12),
            )
        )
    return made


@pytest.mark.rule(
    "USE-007", "USE-009", "USE-010", "USE-026", "USE-029", "USE-031", "USE-037", "USE-042", "USE-043", "USE-053",
    "USE-055",
)  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
async def test_sums_are_those_of_the_rows_whatever_is_summed_in_already(books: Books, seed: int) -> None:
    draw = random.Random(seed)
    account, other = f"acct_{uuid7_hex()}", f"acct_{uuid7_hex()}"
    rows: list[dict[str, Any]] = []
    for _ in range(5):
        fresh = some_rows(account, draw, 40)
        await write(books.admin, fresh + some_rows(other, draw, 10))
        rows += fresh
        if draw.random() < 0.6:
            await books.rollup.run()
        for _ in range(6):
            start = draw.choice((MIDNIGHT, NOON, NOON - DAY_S + draw.randint(0, DAY_S)))
            end = start + draw.choice((0, 59, 3_599, 3_600, draw.randint(0, DAY_S), DAY_S - 1, DAY_S))
            asked = query(
                account, start, end, model=draw.choice(("", "", "a", "b")), key_id=draw.choice(("", "", "key_1"))
            )
            await _agree(books, rows, asked)
    await assert_summed(books)


async def _agree(books: Books, rows: list[dict[str, Any]], asked: UsageQuery) -> None:
    want = expected(rows, asked)
    assert figures(await books.reads.usage.summary(asked)) == want
    daily = await books.reads.usage.daily(asked)
    days = Counter(datetime.fromtimestamp(one["ms"] / 1000, UTC).date().isoformat() for one in matching(rows, asked))
    assert {day.date: day.requests for day in daily if day.requests} == days
    assert sum(day.cost for day in daily) == sum(sums[5] for sums in want.values())
    page = LogQuery(
        account_id=asked.account_id,
        start=asked.start,
        end=asked.end,
        model=asked.model,
        key_id=asked.key_id,
        page=0,
        limit=200,
    )
    log = await books.reads.usage.log(page)
    assert log.total == sum(sums[0] for sums in want.values())
    if log.total <= 200:
        assert sum(one["cost"] for one in log.rows) == sum(sums[5] for sums in want.values())


@pytest.mark.rule("USE-033")
async def test_the_dearest_come_first_and_ties_have_an_order(books: Books, account: str) -> None:
    spent = {"z": (5, 5), "y": (9, 9), "x": (5, 7), "w": (5, 5)}
    await write(books.admin, [row(account, NOON, model=m, cost=c, catalog=v) for m, (c, v) in spent.items()])

    rows = await books.reads.usage.summary(query(account))

    assert [one["model"] for one in rows] == ["y", "x", "w", "z"]


@pytest.mark.rule("USE-023", "USE-024", "USE-027")
async def test_each_of_the_six_kinds_is_a_row_of_its_own(books: Books, account: str) -> None:
    await write(books.admin, [row(account, NOON, kind=k, cost=7 if k == "payg" else 0, catalog=7) for k in KINDS])
    await books.rollup.run()

    rows = await books.reads.usage.summary(query(account))

    assert {one["billing_kind"]: (one["requests"], one["cost"], one["catalog"]) for one in rows} == {
        kind: (1, 7 if kind == "payg" else 0, 7) for kind in KINDS
    }


@pytest.mark.rule("USE-039", "USE-040", "USE-041", "USE-038")
async def test_days_are_utc_and_without_gaps(books: Books, account: str) -> None:
    await write(books.admin, [row(account, MIDNIGHT - 0.001, cost=1), row(account, MIDNIGHT, cost=2)])
    first = MIDNIGHT - 2 * DAY_S

    for _ in range(2):
        days = await books.reads.usage.daily(query(account, first + 5, NOON))
        dates = [(datetime.fromtimestamp(first, UTC).date() + timedelta(days=n)).isoformat() for n in range(3)]
        assert [(day.date, day.requests, day.cost) for day in days] == [
            (dates[0], 0, 0),
            (dates[1], 1, 1),
            (dates[2], 1, 2),
        ]
        await books.rollup.run()


@pytest.mark.rule("USE-020", "USE-021")
async def test_sums_touch_at_most_366_days_and_the_log_any_number(books: Books, account: str) -> None:
    last = NOON - NOON % DAY_S
    assert len(await books.reads.usage.daily(query(account, last - 365 * DAY_S, last))) == 366
    assert await books.reads.usage.summary(query(account, last - 365 * DAY_S, last + DAY_S - 1)) == []
    for wrong in (query(account, last - 365 * DAY_S - 1, last), query(account, last - 365 * DAY_S, last + DAY_S)):
        with pytest.raises(InvalidCallError):
            await books.reads.usage.summary(wrong)
        with pytest.raises(InvalidCallError):
            await books.reads.usage.daily(wrong)
    log = await books.reads.usage.log(LogQuery(account_id=account, start=0, end=NOON, page=0, limit=1))
    assert (log.rows, log.total) == ([], 0)


@pytest.mark.rule("USE-034", "USE-046", "USE-049", "USE-050", "USE-052")
async def test_pages_of_any_kind_hold_each_row_once_while_others_come(books: Books, account: str) -> None:
    made = [row(account, NOON - 50 + max(0, n - 4), kind="plan", cost=0) for n in range(7)]
    await write(books.admin, [*made, row(account, NOON - 50, kind="free", cost=0)])

    read, totals = [], []
    for page in range(4):
        asked = LogQuery(
            account_id=account, start=NOON - 60, end=NOON - 40, billing_kind="plan", model="sim-1", page=page, limit=3
        )
        answer = await books.reads.usage.log(asked)
        read.append([one["request_id"].hex for one in answer.rows])
        totals.append(answer.total)
        await write(books.admin, [row(account, NOON)])
        await books.rollup.run()

    assert [len(page) for page in read] == [3, 3, 1, 0]
    assert sorted(itertools.chain(*read)) == sorted(one["request_id"] for one in made)
    assert totals == [7] * 4


async def test_one_row_by_its_id_and_only_its_owners(books: Books, account: str) -> None:
    mine = row(account, NOON, key="key_1")
    await write(books.admin, [mine])

    found = await books.reads.usage.row(account, "", mine["request_id"])

    assert found is not None
    assert (found["request_id"].hex, found["cost"]) == (mine["request_id"], 600_000)
    assert await books.reads.usage.row(account, "key_1", mine["request_id"]) is not None
    assert await books.reads.usage.row(account, "key_2", mine["request_id"]) is None
    assert await books.reads.usage.row("acct_other", "", mine["request_id"]) is None
    assert await books.reads.usage.row(account, "", uuid7_hex()) is None


@pytest.mark.rule("USE-054", "USE-035")
async def test_a_request_without_output_is_a_row_that_cost_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor, completion=0))
    released = reserve(account)
    await books.granted(released)
    await books.release(released)
    at = int(call.request_id[:12], 16) // 1000

    for _ in range(2):
        (summed,) = await books.reads.usage.summary(query(account, at - 60, at + 60))
        assert (summed["requests"], summed["prompt_tokens"], summed["cost"], summed["catalog"]) == (1, 100, 0, 0)
        await books.rollup.run()


async def test_a_settlement_counts_at_once_and_after_the_job(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account, request_id=f"{(NOON - 7_200) * 1000:012x}{uuid7_hex()[12:]}")
    await books.settle(settle(call, billing_kind="free"))
    want = {("sim-1", "free"): (1, 100, 50, 0, 0, 0, 600_000)}

    assert figures(await books.reads.usage.summary(query(account))) == want
    assert await books.count("usage_sum") == 0
    await books.rollup.run()

    # By hour and by day, of the key and of the account.
    assert await books.count("usage_sum") == 4
    assert figures(await books.reads.usage.summary(query(account))) == want
    assert figures(await books.reads.usage.summary(query(account, key_id="key_1"))) == want
    await books.rollup.run()
    assert figures(await books.reads.usage.summary(query(account))) == want


async def test_a_row_that_commits_late_is_not_passed_over(books: Books, postgres: Postgres, account: str) -> None:
    slow, quick = row(account, NOON - 7_200), row(account, NOON - 7_200)
    async with opened(postgres, books.dsn) as second:
        late = second.admin.transaction()
        # Its number comes after the other's, its id before: only a later transaction than both may be waited for.
        other = books.admin.transaction()
        await other.start()
        await books.admin.execute("select pg_current_xact_id()")
        await late.start()
        await write(second.admin, [slow])
        await write(books.admin, [quick])
        await other.commit()
        job = asyncio.create_task(books.rollup.run())
        await asyncio.sleep(0.2)
        assert not job.done()
        await late.commit()
        await asyncio.wait_for(job, 5)

    assert await books.count("usage_sum where key_id = '*' and requests = 2") == 2
    await assert_summed(books)


async def test_several_processes_and_a_rebuild_sum_each_row_once(
    books: Books, postgres: Postgres, account: str
) -> None:
    draw, rows = random.Random(7), []
    today = datetime.now(UTC).date()
    async with opened(postgres, books.dsn) as second:
        for _ in range(4):
            fresh = some_rows(account, draw, 30)
            rows += fresh
            await write(books.admin, fresh)
            await asyncio.gather(
                books.rollup.run(),
                second.rollup.run(),
                rollup.rebuild(books.database, today - timedelta(days=1), today),
                second.rollup.run(),
            )
            asked = query(account)
            assert figures(await books.reads.usage.summary(asked)) == expected(rows, asked)
            await assert_summed(books)


async def test_broken_sums_are_noticed_and_made_anew_by_the_command(
    books: Books, account: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(books.admin, some_rows(account, random.Random(1), 50))
    await books.rollup.run()
    await write(books.admin, some_rows(account, random.Random(2), 5))
    await books.admin.execute("update usage_sum set cost = cost + 1 where key_id = '*' and span = 'day'")
    await books.admin.execute("delete from usage_sum where span = 'hour' and key_id = 'key_1'")
    await books.admin.execute(
        "insert into usage_sum select account_id, key_id, span, start, 'ghost', 'payg', 1, 1, 1, 1, 1, 1, 1"
        " from usage_sum limit 1"
    )
    assert "rollup" in await books.broken()

    assert await asyncio.to_thread(rollup.main, ["--dsn", books.dsn]) == 0

    assert "sums made" in capsys.readouterr().out
    await assert_summed(books)


async def test_sums_go_with_the_rows_they_are_of(books: Books, account: str) -> None:
    await write(books.admin, [row(account, NOON - DAY_S), row(account, NOON)])
    await books.rollup.run()
    kept_from = datetime.fromtimestamp(MIDNIGHT, UTC).date()

    await rollup.forget(books.database, kept_from)

    assert await books.count("usage_sum") == 4
    await write(books.admin, [row(account, NOON - DAY_S)])
    await books.rollup.run()
    assert await books.count("usage_sum") == 4
    await assert_summed(books)
    await books.admin.execute("update usage_cursor set kept_from = '-infinity'")
    await rollup.rebuild(books.database, kept_from - timedelta(days=1), kept_from)


@pytest.mark.parametrize("start", range(0, 3 * DAY_S, 5_000))
def test_windows_are_cut_without_gap_or_overlap(start: int) -> None:
    for length in (1, 1_800, 3_599, 3_600, 7_201, DAY_S - 1, DAY_S, DAY_S + 1, 3 * DAY_S):
        bounds = window_bounds(start, start + length)
        assert (bounds[0], bounds[-1]) == (start, start + length)
        assert list(bounds) == sorted(bounds)
        whole_hours = [bounds[1], bounds[2], bounds[3], bounds[4]] if bounds[1] < bounds[4] else []
        assert [bound % 3_600 for bound in whole_hours] == [0] * len(whole_hours)
        if bounds[2] < bounds[3]:
            assert (bounds[2] % DAY_S, bounds[3] % DAY_S) == (0, 0)
        else:
            assert length < 2 * DAY_S
