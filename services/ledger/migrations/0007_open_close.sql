-- Every change of money is one transaction: open_books locks and reads, services/ledger/domain decides, close_books
-- writes. Both take and give JSON whose fields are those of the tables; what a statement does not need is not run.
-- Lock order: wallets by account_id, before anything else. Nothing here waits for a second lock after that, and the
-- sweeper skips locked wallets, so no two transactions can wait in a circle.
drop function post_batch;
drop function decide;
drop type decision;
drop function expire_holds;

-- Locks the wallets of p_paying (sorted) and reads what the calls of one batch may need. p_create: accounts that get
-- a wallet if they have none. p_day, p_request, p_line: all calls; p_settles: positions of settlements among them.
-- p_keys, p_members: whose counters are wanted ('account/member'). p_lost: holds that a failover lost, made again.
create function open_books(
    p_paying text[], p_create text[], p_day integer[], p_request uuid[], p_line integer[], p_settles integer[],
    p_keys text[], p_members text[], p_lost json,
    out now_ms bigint, out wallets json, out holds json, out settled json, out plans json, out windows json,
    out coupons json, out allocations json, out allowances json, out keys json, out members json, out limits json
) language plpgsql
    -- Plans are made once per connection, perhaps on empty tables, and must be right for full ones as well.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    set enable_mergejoin = off
as $$
declare
    c_epoch constant date := '1970-01-01';
    v_now timestamptz;
    v_today date;
    v_first date;
    v_last date;
    v_ids uuid[];
    v_rich text[];
    v_limited text[];
    v_keyed boolean;
    v_planned boolean;
    v_allowed boolean;
    v_member boolean;
