"""What must always be true of the books, as questions that find the rows that break it.

Asked by reconcile.py (all, by an operator and nightly) and jobs.py (the quick ones, all the time). Reading only.
"""

from collections.abc import AsyncIterator
from typing import Any

from libs.db.database import Database
from services.ledger.funding_invariants import FUNDING
from services.ledger.invariant import Invariant

SHOWN = 20


_MOVED = """
    select t.account_id,
           sum(case when t.credit = 1 then t.amount when t.debit = 1 then -t.amount else 0 end) as paid,
           sum(case when t.credit = 2 then t.amount when t.debit = 2 then -t.amount else 0 end) as bonus
    from transfer t
"""

ALL: tuple[Invariant, ...] = (
    Invariant(
        "reserved",
        "what a wallet has reserved is the sum of its open holds",
        True,
        """select coalesce(w.account_id, h.account_id) as account_id, w.reserved, h.held
           from (select * from wallet where reserved <> 0) w
           full join (select account_id, sum(amount) as held from hold where state = 'open' group by 1) h
             on h.account_id = w.account_id
           where coalesce(w.reserved, 0) <> coalesce(h.held, 0)""",
    ),
    Invariant(
        "overdue",
        "no hold is open more than 30 s past its life",
        True,
        """select request_id, line, account_id, expires_at from hold
           where state = 'open' and expires_at < now() - interval '30 seconds'""",
    ),
    Invariant(
        "default_partitions",
        "every row found the partition of its day",
        True,
        """select 'hold' as rows_in from hold_default union all select 'transfer' from transfer_default
           union all select 'usage_row' from usage_row_default union all select 'outbox' from outbox_default""",
    ),
    Invariant(
        "entries",
        "a wallet is its last closing balance and the transfers since",
        False,
        f"""with since as ({_MOVED}
                where t.booked_at >= coalesce((select max(day) + 1 from balance_closed), 'epoch')::timestamp
                                     at time zone 'UTC' group by 1),
            closed as (select distinct on (account_id) account_id, paid, bonus from balance_day
                       order by account_id, day desc)
            select coalesce(w.account_id, s.account_id, c.account_id) as account_id, w.paid, w.bonus,
                   coalesce(c.paid, 0) + coalesce(s.paid, 0) as booked_paid,
                   coalesce(c.bonus, 0) + coalesce(s.bonus, 0) as booked_bonus
            from wallet w full join since s on s.account_id = w.account_id
            full join closed c on c.account_id = coalesce(w.account_id, s.account_id)
            where (coalesce(w.paid, 0), coalesce(w.bonus, 0)) is distinct from
                  (coalesce(c.paid, 0) + coalesce(s.paid, 0), coalesce(c.bonus, 0) + coalesce(s.bonus, 0))""",
    ),
    Invariant(
        "closings",
        "closing balances are all transfers up to their day",
        False,
        f"""with closed as (select distinct on (account_id) account_id, paid, bonus from balance_day
                            order by account_id, day desc),
            booked as ({_MOVED}
                where t.booked_at < (select max(day) + 1 from balance_closed)::timestamp at time zone 'UTC' group by 1)
            select coalesce(c.account_id, b.account_id) as account_id, c.paid, c.bonus, b.paid as booked_paid,
                   b.bonus as booked_bonus
            from closed c full join booked b on b.account_id = c.account_id
            where (c.paid, c.bonus) is distinct from (b.paid, b.bonus)""",
    ),
    Invariant(
        "settled_once",
        "a finished hold has one usage row of equal cost, and a usage row that somebody paid its finished hold",
        False,
        """select coalesce(h.request_id, u.request_id) as request_id, coalesce(h.line, u.line) as line, h.state,
                  h.cost as hold_cost, u.cost as usage_cost
           from (select day, request_id, line, account_id, funding, state,
                        case state when 'settled' then cost else 0 end as cost
                   from hold where state in ('settled', 'refunded')) h
           full join (select * from usage_row where day >= (select coalesce(min(day), '-infinity') from hold)) u
             on u.day = h.day and u.request_id = h.request_id and u.line = h.line
           where u.request_id is null or h.cost <> u.cost or h.account_id <> u.account_id or h.funding <> u.billing_kind
              or (h.request_id is null and u.billing_kind not in ('free', 'byok'))""",
    ),
    Invariant(
        "charged",
        "what a usage row cost is what was transferred for it",
        False,
        """select coalesce(u.request_id, t.request_id) as request_id, coalesce(u.line, t.line) as line, u.cost,
                  t.charged
           from (select * from usage_row where cost > 0) u
           full join (select day, request_id, line, account_id, sum(amount) as charged from transfer
                      where kind in ('usage', 'complete')
                        and day >= (select coalesce(min(day), '-infinity') from usage_row)
                      group by 1, 2, 3, 4) t
             on t.day = u.day and t.request_id = u.request_id and t.line = u.line
           where u.cost is distinct from t.charged or u.account_id <> t.account_id""",
    ),
    Invariant(
        "direction",
        "money for usage and plans flows to revenue, credits come from outside, refunds go back",
        False,
        """select request_id, line, kind, debit, credit from transfer
           where not case kind when 'usage' then debit in (1, 2) and credit = 10
                               when 'charge' then debit in (1, 2) and credit = 40
                               when 'complete' then debit = 40 and credit = 10
                               when 'refund' then debit = 40 and credit in (1, 2)
                               when 'plan' then debit in (1, 2, 20) and credit = 60
                               when 'top_up' then debit = 20 and credit = 1
                               when 'bonus' then debit = 30 and credit = 2 end""",
    ),
    Invariant(
        "credits",
        "as many credits as idempotency keys, and all money from outside is in paid_in_total",
        False,
        """select k.keys, t.credits, p.paid_in, t.from_outside
           from (select count(*) as keys from idem where scope = 'credit') k,
                (select count(*) filter (where kind in ('top_up', 'bonus')) as credits,
                        coalesce(sum(amount) filter (where debit = 20), 0) as from_outside
                 from transfer) t,
                (select coalesce(sum(paid_in_total), 0) as paid_in from wallet) p
           where k.keys <> t.credits or p.paid_in <> t.from_outside""",
    ),
    Invariant(
        "rollup",
        "the sums of usage by hour and day, of each account and each key, are those of its rows",
        False,
        """select coalesce(h.account_id, d.account_id) as account_id, coalesce(h.key_id, d.key_id) as key_id,
                  coalesce(h.span, d.span) as span, coalesce(h.start, d.start) as start,
                  coalesce(h.model, d.model) as model, h.requests as summed_requests, d.requests,
                  h.cost as summed_cost, d.cost
           from usage_sum h
           full join usage_due((select kept_from from usage_cursor), 'infinity') d
             on d.account_id = h.account_id and d.key_id = h.key_id and d.span = h.span and d.start = h.start
                and d.model = h.model and d.billing_kind = h.billing_kind
           where h.account_id is null or d.account_id is null
              or (h.requests, h.prompt_tokens, h.completion_tokens, h.cached_tokens, h.cache_write_tokens, h.cost,
                  h.catalog) is distinct from
                 (d.requests, d.prompt_tokens, d.completion_tokens, d.cached_tokens, d.cache_write_tokens, d.cost,
                  d.catalog)""",
    ),
    *FUNDING,
)


async def check(database: Database, *, quick: bool) -> AsyncIterator[tuple[Invariant, list[Any]]]:
    """Ask all (or the quick) questions at one moment; yield each invariant with the rows that break it."""
    async with database.transaction(isolation="repeatable_read", readonly=True) as conn:
        await conn.execute("set local statement_timeout = '600s'")
        for invariant in ALL:
            if invariant.quick or not quick:
                rows = await conn.fetch(f"select * from ({invariant.breaks}) broken limit {SHOWN}", timeout=600)
                yield invariant, rows
