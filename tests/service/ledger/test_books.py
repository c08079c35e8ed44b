"""What keeps the books honest: rights, constraints, events, partitions, closings, and invariants that notice."""

import asyncio
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from libs.events.base import decode
from libs.events.ledger import UsageSettled
from services.ledger import reconcile
from tests.service.ledger.conftest import Books, opened, reserve, settle
from tests.support.stack import Postgres


async def _some_history(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    await books.credit(account, 100_000, kind="bonus")
    for _ in range(3):
        call = reserve(account)
        granted = await books.granted(call)
        await books.settle(settle(call, granted.descriptor))
    await books.granted(reserve(account, max_tokens=1))
    await books.settle(settle(reserve(account), billing_kind="free"))


@pytest.mark.parametrize("table", ["transfer", "usage_row", "settle_conflict"])
@pytest.mark.parametrize("change", ["update {} set line = 1", "delete from {}", "truncate {}"])
async def test_the_services_role_cannot_change_entries(books: Books, table: str, change: str) -> None:
    async with books.database.connection() as conn:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute(change.format(table))


async def test_what_was_settled_is_told_in_the_same_transaction(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor, cached_tokens=40))

    row = await books.admin.fetchrow("select topic, key, body, traceparent from outbox order by id desc limit 1")

    event = decode(row["body"])
    told = UsageSettled.model_validate(event.data)
    assert (row["topic"], row["key"], row["traceparent"]) == ("ledger.entries.v1", account, "")
    assert (event.type, event.source, event.subject) == (UsageSettled.TYPE, "ledger", account)
    assert set(event.data) == set(UsageSettled.model_fields)
    assert (told.request_id, told.cached_tokens, told.cost_micro_idr) == (call.request_id, 40, 600_000)
    assert json.loads(row["body"])["time"].endswith("Z")


async def test_partitions_of_coming_days_are_made_once(books: Books) -> None:
    assert await books.store.make_partitions(7) == 0
    assert await books.store.make_partitions(9) == 8

    ahead = (datetime.now(UTC) + timedelta(days=9)).date()
    for table in ("hold", "transfer", "usage_row", "outbox"):
        assert await books.admin.fetchval("select to_regclass($1)", f"{table}_{ahead:%Y%m%d}") is not None
    for days in (8, 9):
        day = (datetime.now(UTC) + timedelta(days=days)).date()
        for table in ("hold", "transfer", "usage_row", "outbox"):
            await books.admin.execute(f"drop table {table}_{day:%Y%m%d}")


async def test_partitions_out_of_keeping_are_dropped(books: Books) -> None:
    await books.admin.execute("select make_partitions('2020-01-01', '2020-01-03')")
    await books.admin.execute("alter table hold_20200101 owner to current_user")
    for day in ("20200101", "20200102", "20200103"):
        for table in ("hold", "usage_row", "outbox", "transfer"):
            await books.admin.execute(f"alter table {table}_{day} owner to {books.dsn.rsplit('/', 1)[1]}")

    dropped = await books.store.drop_partitions("hold", date(2020, 1, 3))

    assert dropped == ["hold_20200101", "hold_20200102"]
    await books.jobs.tend_days()
    assert await books.admin.fetchval("select to_regclass('hold_20200103')") is None
    assert await books.admin.fetchval("select to_regclass('transfer_20200101')") is not None
    for day in ("20200101", "20200102", "20200103"):
        await books.admin.execute(f"drop table transfer_{day}")


async def test_a_row_without_a_partition_of_its_day_raises_the_alarm(books: Books, account: str) -> None:
    await books.settle(settle(reserve(account, request_id=f"{0:012x}7000800000000000{0:04x}"), billing_kind="free"))

    await books.jobs.measure()
    await books.jobs.check_quick()

    assert books.metric("kenari_ledger_partitions_default_rows", table="usage_row") == 1
    assert books.metric("kenari_ledger_invariants_broken", invariant="default_partitions") == 1
    await books.admin.execute("delete from usage_row_default")