begin
    if cardinality(p_create) > 0 then
        insert into wallet (account_id) select a from unnest(p_create) a order by a on conflict do nothing;
    end if;
    if cardinality(p_paying) > 0 then
        select json_agg(l), array_agg(l.account) filter (where l.has_grants),
               array_agg(l.account) filter (where l.payg_limit is not null)
          into wallets, v_rich, v_limited
          from (select account_id as account, paid, bonus, reserved, payg_cum as cum, mark_minute as mark, payg_limit,
                       (extract(epoch from payg_window) * 1000)::bigint as limit_ms, keep_balance, free_fallback,
                       alert_pct, low_threshold, low_armed, has_grants
                  from wallet where account_id = any(p_paying) order by account_id for no key update) l;
    end if;
    v_now := clock_timestamp();
    v_today := (v_now at time zone 'UTC')::date;
    now_ms := (extract(epoch from v_now) * 1000)::bigint;

    if p_lost is not null then
        insert into hold select h.* from json_populate_recordset(null::hold, p_lost) h on conflict do nothing;
    end if;
    select c_epoch + min(d), c_epoch + max(d) into v_first, v_last from unnest(p_day) d;
    select json_agg(h), array_agg(h.request_id) filter (where h.state = 'open'),
           bool_or(h.key_epoch is not null), bool_or(h.cycle is not null), bool_or(h.allowance_day is not null),
           bool_or(h.member_id <> '')
      into holds, v_ids, v_keyed, v_planned, v_allowed, v_member
      from (select h.day, h.request_id, h.line, h.account_id, h.key_id, h.member_id, h.endpoint, h.model, h.funding,
                   h.state, h.amount, h.max_tokens, h.price_version, h.request_hash, h.cost, h.quota, h.source_id,
                   h.cycle, h.windows, h.allowance_day, h.key_epoch, h.key_starts, h.key_amount, h.key_tokens,
                   h.free_cache, h.units, (extract(epoch from h.created_at) * 1000)::bigint as created_ms,
                   (extract(epoch from h.expires_at) * 1000)::bigint as expires_ms
              from unnest(p_day, p_request, p_line) as a(day, request, line)
              join hold h on h.request_id = any(p_request) and h.day between v_first and v_last
                         and h.request_id = a.request and h.line = a.line and h.day = c_epoch + a.day) h;
    if cardinality(p_settles) > 0 then
        -- A request whose hold is open has no usage row.
        select array_agg(a.request) into v_ids from unnest(p_request) with ordinality as a(request, n)
         where n = any(p_settles) and not coalesce(a.request = any(v_ids), false);
        if v_ids is not null then
            select json_agg(u) into settled
              from (select u.request_id, u.line, u.account_id, u.cost, u.catalog, u.settle_hash
                      from unnest(p_day, p_request, p_line) as a(day, request, line)
                      join usage_row u on u.request_id = any(v_ids) and u.day between v_first and v_last
                                      and u.request_id = a.request and u.line = a.line and u.day = c_epoch + a.day) u;
        end if;
    end if;

    if v_rich is not null then
        select json_agg(p) into plans
          from (select s.account_id as account, s.plan_id, p.name, s.source, s.cycle, s.ends_ms, s.auto_renew, s.paid,
                       p.price, array[p.five_hour, p.week, p.month] as ceilings, p.models, p.free_cache,
                       p.daily_searches, p.on_sale
                  from plan_sub s join plan p on p.plan_id = s.plan_id where s.account_id = any(v_rich)) p;
        select json_agg(c) into coupons
          from (select account_id as account, coupon_id as id, name, models, budget, used, reserved, ends_ms
                  from coupon where account_id = any(v_rich) order by ends_ms, coupon_id) c;
        select json_agg(t) into allocations
          from (select account_id as account, alloc_id as id, models, tokens, used, reserved, ends_ms
                  from token_alloc where account_id = any(v_rich) order by ends_ms, alloc_id) t;
        if plans is not null or v_allowed then
            select json_agg(s) into allowances
              from (select account_id as account, day, used, reserved from search_allowance
                     where account_id = any(v_rich)
                       and (day = v_today
                            or day in (select h.allowance_day from hold h where h.request_id = any(p_request)
                                          and h.day between v_first and v_last))) s;
        end if;
        if plans is not null or v_planned then
            select json_agg(w) into windows
              from (select w.account_id as account, w.cycle, w.kind, w.idx, w.used, w.reserved, w.warned, w.spent
                      from (select s.account_id, s.cycle, k.kind, (now_ms - s.cycle) / k.length as idx
                              from plan_sub s,
                                   (values (1, 18000000), (2, 604800000), (3, 2592000000)) as k(kind, length)
                             where s.account_id = any(v_rich)
                            union
                            select h.account_id, h.cycle, k.kind, h.windows[k.kind]
                              from hold h, (values (1), (2), (3)) as k(kind)
                             where h.request_id = any(p_request) and h.day between v_first and v_last
                               and h.cycle is not null) k
                      join plan_window w on w.account_id = k.account_id and w.cycle = k.cycle and w.kind = k.kind
                                        and w.idx = k.idx) w;
        end if;
    end if;

    if cardinality(p_keys) > 0 or v_keyed then
        select json_agg(k) into keys
          from (select account_id as account, key_id as key, epoch, starts, spend_cap, spent, reserved, tokens,
                       tokens_reserved, hit
                  from key_spend
                 where key_id = any(p_keys)
                   and starts in (c_epoch, v_today, date_trunc('week', v_today)::date, date_trunc('month', v_today)::date)
                union
                select k.account_id, k.key_id, k.epoch, k.starts, k.spend_cap, k.spent, k.reserved, k.tokens,
                       k.tokens_reserved, k.hit
                  from hold h join key_spend k on k.key_id = h.key_id and k.epoch = h.key_epoch and k.starts = h.key_starts
                 where v_keyed and h.request_id = any(p_request) and h.day between v_first and v_last) k;
    end if;
    if cardinality(p_members) > 0 or v_member then
        select json_agg(m) into members
          from (select m.account_id as account, m.member_id as member, m.cap, m.cum, m.reserved, m.mark_minute as mark,
                       m.alerted_until_ms,
                       (select s.cum_before from spend_mark s
                         where s.scope_id = m.account_id || '/' || m.member_id and m.cap is not null
                           and s.minute >= floor(extract(epoch from v_now - interval '30 days') / 60)::bigint
                         order by s.minute limit 1) as cum_from
                  from (select split_part(p, '/', 1) as account, split_part(p, '/', 2) as member from unnest(p_members) p
                        union
                        select h.account_id, h.member_id from hold h
                         where v_member and h.request_id = any(p_request) and h.day between v_first and v_last
                           and h.member_id <> '') a
                  join member_spend m on m.account_id = a.account and m.member_id = a.member) m;
    end if;
    if v_limited is not null then
        select json_agg(l) into limits
          from (select w.account_id as account,
                       (select s.cum_before from spend_mark s
                         where s.scope_id = w.account_id
                           and s.minute >= floor(extract(epoch from v_now - w.payg_window) / 60)::bigint
                         order by s.minute limit 1) as cum_from
                  from wallet w where w.account_id = any(v_limited)) l;
    end if;
end $$;

-- Writes what a batch changed. Every part is a JSON array of rows, null where nothing of the kind changed. Raises a
-- key violation when another process was first with one of the ids: the batch is looked at again then.
create function close_books(
    p_holds json, p_ended json, p_usage json, p_transfers json, p_events json, p_conflicts json, p_marks json,
    p_wallets json, p_windows json, p_coupons json, p_allocations json, p_allowances json, p_keys json, p_members json
) returns void language plpgsql
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    set enable_mergejoin = off
as $$
declare
    v_first date;
    v_last date;
    v_ids uuid[];
