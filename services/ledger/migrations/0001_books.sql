-- The books: wallets, holds, double-entry transfers, usage rows and what keeps them honest.
-- Amounts are micro-Rupiah. `day` is the UTC day inside the UUIDv7 of the request, so every retry of a call,
-- on whatever day it arrives, meets the same partition and the same key.

-- One row per account, the mutex for all money of that account. Only settlement may take `paid` below 0.
-- No index but the key and a low fill: an update stays on its page.
create table wallet (
    account_id text collate "C" primary key,
    paid bigint not null default 0,
    bonus bigint not null default 0 check (bonus >= 0),
    reserved bigint not null default 0 check (reserved >= 0),
    -- Money from outside, ever: what qualifies for the free tier.
    paid_in_total bigint not null default 0 check (paid_in_total >= 0),
    -- Usage ever taken from the balance; with spend_mark it gives the spend of any rolling window in one probe.
    payg_cum bigint not null default 0,
    mark_minute bigint not null default 0,
    payg_limit bigint check (payg_limit >= 0),
    payg_window interval,
    -- Grows with every published AccountState.
    version bigint not null default 0,
    check ((payg_limit is null) = (payg_window is null))
) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- payg_cum as it stood before the first spend of each minute.
create table spend_mark (
    scope_id text collate "C" not null,
    minute bigint not null,
    cum_before bigint not null,
    primary key (scope_id, minute)
);

-- What a running request may cost at most.
create table hold (
    day date not null,
    request_id uuid not null,
    line integer not null,
    account_id text collate "C" not null,
    key_id text not null,
    endpoint text not null,
    model text not null,
    funding text not null check (funding = 'payg'),
    state text not null check (state in ('open', 'settled', 'released', 'expired')),
    amount bigint not null check (amount >= 0),
    max_tokens integer not null,
    lowered boolean not null,
    price_version text not null,
    request_hash uuid not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    cost bigint,
    primary key (request_id, line, day),
    check ((state = 'settled') = (cost is not null))
) partition by range (day);
create index hold_due on hold (expires_at) where state = 'open';

-- Double entry: every row moves one amount from one account to another. 1 paid and 2 bonus are the buckets of
-- the customer named in account_id; 10 usage revenue, 20 payment clearing, 30 promotion expense are ours.
create table transfer (
    day date not null,
    request_id uuid not null,
    line integer not null,
    kind text not null check (kind in ('usage', 'top_up', 'bonus')),
    seq smallint not null,
    account_id text collate "C" not null,
    debit smallint not null,
    credit smallint not null,
    amount bigint not null check (amount > 0),
    booked_at timestamptz not null,
    primary key (request_id, line, kind, seq, day),
    check (debit <> credit and debit in (1, 2, 10, 20, 30) and credit in (1, 2, 10, 20, 30))
) partition by range (day);
create index transfer_booked on transfer using brin (booked_at);

-- One row per request served, whoever paid; also the proof that it was settled, and with what.
create table usage_row (
    day date not null,
    request_id uuid not null,
    line integer not null,
    account_id text collate "C" not null,
    key_id text not null,
    model text not null,
    vendor text not null,
    endpoint text not null,
    billing_kind text not null check (billing_kind in ('payg', 'plan', 'coupon', 'token_alloc', 'free', 'byok')),
    outcome text not null,
    estimated boolean not null,
    prompt_tokens integer not null check (prompt_tokens >= 0),
    completion_tokens integer not null check (completion_tokens >= 0),
    cached_tokens integer not null check (cached_tokens >= 0),
    cache_write_tokens integer not null check (cache_write_tokens >= 0),
    cost bigint not null check (cost >= 0),
    catalog bigint not null check (catalog >= 0),
    settle_hash uuid not null,
    created_at timestamptz not null,
    primary key (request_id, line, day),
    check (billing_kind = 'payg' or cost = 0)
) partition by range (day);
create index usage_row_log on usage_row (account_id, created_at);

-- A settlement that says something else than the one that stands.
create table settle_conflict (
    id bigint generated always as identity primary key,
    request_id uuid not null,
    line integer not null,
    account_id text collate "C" not null,
    reason text not null,
    cost bigint not null,
    settle_hash uuid not null,
    at timestamptz not null default now()
);

-- Prices as they were when first used, in micro-Rupiah per million tokens. A version never changes.
create table price_version (
    version text primary key,
    input bigint not null check (input >= 0),
    output bigint not null check (output >= 0),
    cache_read bigint check (cache_read >= 0),
    cache_write bigint check (cache_write >= 0),
    stored_at timestamptz not null default now()
);

-- First result of calls that carry a key of the caller's; kept for ever.
create table idem (
    scope text not null,
    key text not null,
    request_hash uuid not null,
    result bigint not null,
    at timestamptz not null default now(),
    primary key (scope, key)
);

-- Closing balances, built from transfers only, so that wallets can be checked without reading all history.
create table balance_day (
    account_id text collate "C" not null,
    day date not null,
    paid bigint not null,
    bonus bigint not null,
    primary key (account_id, day)
);
create table balance_closed (day date primary key, at timestamptz not null default now());

-- Events on their way to the bus, a log that the relay reads along in order of id (libs/kafka/outbox.py).
create table outbox (
    xid xid8 not null default pg_current_xact_id(),
    id bigint generated always as identity,
    topic text not null,
    key text not null,
    body bytea,
    traceparent text not null default '',
    at timestamptz not null default now()
) partition by range (at);
create index outbox_order on outbox (id);
create table outbox_cursor (
    only_one boolean primary key default true check (only_one),
    id bigint not null default 0
);
insert into outbox_cursor default values;

create function utc_day() returns date language sql stable as $$ select (now() at time zone 'UTC')::date $$;

-- Makes the partitions of the coming days; a row that finds none goes to the DEFAULT one, which raises an alarm.
create function make_partitions(p_first date, p_last date) returns integer language plpgsql as $$
declare
    v_table text;
    v_day date;
    v_name text;
    v_made integer := 0;
begin
    foreach v_table in array array['hold', 'transfer', 'usage_row', 'outbox'] loop
        for v_day in select generate_series(p_first, p_last, interval '1 day')::date loop
            v_name := format('%s_%s', v_table, to_char(v_day, 'YYYYMMDD'));
            if to_regclass(v_name) is null then
                -- Made aside and attached: creating it in place would lock the parent against everybody.
                execute format('create table %I (like %I including defaults including constraints)', v_name, v_table);
                -- Bounds of the outbox are instants, of the others days; midnight is meant as UTC.
                execute format('alter table %I attach partition %I for values from (%L) to (%L)', v_table, v_name,
                               v_day || case v_table when 'outbox' then ' 00:00+00' else '' end,
                               v_day + 1 || case v_table when 'outbox' then ' 00:00+00' else '' end);
                perform protect_entries(v_name);
                v_made := v_made + 1;
            end if;
        end loop;
    end loop;
    return v_made;
end $$;

-- Entries are only ever added: the service's own role loses the right to change them.
create function protect_entries(p_table text) returns void language plpgsql as $$
begin
    if p_table ~ '^(transfer|usage_row|settle_conflict)' then
        execute format('revoke update, delete, truncate on %I from current_user', p_table);
    end if;
end $$;

create table hold_default partition of hold default;
create table transfer_default partition of transfer default;
create table usage_row_default partition of usage_row default;
create table outbox_default partition of outbox default;
select protect_entries(t) from unnest(array['transfer', 'transfer_default', 'usage_row', 'usage_row_default',
                                            'settle_conflict']) t;
select make_partitions(utc_day() - 1, utc_day() + 7);
