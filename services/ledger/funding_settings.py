"""What the owner of an account decides about its money, and what an operator sells: settings, caps of members, plans.

Called by funding_rpc.py. Written without keys of the caller's: the same call twice leaves the same settings.
"""

from datetime import timedelta

import msgspec

from libs.db.database import Database
from services.ledger import plan_rows
from services.ledger.domain.calls import InvalidCallError

WINDOWS = {"day": timedelta(days=1), "month": timedelta(days=30)}
ALERT_PERCENTAGES = (50, 80, 90)
_RUPIAH = 1_000_000
_HIGHEST_THRESHOLD = 10_000_000 * _RUPIAH
_MOST = 2**62


class PlanTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it is sold and enforced; None is no ceiling, or the default daily quota of plans."""

    plan_id: str
    name: str
    price: int
    five_hour: int | None
    week: int | None
    month: int | None
    models: tuple[str, ...]
    free_cache: tuple[str, ...]
    free_daily: int | None
    daily_searches: int
    on_sale: bool

    def check(self) -> None:
        """Raise InvalidCallError for a plan that nobody could buy or use."""
        if not self.plan_id or not self.name or not 0 <= self.price < _MOST:
            raise InvalidCallError("a plan needs an id, a name and a price")
        if any(ceiling is not None and not 0 < ceiling < _MOST for ceiling in (self.five_hour, self.week, self.month)):
            raise InvalidCallError("the ceiling of a window is above 0; without one the window is unlimited")
        strange = sorted(set(self.free_cache) - set(self.models))
        if strange:
            raise InvalidCallError(f"free cache is for models of the plan; not among them: {', '.join(strange)}")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What to change; None leaves a setting. ``payg_limit`` (0, "") takes the limit away."""

    keep_balance: bool | None = None
    free_fallback: bool | None = None
    payg_limit: tuple[int, str] | None = None
    alert_pct: int | None = None
    low_balance: int | None = None

    def check(self) -> None:
        """Raise InvalidCallError for a value that cannot be set."""
        if self.payg_limit is not None and self.payg_limit != (0, ""):
            amount, window = self.payg_limit
            if window not in WINDOWS or not 0 <= amount < _MOST:
                raise InvalidCallError("a PAYG limit is an amount a day or a month")
        if self.alert_pct is not None and self.alert_pct not in ALERT_PERCENTAGES:
            raise InvalidCallError("the quota alert is at 50, 80 or 90 percent")
        low = self.low_balance
        if low is not None and (not 0 <= low <= _HIGHEST_THRESHOLD or low % _RUPIAH):
            raise InvalidCallError("the balance alert is a whole Rupiah amount up to Rp 10,000,000")


class FundingSettings:
    """Writes; raise InvalidCallError or DatabaseAwayError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def choose(self, account_id: str, choice: Choice) -> None:
        """Change the settings of an account."""
        choice.check()
        limited = choice.payg_limit is not None
        amount, window = (None, None)
        if choice.payg_limit is not None and choice.payg_limit[1]:
            amount, window = choice.payg_limit[0], WINDOWS[choice.payg_limit[1]]
        async with self._database.transaction() as conn:
            await plan_rows.lock(conn, account_id)
            await conn.execute(
                "update wallet set keep_balance = coalesce($2, keep_balance),"
                " free_fallback = coalesce($3, free_fallback), alert_pct = coalesce($4::smallint, alert_pct),"
                " payg_limit = case when $5 then $6 else payg_limit end,"
                " payg_window = case when $5 then $7 else payg_window end,"
                " low_armed = case when $8::bigint is null then low_armed else paid + bonus >= $8 end,"
                " low_threshold = coalesce($8, low_threshold) where account_id = $1",
                account_id,
                choice.keep_balance,
                choice.free_fallback,
                choice.alert_pct,
                limited,
                amount,
                window,
                choice.low_balance,
            )

    async def cap_member(self, account_id: str, member_id: str, cap: int | None) -> None:
        """Cap what a member may draw from the balance in 30 days; None takes the cap away."""
        if not member_id or "/" in member_id or (cap is not None and not 0 <= cap < _MOST):
            raise InvalidCallError("a cap is for a member, 0 or more")
        async with self._database.transaction() as conn:
            await plan_rows.lock(conn, account_id)
            await conn.execute(
                "insert into member_spend (account_id, member_id, cap) values ($1, $2, $3)"
                " on conflict (account_id, member_id) do update set cap = excluded.cap, alerted_until_ms = 0",
                account_id,
                member_id,
                cap,
            )

    async def put_plan(self, terms: PlanTerms) -> None:
        """Make a plan or change it for everybody who has it."""
        terms.check()
        async with self._database.connection() as conn:
            await conn.execute(
                "insert into plan (plan_id, name, price, five_hour, week, month, models, free_cache, free_daily,"
                " daily_searches, on_sale) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
                " on conflict (plan_id) do update set name = excluded.name, price = excluded.price,"
                " five_hour = excluded.five_hour, week = excluded.week, month = excluded.month,"
                " models = excluded.models, free_cache = excluded.free_cache, free_daily = excluded.free_daily,"
                " daily_searches = excluded.daily_searches, on_sale = excluded.on_sale, changed_at = now()",
                *msgspec.structs.astuple(terms),
            )

    async def plans(self, *, everything: bool) -> list[PlanTerms]:
        """Plans on sale, or all that ever were, the cheapest first."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(
                "select plan_id, name, price, five_hour, week, month, models, free_cache, free_daily, daily_searches,"
                " on_sale from plan where on_sale or $1 order by price, plan_id",
                everything,
            )
        return [
            PlanTerms(**{**row, "models": tuple(row["models"]), "free_cache": tuple(row["free_cache"])}) for row in rows
        ]