begin
    if p_ended is not null then
        select min(e.day), max(e.day), array_agg(e.request_id) into v_first, v_last, v_ids
          from json_populate_recordset(null::hold, p_ended) e;
        update hold h set state = e.state, cost = e.cost
          from json_populate_recordset(null::hold, p_ended) e
         where h.request_id = any(v_ids) and h.day between v_first and v_last
           and h.request_id = e.request_id and h.line = e.line and h.day = e.day;
    end if;
    if p_holds is not null then
        insert into hold select h.* from json_populate_recordset(null::hold, p_holds) h;
    end if;
    if p_usage is not null then
        insert into usage_row select u.* from json_populate_recordset(null::usage_row, p_usage) u;
    end if;
    if p_transfers is not null then
        insert into transfer select t.* from json_populate_recordset(null::transfer, p_transfers) t;
    end if;
    if p_events is not null then
        insert into outbox (topic, key, body, traceparent)
        select e.topic, e.key, convert_to(e.body, 'UTF8'), e.trace
          from json_to_recordset(p_events) as e(topic text, key text, body text, trace text);
    end if;
    if p_conflicts is not null then
        insert into settle_conflict (request_id, line, account_id, reason, cost, settle_hash)
        select c.request_id, c.line, c.account_id, c.reason, c.cost, c.settle_hash
          from json_populate_recordset(null::settle_conflict, p_conflicts) c;
    end if;
    if p_marks is not null then
        insert into spend_mark select m.* from json_populate_recordset(null::spend_mark, p_marks) m
        on conflict do nothing;
    end if;
    if p_wallets is not null then
        update wallet w
           set paid = a.paid, bonus = a.bonus, reserved = a.reserved, payg_cum = a.cum, mark_minute = a.mark,
               low_armed = a.low_armed
          from json_to_recordset(p_wallets) as a(account text, paid bigint, bonus bigint, reserved bigint, cum bigint,
                                                 mark bigint, low_armed boolean)
         where w.account_id = a.account;
    end if;
    if p_windows is not null then
        insert into plan_window as w select n.* from json_populate_recordset(null::plan_window, p_windows) n
            on conflict (account_id, cycle, kind, idx) do update
           set used = excluded.used, reserved = excluded.reserved, warned = excluded.warned, spent = excluded.spent;
    end if;
    if p_coupons is not null then
        update coupon c set used = n.used, reserved = n.reserved
          from json_to_recordset(p_coupons) as n(id text, used bigint, reserved bigint) where c.coupon_id = n.id;
    end if;
    if p_allocations is not null then
        update token_alloc t set used = n.used, reserved = n.reserved
          from json_to_recordset(p_allocations) as n(id text, used bigint, reserved bigint) where t.alloc_id = n.id;
    end if;
    if p_allowances is not null then
        insert into search_allowance as s select n.* from json_populate_recordset(null::search_allowance, p_allowances) n
            on conflict (account_id, day) do update set used = excluded.used, reserved = excluded.reserved;
    end if;
    if p_keys is not null then
        insert into key_spend as k select n.* from json_populate_recordset(null::key_spend, p_keys) n
            on conflict (key_id, epoch, starts) do update
           set spend_cap = excluded.spend_cap, spent = excluded.spent, reserved = excluded.reserved,
               tokens = excluded.tokens, tokens_reserved = excluded.tokens_reserved, hit = excluded.hit;
    end if;
    if p_members is not null then
        insert into member_spend as m select n.* from json_populate_recordset(null::member_spend, p_members) n
            on conflict (account_id, member_id) do update
           set cum = excluded.cum, reserved = excluded.reserved, mark_minute = excluded.mark_minute,
               alerted_until_ms = excluded.alerted_until_ms;
    end if;
end $$;

-- Accounts with holds past their life whose wallet nobody works on, locked, with those holds.
create function lock_overdue(p_accounts integer) returns table (day date, request_id uuid, line integer, account_id text)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_locked text[];
begin
    select array_agg(w.account_id) into v_locked
      from (select account_id from wallet
             where account_id = any(array(select distinct h.account_id from hold h
                                           where h.state = 'open' and h.expires_at <= v_now limit p_accounts))
             order by account_id for no key update skip locked) w;
    return query select h.day, h.request_id, h.line, h.account_id from hold h
                  where h.state = 'open' and h.expires_at <= v_now and h.account_id = any(v_locked);
end $$;
