"""Rows of plans, subscriptions and what was given once: the SQL of subscriptions.py.

Every function runs on a connection inside the caller's transaction.
"""

import hashlib
from typing import Any

from services.ledger.domain.calls import RefusedError
from services.ledger.domain.plans import Deal, Offer


async def offer(conn: Any, plan_id: str) -> Offer:
    """The plan as it is sold; raise RefusedError (plan_not_found)."""
    row = await conn.fetchrow("select plan_id, name, price, on_sale from plan where plan_id = $1", plan_id)
    if row is None:
        raise RefusedError(f"there is no plan {plan_id}", reason="plan_not_found")
    return Offer(*row)


async def lock(conn: Any, account_id: str) -> None:
    """Take the account's mutex, its wallet's row, making it if it has none."""
    await conn.execute("insert into wallet (account_id) values ($1) on conflict do nothing", account_id)
    await conn.execute("select from wallet where account_id = $1 for no key update", account_id)


async def first_time(conn: Any, account_id: str, scope: str, key: str, content: str) -> int | None:
    """Take the account's mutex, then: None when the key is new, else the stored result.

    Raise RefusedError (already_exists) when the key stands for something else.
    """
    await lock(conn, account_id)
    row = await conn.fetchrow("select request_hash, result from idem where scope = $1 and key = $2", scope, key)
    if row is None:
        return None
    if row["request_hash"].hex != _digest(content):
        raise RefusedError("the idempotency key stands for something else", reason="already_exists")
    return int(row["result"])


async def remember(conn: Any, scope: str, key: str, content: str, result: int, ref: str | None = None) -> None:
    """Store the first result of a key, for ever."""
    await conn.execute(
        "insert into idem (scope, key, request_hash, result, ref) values ($1, $2, $3, $4, $5)",
        scope,
        key,
        _digest(content),
        result,
        ref,
    )


async def give(
    conn: Any, account_id: str, idem: tuple[str, str, str], made_id: str, insert: str, values: tuple[Any, ...]
) -> str:
    """Insert what is given away unless the key was used; return its id, or the one of then."""
    if await first_time(conn, account_id, *idem) is not None:
        return str(await conn.fetchval("select ref from idem where scope = $1 and key = $2", *idem[:2]))
    await conn.execute(insert, *values)
    await conn.execute("update wallet set has_grants = true where account_id = $1", account_id)
    await remember(conn, *idem, 0, made_id)
    return made_id


async def keep_sub(conn: Any, account_id: str, plan_id: str, deal: Deal) -> None:
    """Write the subscription a deal leads to. Automatic renewal stays as it was."""
    await conn.execute(
        "insert into plan_sub as s (account_id, plan_id, source, cycle, ends_ms, auto_renew, paid)"
        " values ($1, $2, $3, $4, $5, false, $6) on conflict (account_id) do update"
        " set plan_id = excluded.plan_id, source = excluded.source, cycle = excluded.cycle,"
        " ends_ms = excluded.ends_ms, paid = excluded.paid, auto_renew = s.auto_renew and not s.lapsed, lapsed = false",
        account_id,
        plan_id,
        deal.source,
        deal.cycle,
        deal.ends_ms,
        deal.rate,
    )
    await _raise_version(conn, account_id)


async def keep_end(conn: Any, account_id: str, ends_ms: int, renewed: bool, lapsed: bool) -> None:
    """Write what became of a subscription whose time was over: renewed and paid, or lapsed."""
    await conn.execute(
        "update plan_sub s set ends_ms = $2, lapsed = $4, auto_renew = s.auto_renew and $3,"
        " source = case when $3 then 'paid' else s.source end,"
        " paid = case when $3 then (select price from plan p where p.plan_id = s.plan_id) else s.paid end"
        " where account_id = $1",
        account_id,
        ends_ms,
        renewed,
        lapsed,
    )
    await _raise_version(conn, account_id)


async def set_auto_renew(conn: Any, account_id: str, now_ms: int, *, on: bool) -> bool:
    """Whether there is a plan in force whose renewal is now as wanted."""
    done = await conn.execute(
        "update plan_sub set auto_renew = $2 where account_id = $1 and ends_ms > $3 and not lapsed",
        account_id,
        on,
        now_ms,
    )
    return bool(done.endswith(" 1"))


async def due(conn: Any, limit: int) -> list[str]:
    """Accounts whose subscription has run out and was not dealt with, on the database's clock."""
    rows = await conn.fetch(
        "select account_id from plan_sub where not lapsed and ends_ms <= extract(epoch from now()) * 1000"
        " order by ends_ms limit $1",
        limit,
    )
    return [row["account_id"] for row in rows]


async def paid_outside(conn: Any, account_id: str, amount: int, ref: str, day: str) -> None:
    """Book money from outside that paid for a plan; it counts towards the free tier, once."""
    await conn.execute(
        "insert into transfer values ($1::text::date, $2, 0, 'plan', 0, $3, 20, 60, $4, clock_timestamp())",
        day,
        ref,
        account_id,
        amount,
    )
    await conn.execute(
        "update wallet set paid_in_total = paid_in_total + $2, version = version + 1 where account_id = $1",
        account_id,
        amount,
    )


async def _raise_version(conn: Any, account_id: str) -> None:
    await conn.execute("update wallet set has_grants = true, version = version + 1 where account_id = $1", account_id)


def _digest(content: str) -> str:
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
