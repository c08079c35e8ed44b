-- Usage summed by hour and by UTC day, read instead of single rows for the whole hours and days of a window.
-- The outbox is the order in which usage rows were written: the cursor says up to which entry they are summed in.
-- Whoever reads adds what lies behind the cursor, so a sum is exact at any moment, however late the job is.

-- Every row counts twice: under its own key, and under key '*', the whole account.
create table usage_sum (
    account_id text collate "C" not null,
    key_id text collate "C" not null,
    span text collate "C" not null check (span in ('hour', 'day')),
    start timestamptz not null,
    model text collate "C" not null,
    billing_kind text not null,
    requests bigint not null,
    prompt_tokens bigint not null,
    completion_tokens bigint not null,
    cached_tokens bigint not null,
    cache_write_tokens bigint not null,
    cost bigint not null,
    catalog bigint not null,
    primary key (account_id, key_id, span, start, model, billing_kind)
) with (fillfactor = 80);
create index usage_sum_age on usage_sum using brin (start);

create table usage_cursor (
    only_one boolean primary key default true check (only_one),
    outbox_id bigint not null,
    -- Sums of before this have gone together with their rows.
    kept_from timestamptz not null default '-infinity'
);

-- The last id given out in the outbox and, when that is above p_known, a transaction number above those of all
-- transactions that can hold an id up to it. Once none below that number runs, no such id can come into sight any
-- more. The number must be taken after the id was read: a snapshot's upper bound would be too low, for it counts
-- transactions that have ended.
create function outbox_fence(p_known bigint, out last_id bigint, out after_xid xid8) language plpgsql as $$
begin
    last_id := coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox', 'id')::regclass), 0);
    if last_id > p_known then
        after_xid := pg_current_xact_id();
    end if;
end $$;

-- The usage rows whose outbox entries lie behind p_after, up to p_upto; of one account, or of all when it is null.
create function usage_written(p_after bigint, p_upto bigint, p_account text) returns setof usage_row
language plpgsql stable
    -- Plans are made once per connection, perhaps on empty tables, and must be right for full ones as well.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_days date[];
    v_requests uuid[];
    v_lines integer[];
    v_first date;
    v_last date;
begin
    select array_agg(date '1970-01-01' + (('x' || left(e.request, 12))::bit(48)::bigint / 86400000)::integer),
           array_agg(e.request::uuid), array_agg(e.line)
      into v_days, v_requests, v_lines
      from (select b.body -> 'data' ->> 'request_id', (b.body -> 'data' ->> 'line')::integer
              from outbox o, lateral (select convert_from(o.body, 'UTF8')::json as body) b
             where o.id > p_after and o.id <= p_upto and o.topic = 'ledger.entries.v1'
               and (p_account is null or o.key = p_account)
               and b.body ->> 'type' = 'ledger.usage_settled.v1') as e(request, line);
    if v_days is null then
        return;
    end if;
    select min(d), max(d) into v_first, v_last from unnest(v_days) d;
    return query
        select u.* from unnest(v_days, v_requests, v_lines) as a(day, request, line)
          join usage_row u on u.request_id = a.request and u.line = a.line and u.day = a.day
                          and u.day between v_first and v_last;
end $$;

-- Sums in what was written behind the cursor, at most p_rows outbox entries of it, none above p_last, which must be
-- the id of a passed fence. Returns where the cursor is then; null while another process is at it.
-- Only the holder of the cursor's row writes here, so sums are taken without locks of their own.
create function roll_up(p_last bigint, p_rows integer) returns bigint language plpgsql
    set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_from bigint;
    v_to bigint;
    v_kept_from timestamptz;
