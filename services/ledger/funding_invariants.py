"""What must always be true of everything that pays beside the balance, and of what limits count.

Part of invariants.ALL.
"""

from services.ledger.invariant import Invariant

FUNDING: tuple[Invariant, ...] = (
    Invariant(
        "leaning",
        "what is held on keys, members, windows, coupons, allocations and allowances is what open holds lean on",
        True,
        """with open as (select * from hold where state = 'open'),
           held as (
               select 'key:' || key_id || ':' || epoch || ':' || starts as what, reserved as held,
                      tokens_reserved as more
                 from key_spend where reserved <> 0 or tokens_reserved <> 0
               union all select 'member:' || account_id || '/' || member_id, reserved, 0
                 from member_spend where reserved <> 0
               union all select 'window:' || account_id || ':' || cycle || ':' || kind || ':' || idx, reserved, 0
                 from plan_window where reserved <> 0
               union all select 'source:' || coupon_id, reserved, 0 from coupon where reserved <> 0
               union all select 'source:' || alloc_id, reserved, 0 from token_alloc where reserved <> 0
               union all select 'day:' || account_id || ':' || day, reserved, 0
                 from search_allowance where reserved <> 0),
           lean as (
               select what, sum(held) as held, sum(more) as more from (
                   select 'key:' || key_id || ':' || key_epoch || ':' || key_starts as what, key_amount as held,
                          key_tokens as more from open where key_epoch is not null
                   union all select 'member:' || account_id || '/' || member_id, amount, 0
                     from open where member_id <> ''
                   union all
                      select 'window:' || account_id || ':' || cycle || ':' || kind || ':' || windows[kind], quota, 0
                        from open, generate_series(1, 3) kind where windows[kind] is not null
                   union all select 'source:' || source_id, quota, 0 from open where source_id is not null
                   union all select 'day:' || account_id || ':' || allowance_day, quota, 0 from open
                     where allowance_day is not null) l
               group by what having sum(held) <> 0 or sum(more) <> 0)
           select coalesce(h.what, l.what) as what, h.held, h.more, l.held as leaning, l.more as leaning_more
             from held h full join lean l on l.what = h.what
            where (coalesce(h.held, 0), coalesce(h.more, 0)) <> (coalesce(l.held, 0), coalesce(l.more, 0))""",
    ),
    Invariant(
        "spend",
        "running totals of what accounts and members drew for usage are the transfers, refunds taken off",
        False,
        """with moved as (select t.account_id, h.member_id,
                                 case t.kind when 'refund' then -t.amount else t.amount end as amount
                            from transfer t
                            left join hold h on h.day = t.day and h.request_id = t.request_id and h.line = t.line
                           where t.kind in ('usage', 'charge', 'refund')),
                drawn as (select account_id as scope, sum(amount) as spent from moved group by 1
                          union all select account_id || '/' || member_id, sum(amount) from moved
                           where member_id <> '' group by 1),
                kept as (select account_id as scope, payg_cum as cum from wallet
                         union all select account_id || '/' || member_id, cum from member_spend
                          where not exists (select from transfer t where t.account_id = member_spend.account_id
                                               and t.day < (select min(day) from hold)))
           select k.scope, k.cum, d.spent from kept k left join drawn d on d.scope = k.scope
            where k.cum <> coalesce(d.spent, 0)""",
    ),
    Invariant(
        "marks",
        "spend marks rise with time and stay below the running total",
        False,
        """select m.scope_id, m.minute, m.cum_before from (
               select s.*, lead(s.cum_before, 1, c.cum) over (partition by s.scope_id order by s.minute) as next
               from spend_mark s
               left join (select account_id as scope, payg_cum as cum from wallet
                          union all select account_id || '/' || member_id, cum from member_spend) c
                 on c.scope = s.scope_id) m
           where m.next is null or m.cum_before > m.next""",
    ),
    Invariant(
        "used",
        "what windows, coupons, allocations, allowances and keys have used is what was settled while holds are kept",
        False,
        """with since as (select coalesce(min(day), '-infinity')::timestamp at time zone 'UTC' as at from hold),
                done as (select h.*, u.catalog, u.catalog - u.cache_saved as net, u.outcome,
                                -- A few tokens may be worth less than a micro-Rupiah.
                                case when u.catalog > 0 or u.completion_tokens > 0 and u.outcome <> 'interrupted'
                                     then u.prompt_tokens + u.completion_tokens else 0 end as tokens
                           from hold h
                           join usage_row u on u.day = h.day and u.request_id = h.request_id and u.line = h.line
                          where h.state = 'settled'),
                used as (
               select 'window:' || account_id || ':' || cycle || ':' || kind || ':' || idx as what, used
                 from plan_window, since where to_timestamp(cycle / 1000) >= since.at
               union all select 'coupon:' || coupon_id, used from coupon, since where created_at >= since.at
               union all select 'tokens:' || alloc_id, used from token_alloc, since where created_at >= since.at
               union all select 'day:' || account_id || ':' || day, used from search_allowance, since
                          where day >= since.at::date
               union all select 'key:' || key_id || ':' || epoch || ':' || starts, spent from key_spend k, since
                          where not exists (select from usage_row u where u.account_id = k.account_id
                                               and u.key_id = k.key_id and u.day < since.at::date)),
                settled as (
               select 'window:' || account_id || ':' || cycle || ':' || kind || ':' || windows[kind] as what,
                      sum(net) as used
                 from done, generate_series(1, 3) kind where windows[kind] is not null group by 1
               union all select 'coupon:' || source_id, sum(catalog) from done where funding = 'coupon' group by 1
               union all select 'tokens:' || source_id, sum(tokens) from done where funding = 'token_alloc' group by 1
               union all select 'day:' || account_id || ':' || allowance_day, count(*) from done
                          where allowance_day is not null and outcome <> 'interrupted' group by 1
               union all select 'key:' || key_id || ':' || key_epoch || ':' || key_starts, sum(value)
                           from (select key_id, key_epoch, key_starts, catalog as value from done
                                  where funding not in ('free', 'byok')
                                 union all select key_id, key_epoch, key_starts, amount from hold
                                  where state = 'posted') k where key_epoch is not null group by 1)
           select u.what, u.used, s.used as settled from used u left join settled s on s.what = u.what
            where u.used <> coalesce(s.used, 0)""",
    ),
    Invariant(
        "jobs",
        "money in progress belongs to jobs accepted and not ended, and a job gives back what it took",
        False,
        """select coalesce(t.request_id, h.request_id) as request_id, t.amount, h.held
           from (select day, request_id, line, sum(case credit when 40 then amount else -amount end) as amount
                   from transfer where 40 in (debit, credit) group by 1, 2, 3) t
           full join (select day, request_id, line, amount as held from hold where state = 'posted') h
             on h.day = t.day and h.request_id = t.request_id and h.line = t.line
           where coalesce(t.amount, 0) <> coalesce(h.held, 0)""",
    ),
)
