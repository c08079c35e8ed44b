-- The quieter calls: money coming in, holds kept alive or run out, days closed, settlements looked up.
-- Lock order as in post_batch. Nothing here waits for a hold: what another call has locked is being dealt with.

-- status: 1 credited, 2 credited before (the balance is that of then), 3 the key stands for something else.
create function credit(p_account text, p_amount bigint, p_kind text, p_key text, p_hash uuid, p_ref uuid, p_day integer,
                       out status smallint, out balance bigint, out paid_in_total bigint, out version bigint)
language plpgsql as $$
declare
    v_known record;
begin
    insert into wallet (account_id) values (p_account) on conflict do nothing;
    perform from wallet where account_id = p_account for no key update;
    select i.request_hash, i.result into v_known from idem i where i.scope = 'credit' and i.key = p_key;
    if found then
        status := case when v_known.request_hash = p_hash then 2 else 3 end;
        balance := v_known.result;
        return;
    end if;
    update wallet w
       set paid = w.paid + case when p_kind = 'top_up' then p_amount else 0 end,
           bonus = w.bonus + case when p_kind = 'bonus' then p_amount else 0 end,
           paid_in_total = w.paid_in_total + case when p_kind = 'top_up' then p_amount else 0 end,
           version = w.version + 1
     where w.account_id = p_account
    returning w.paid + w.bonus, w.paid_in_total, w.version into balance, paid_in_total, version;
    insert into transfer
    values (date '1970-01-01' + p_day, p_ref, 0, p_kind, 0, p_account,
            case when p_kind = 'top_up' then 20 else 30 end, case when p_kind = 'top_up' then 1 else 2 end,
            p_amount, clock_timestamp());
    insert into idem (scope, key, request_hash, result) values ('credit', p_key, p_hash, balance);
    status := 1;
end $$;

-- Keeps open holds alive; returns the positions of those that are not open any more.
create function touch_holds(p_day integer[], p_request uuid[], p_line integer[], p_ttl_ms integer) returns integer[]
language plpgsql set enable_seqscan = off as $$
declare
    v_first date;
    v_last date;
    v_until timestamptz := clock_timestamp() + p_ttl_ms * interval '1 millisecond';
    v_gone integer[];
begin
    select date '1970-01-01' + min(d), date '1970-01-01' + max(d) into v_first, v_last from unnest(p_day) d;
    with alive as (
        select h.day, h.request_id, h.line from hold h
         where h.request_id = any(p_request) and h.day between v_first and v_last and h.state = 'open'
           and (h.request_id, h.line) in (select * from unnest(p_request, p_line))
           for no key update skip locked
    )
    update hold h set expires_at = v_until from alive a
     where h.request_id = any(p_request) and h.day between v_first and v_last
       and h.request_id = a.request_id and h.line = a.line and h.day = a.day;
    select coalesce(array_agg(a.n order by a.n), '{}') into v_gone
      from unnest(p_request, p_line) with ordinality as a(request, line, n)
     where not exists (select from hold h
                        where h.request_id = any(p_request) and h.day between v_first and v_last
                          and h.request_id = a.request and h.line = a.line and h.state = 'open');
    return v_gone;
end $$;

-- Ends holds past their life and gives their amounts back, for up to p_accounts accounts that nobody works on.
create function expire_holds(p_accounts integer)
returns table (request_id uuid, line integer, account_id text, amount bigint)
language plpgsql set enable_seqscan = off as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_locked text[];
    v_ids uuid[];
    v_lines integer[];
    v_accounts text[];
    v_amounts bigint[];
begin
    select array_agg(w.account_id) into v_locked
      from (select account_id from wallet
             where account_id = any(array(select distinct h.account_id from hold h
                                           where h.state = 'open' and h.expires_at <= v_now limit p_accounts))
             order by account_id for no key update skip locked) w;
    if v_locked is null then
        return;
    end if;
    with ended as (
        update hold h set state = 'expired'
         where h.state = 'open' and h.expires_at <= v_now and h.account_id = any(v_locked)
        returning h.request_id, h.line, h.account_id, h.amount
    )
    select array_agg(e.request_id), array_agg(e.line), array_agg(e.account_id), array_agg(e.amount)
      into v_ids, v_lines, v_accounts, v_amounts from ended e;
    update wallet w set reserved = w.reserved - e.amount
      from (select a, sum(m)::bigint from unnest(v_accounts, v_amounts) as u(a, m) group by a) as e(account, amount)
     where w.account_id = e.account;
    return query select * from unnest(v_ids, v_lines, v_accounts, v_amounts);
end $$;

-- Positions of settlements that are in the books already, word for word.
create function already_settled(p_day integer[], p_request uuid[], p_line integer[], p_hash uuid[]) returns integer[]
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_first date;
    v_last date;
begin
    select date '1970-01-01' + min(d), date '1970-01-01' + max(d) into v_first, v_last from unnest(p_day) d;
    return (select coalesce(array_agg(a.n), '{}')
              from unnest(p_request, p_line, p_hash) with ordinality as a(request, line, hash, n)
              join usage_row u on u.request_id = any(p_request) and u.day between v_first and v_last
                              and u.request_id = a.request and u.line = a.line and u.settle_hash = a.hash);
end $$;

-- Writes the closing balances of one past day for the accounts whose money moved on it.
create function close_day(p_day date) returns integer language plpgsql as $$
declare
    v_rows integer;
begin
    insert into balance_closed (day) values (p_day) on conflict do nothing;
    if not found then
        return 0;
    end if;
    -- A settlement may book days after the day inside its request id, never before it.
    insert into balance_day (account_id, day, paid, bonus)
    select t.account_id, p_day,
           coalesce(b.paid, 0) + sum(case when t.credit = 1 then t.amount when t.debit = 1 then -t.amount else 0 end),
           coalesce(b.bonus, 0) + sum(case when t.credit = 2 then t.amount when t.debit = 2 then -t.amount else 0 end)
      from transfer t
      left join lateral (select d.paid, d.bonus from balance_day d where d.account_id = t.account_id
                          order by d.day desc limit 1) b on true
     where t.booked_at >= p_day::timestamp at time zone 'UTC' and t.booked_at < (p_day + 1)::timestamp at time zone 'UTC'
       and t.day <= p_day + 1
     group by t.account_id, b.paid, b.bonus;
    get diagnostics v_rows = row_count;
    return v_rows;
end $$;
