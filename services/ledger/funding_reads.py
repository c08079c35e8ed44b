"""What an account can pay with and how far each source is used up, all of one moment (contract: Account quota).

Called by funding_rpc.py. Nothing here changes anything.
"""

from typing import Any

import msgspec

from libs.db.database import Database
from services.ledger.domain import windows
from services.ledger.domain.calls import KeyCaps
from services.ledger.domain.funding import cap_start, utc_day
from services.ledger.domain.state import Account, Allocation, Allowance, Coupon, Plan, Wallet, Window


class Funding(msgspec.Struct, frozen=True):
    """``account`` has the present windows and today's allowance; ``members`` are rows of caps with their spending."""

    account: Account
    members: list[Any]
    now_ms: int


class KeyUse(msgspec.Struct, frozen=True):
    """What a capped key has used in the present period."""

    spent: int = 0
    reserved: int = 0
    tokens: int = 0
    tokens_reserved: int = 0


_SPENT_SINCE = (
    "coalesce({cum} - (select s.cum_before from spend_mark s where s.scope_id = {scope}"
    " and s.minute >= floor(extract(epoch from now() - {window}) / 60)::bigint order by s.minute limit 1), 0)"
)


class FundingReads:
    """Reads; raise DatabaseAwayError while the database is away."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def funding(self, account_id: str) -> Funding:
        """Everything of one account; one the ledger has never heard of has nothing."""
        async with self._database.transaction(isolation="repeatable_read", readonly=True) as conn:
            now_ms = int(await conn.fetchval("select (extract(epoch from now()) * 1000)::bigint"))
            account = Account(account_id)
            await _wallet(conn, account)
            await _plan(conn, account, now_ms)
            account.coupons = [Coupon(**row) for row in await conn.fetch(_COUPONS, account_id)]
            account.allocations = [Allocation(**row) for row in await conn.fetch(_ALLOCATIONS, account_id)]
            members = await conn.fetch(_MEMBERS, account_id)
        return Funding(account, members, now_ms)

    async def key_use(self, account_id: str, key_id: str, caps: KeyCaps, now_ms: int) -> KeyUse:
        """What the key has used of these caps."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                "select spent, reserved, tokens, tokens_reserved from key_spend"
                " where key_id = $1 and epoch = $2 and starts = $3::text::date and account_id = $4",
                key_id,
                caps.epoch,
                cap_start(caps, now_ms),
                account_id,
            )
        return KeyUse(**row) if row is not None else KeyUse()


_COUPONS = (
    "select account_id as account, coupon_id as id, name, models, budget, used, reserved, ends_ms"
    " from coupon where account_id = $1 order by ends_ms, coupon_id"
)
_ALLOCATIONS = (
    "select account_id as account, alloc_id as id, models, tokens, used, reserved, ends_ms"
    " from token_alloc where account_id = $1 order by ends_ms, alloc_id"
)
_MEMBERS = (
    "select m.member_id, m.cap, greatest("
    + _SPENT_SINCE.format(cum="m.cum", scope="m.account_id || '/' || m.member_id", window="interval '30 days'")
    + ", 0)::bigint as spent from member_spend m where m.account_id = $1 and m.cap is not null order by m.member_id"
)
_WALLET = (
    "select account_id as account, paid, bonus, reserved, payg_cum as cum, payg_limit,"
    " (extract(epoch from payg_window) * 1000)::bigint as limit_ms, keep_balance, free_fallback, alert_pct,"
    " low_threshold, low_armed, "
    + _SPENT_SINCE.format(cum="payg_cum", scope="account_id", window="payg_window")
    + " as spent from wallet where account_id = $1"
)


async def _wallet(conn: Any, account: Account) -> None:
    row = await conn.fetchrow(_WALLET, account.id)
    if row is not None:
        values = dict(row)
        spent = max(0, values.pop("spent"))
        account.wallet = Wallet(**values, cum_from=values["cum"] - spent)


async def _plan(conn: Any, account: Account, now_ms: int) -> None:
    row = await conn.fetchrow(
        "select s.account_id as account, s.plan_id, p.name, s.source, s.cycle, s.ends_ms, s.auto_renew, s.paid,"
        " p.price, array[p.five_hour, p.week, p.month] as ceilings, p.models, p.free_cache, p.daily_searches, p.on_sale"
        " from plan_sub s join plan p on p.plan_id = s.plan_id where s.account_id = $1",
        account.id,
    )
    if row is None:
        return
    plan = account.plan = Plan(**row)
    for kind, _ in windows.limited(plan):
        found = await conn.fetchrow(
            "select account_id as account, cycle, kind, idx, used, reserved, warned, spent from plan_window"
            " where account_id = $1 and cycle = $2 and kind = $3 and idx = $4",
            account.id,
            plan.cycle,
            kind,
            windows.index(plan, kind, now_ms),
        )
        if found is not None:
            account.windows[plan.cycle, kind, found["idx"]] = Window(**found)
    day = utc_day(now_ms)
    today = await conn.fetchrow(
        "select used, reserved from search_allowance where account_id = $1 and day = $2::text::date", account.id, day
    )
    if today is not None:
        account.allowances[day] = Allowance(account.id, day, today["used"], today["reserved"])
