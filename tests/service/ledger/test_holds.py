"""The life of holds on the database's clock: Touch, expiry, late settlement."""

import asyncio

from libs.events.base import decode
from libs.events.ledger import HoldExpired
from tests.service.ledger.conftest import Books, opened, reserve, settle
from tests.support.stack import Postgres

HOLD = 4_200_000
COST = 600_000


async def _age(books: Books, seconds: int) -> None:
    await books.admin.execute(f"update hold set expires_at = expires_at - interval '{seconds} seconds'")


async def test_a_hold_nobody_finishes_gives_its_money_back(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    await books.granted(call)
    await _age(books, 119)
    await books.jobs.sweep()
    assert (await books.balance(account)).reserved == HOLD

    await _age(books, 2)
    await books.jobs.sweep()

    balance = await books.balance(account)
    assert (balance.balance, balance.reserved) == (10_000_000, 0)
    assert await books.admin.fetchval("select state from hold") == "expired"
    assert books.metric("kenari_ledger_holds_expired_total") == 1
    row = await books.admin.fetchrow("select key, body from outbox order by id desc limit 1")
    told = HoldExpired.model_validate(decode(row["body"]).data)
    assert (row["key"], told.request_id, told.amount_micro_idr) == (account, call.request_id, HOLD)


async def test_the_sweeper_ends_the_holds_of_many_accounts(books: Books) -> None:
    accounts = [f"acct_{number:03d}" for number in range(150)]
    await asyncio.gather(*(books.credit(name, 10_000_000) for name in accounts))
    await asyncio.gather(*(books.granted(reserve(name)) for name in accounts for _ in range(2)))
    await _age(books, 121)

    await books.jobs.sweep()

    assert await books.count("hold where state = 'expired'") == 300
    assert await books.count("wallet where reserved <> 0") == 0


async def test_the_sweeper_waits_for_nobody(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    await books.granted(reserve(account))
    await _age(books, 121)

    async with books.admin.transaction():
        await books.admin.execute("select from wallet where account_id = $1 for no key update", account)
        await asyncio.wait_for(books.jobs.sweep(), 1.0)
        assert await books.count("hold where state = 'open'") == 1

    await books.jobs.sweep()
    assert await books.count("hold where state = 'open'") == 0


async def test_sweepers_and_settlements_do_not_lock_each_other_out(postgres: Postgres, dsn: str) -> None:
    async with opened(postgres, dsn, hold_ttl_s=0.05) as books, opened(postgres, dsn, hold_ttl_s=0.05) as other:
        accounts = [f"acct_{number}" for number in range(8)]
        for name in accounts:
            await books.credit(name, 10**12)

        async def sweep() -> None:
            for _ in range(20):
                await other.jobs.sweep()
                await asyncio.sleep(0.02)

        async def spend(ledger: Books, name: str) -> None:
            for _ in range(10):
                call = reserve(name)
                granted = await ledger.granted(call)
                await asyncio.sleep(0.03)
                await ledger.settle(settle(call, granted.descriptor))

        await asyncio.gather(sweep(), sweep(), *(spend(one, name) for one in (books, other) for name in accounts))

        assert await books.count("usage_row") == 160
        for name in accounts:
            assert (await books.balance(name)).balance == 10**12 - 20 * COST
        await other.jobs.sweep()
        await books.assert_sound()


async def test_a_settlement_after_expiry_is_charged_though_nothing_is_held(books: Books, account: str) -> None:
    await books.credit(account, HOLD)
    call = reserve(account)
    granted = await books.granted(call)
    await _age(books, 121)
    await books.jobs.sweep()
    other = reserve(account)
    other_grant = await books.granted(other)

    settled = await books.settle(settle(call, granted.descriptor))
    await books.settle(settle(other, other_grant.descriptor, completion=500))

    assert (settled.cost, settled.conflict) == (COST, False)
    assert (await books.balance(account)).balance == -COST


async def test_touch_keeps_holds_alive_and_names_those_that_are_gone(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    alive, released, unknown = reserve(account), reserve(account), reserve(account)
    await books.granted(alive)
    await books.granted(released)
    await books.release(released)
    await _age(books, 119)

    gone = await books.ledger.touch([(call.request_id, 0) for call in (alive, released, unknown)])

    assert gone == [(released.request_id, 0), (unknown.request_id, 0)]
    await _age(books, 60)
    await books.jobs.sweep()
    assert await books.count("hold where state = 'open'") == 1


async def test_touching_nothing_is_fine(books: Books) -> None:
    assert await books.ledger.touch([]) == []


async def test_touch_does_not_wait_for_a_hold_at_work(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account)
    await books.granted(call)

    async with books.admin.transaction():
        await books.admin.execute("select from hold where request_id = $1 for update", call.request_id)
        assert await asyncio.wait_for(books.ledger.touch([(call.request_id, 0)]), 1.0) == []


async def test_gauges_show_open_and_overdue_holds(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    await books.granted(reserve(account))
    await _age(books, 180)
    await books.granted(reserve(account))

    await books.jobs.measure()

    assert books.metric("kenari_ledger_holds_open") == 2
    assert books.metric("kenari_ledger_holds_overdue") == 1
    await books.jobs.sweep()