begin
    select outbox_id, kept_from into v_from, v_kept_from from usage_cursor for no key update skip locked;
    if not found or v_from >= p_last then
        return v_from;
    end if;
    select coalesce((select id from outbox where id > v_from and id <= p_last order by id offset p_rows - 1 limit 1),
                    p_last)
      into v_to;
    insert into usage_sum as h
    select account_id, case grouping(key_id) when 0 then key_id else '*' end, span, date_trunc(span, created_at, 'UTC'),
           model, billing_kind, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens),
           sum(cache_write_tokens), sum(cost), sum(catalog)
      from usage_written(v_from, v_to, null), unnest(array['hour', 'day']) span
     where created_at >= v_kept_from
     group by account_id, span, date_trunc(span, created_at, 'UTC'), model, billing_kind, grouping sets ((key_id), ())
        on conflict (account_id, key_id, span, start, model, billing_kind) do update
       set requests = h.requests + excluded.requests,
           prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
           completion_tokens = h.completion_tokens + excluded.completion_tokens,
           cached_tokens = h.cached_tokens + excluded.cached_tokens,
           cache_write_tokens = h.cache_write_tokens + excluded.cache_write_tokens,
           cost = h.cost + excluded.cost,
           catalog = h.catalog + excluded.catalog;
    update usage_cursor set outbox_id = v_to;
    return v_to;
end $$;

-- What the sums of the days from p_from to before p_to must be, by the single rows: all that are there but those
-- behind the cursor. As one statement it sees one moment, whatever is being written.
create function usage_due(p_from timestamptz, p_to timestamptz) returns setof usage_sum language sql stable as $$
    select account_id, case grouping(key_id) when 0 then key_id else '*' end, span, date_trunc(span, hour, 'UTC'),
           model, billing_kind, sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens),
           sum(cache_write_tokens), sum(cost), sum(catalog)
      from (select account_id, key_id, date_trunc('hour', created_at, 'UTC') as hour, model, billing_kind,
                   sum(n) as requests, sum(n * prompt_tokens) as prompt_tokens,
                   sum(n * completion_tokens) as completion_tokens, sum(n * cached_tokens) as cached_tokens,
                   sum(n * cache_write_tokens) as cache_write_tokens, sum(n * cost) as cost, sum(n * catalog) as catalog
              from (select 1::bigint as n, u.* from usage_row u
                     where u.created_at >= p_from and u.created_at < p_to
                       -- The day of a row is that of its id, which its time can miss by the length of a retry only.
                       and u.day >= (p_from - interval '1 day')::date and u.day <= (p_to + interval '1 day')::date
                    union all
                    select -1, w.* from usage_cursor c, usage_written(c.outbox_id, 9223372036854775807, null) w
                     where w.created_at >= p_from and w.created_at < p_to) r
             group by 1, 2, 3, 4, 5) h, unnest(array['hour', 'day']) span
     group by account_id, span, date_trunc(span, hour, 'UTC'), model, billing_kind, grouping sets ((key_id), ())
    having sum(requests) <> 0
$$;

-- Sums the days from p_from to before p_to anew; both are midnights. The job waits for it, nobody else does.
create function rebuild_usage(p_from timestamptz, p_to timestamptz) returns bigint language plpgsql as $$
declare
    v_rows bigint;
begin
    perform from usage_cursor for no key update;
    delete from usage_sum where start >= p_from and start < p_to;
    insert into usage_sum select * from usage_due(greatest(p_from, (select kept_from from usage_cursor)), p_to);
    get diagnostics v_rows = row_count;
    return v_rows;
end $$;

-- Forgets days whose rows are going to be dropped.
create function forget_usage(p_before date) returns bigint language plpgsql as $$
declare
    v_rows bigint;
begin
    update usage_cursor set kept_from = greatest(kept_from, p_before::timestamp at time zone 'UTC');
    delete from usage_sum where start < p_before::timestamp at time zone 'UTC';
    get diagnostics v_rows = row_count;
    return v_rows;
end $$;

-- Who writes usage rows takes outbox ids after that: with the table locked, all ids given out belong to rows in sight.
lock table usage_row in share mode;
insert into usage_cursor (outbox_id) select last_id from outbox_fence(0);
select rebuild_usage('-infinity', 'infinity');