async def test_closing_balances_carry_the_checks_over_midnight(books: Books, account: str) -> None:
    await _some_history(books, account)
    await books.admin.execute("select make_partitions(utc_day() - 2, utc_day() - 2)")
    await books.admin.execute(
        "update transfer set booked_at = booked_at - interval '2 days', day = day - 2 where kind <> 'usage'"
    )
    # A late settlement: the day inside its id is before the day of its booking.
    await books.admin.execute(
        "update transfer set booked_at = booked_at - interval '1 day' where (request_id, seq) ="
        " (select request_id, seq from transfer where kind = 'usage' order by 1, 2 limit 1)"
    )

    closed = await books.store.close_days()

    assert closed == 2
    rows = await books.admin.fetch("select paid, bonus from balance_day order by day")
    assert [tuple(row) for row in rows] == [(10_000_000, 100_000), (10_000_000, 0)]
    assert await books.store.close_days() == 0
    await books.assert_sound()


BREAKS = {
    "reserved": "update wallet set reserved = reserved + 1",
    "overdue": "update hold set expires_at = now() - interval '1 minute' where state = 'open'",
    "entries": "update wallet set paid = paid + 1",
    "spend": "update wallet set payg_cum = payg_cum + 1",
    "marks": "update spend_mark set cum_before = 10000000",
    "settled_once": "update hold set state = 'expired', cost = null where state = 'settled'",
    "charged": "update transfer set amount = amount + 1 where kind = 'usage'",
    "direction": "update transfer set debit = 10, credit = 1 where kind = 'usage'",
    "credits": "delete from idem",
}


@pytest.mark.parametrize("name", BREAKS)
async def test_a_break_in_the_books_is_noticed(postgres: Postgres, dsn: str, account: str, name: str) -> None:
    async with opened(postgres, dsn) as books:
        await _some_history(books, account)
        await books.assert_sound()

        await books.admin.execute(BREAKS[name])

        assert name in await books.broken()
        await books.jobs.check_all()
        assert books.metric("kenari_ledger_invariants_broken", invariant=name) > 0


async def test_reconcile_prints_each_invariant_and_what_breaks_it(
    postgres: Postgres, dsn: str, account: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(postgres, dsn) as books:
        await _some_history(books, account)
        assert await asyncio.to_thread(reconcile.main, ["--dsn", dsn]) == 0
        assert "BROKEN" not in capsys.readouterr().out

        await books.admin.execute("update wallet set paid = paid + 1")

        assert await asyncio.to_thread(reconcile.main, ["--dsn", dsn]) == 1
        printed = capsys.readouterr().out
        assert "BROKEN  entries" in printed
        assert f"account_id={account}" in printed
        assert "OK      reserved" in printed


async def test_wallets_cannot_be_held_beyond_sense(books: Books, account: str) -> None:
    await books.credit(account, 5)
    for wrong in ("reserved = -1", "bonus = -1", "paid_in_total = -1"):
        with pytest.raises(asyncpg.CheckViolationError):
            await books.admin.execute(f"update wallet set {wrong}")


async def test_plans_made_on_empty_tables_use_keys_when_they_are_full(
    postgres: Postgres, dsn: str, account: str
) -> None:
    """A connection keeps its plans for life."""
    async with opened(postgres, dsn) as other:
        before = await _rows_read(other)
    async with opened(postgres, dsn) as books:
        await books.credit(account, 10**12)
        await _settle_many(books, account, 1_000)
    async with opened(postgres, dsn) as other:
        read = await _rows_read(other) - before
    # Each call reads its own rows, the checks of these tests aside.
    assert read < 5_000, f"{read} rows read"


async def _settle_many(books: Books, account: str, number: int) -> None:
    for _ in range(number // 50):
        calls = [reserve(account) for _ in range(50)]
        grants = await asyncio.gather(*(books.granted(call) for call in calls))
        await asyncio.gather(*(books.settle(settle(c, g.descriptor)) for c, g in zip(calls, grants, strict=True)))


async def _rows_read(books: Books) -> int:
    """Rows of holds and usage rows read by scans and by keys, by connections that are closed by now."""
    value: Any = await books.admin.fetchval(
        "select sum(seq_tup_read + idx_tup_fetch) from pg_stat_user_tables where relname ~ '^(hold|usage_row)_'"
    )
    return int(value)
