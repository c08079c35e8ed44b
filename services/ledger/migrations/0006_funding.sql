-- What else may pay for a request than the balance, and what may stop it: plans with quota windows, coupons, token
-- allocations, caps of keys and members, the daily allowance of searches; and jobs that are paid when accepted.
-- The wallet row stays the mutex of its account: whoever changes a row of these tables has locked it first.
-- How they work together is not here but in services/ledger/domain.

alter table wallet
    add keep_balance boolean not null default false,
    add free_fallback boolean not null default false,
    add alert_pct smallint not null default 80 check (alert_pct in (50, 80, 90)),
    -- The alert of a low balance: below this it fires when armed; a top-up to it or above arms it.
    add low_threshold bigint not null default 20000000000 check (low_threshold >= 0),
    add low_armed boolean not null default false,
    -- Ever had a plan, a coupon or tokens: all other accounts are spared looking for them.
    add has_grants boolean not null default false;
update wallet set low_armed = true where paid + bonus >= low_threshold;

create table plan (
    plan_id text collate "C" primary key,
    name text not null,
    price bigint not null check (price >= 0),
    -- Ceilings of the quota windows, in micro-Rupiah at list price; null is no ceiling.
    five_hour bigint check (five_hour > 0),
    week bigint check (week > 0),
    month bigint check (month > 0),
    models text[] not null,
    free_cache text[] not null,
    free_daily integer check (free_daily >= 0),
    daily_searches integer not null check (daily_searches >= 0),
    on_sale boolean not null,
    changed_at timestamptz not null default now()
);

-- The plan an account has, or had last. cycle is the millisecond its windows are counted from.
create table plan_sub (
    account_id text collate "C" primary key,
    plan_id text collate "C" not null references plan,
    source text not null check (source in ('paid', 'gift', 'trial', 'granted')),
    cycle bigint not null,
    ends_ms bigint not null,
    auto_renew boolean not null,
    -- What thirty days of it cost: worth of the days left when it is upgraded.
    paid bigint not null check (paid >= 0),
    -- That it has ended has been told.
    lapsed boolean not null default false
);
create index plan_sub_end on plan_sub (ends_ms) where not lapsed;

-- kind: 1 five hours, 2 week, 3 month. A row is there from the first request of its window.
create table plan_window (
    account_id text collate "C" not null,
    cycle bigint not null,
    kind smallint not null check (kind in (1, 2, 3)),
    idx bigint not null,
    used bigint not null check (used >= 0),
    reserved bigint not null check (reserved >= 0),
    warned boolean not null,
    spent boolean not null,
    primary key (account_id, cycle, kind, idx)
) with (fillfactor = 60);

create table coupon (
    coupon_id text collate "C" primary key,
    account_id text collate "C" not null,
    name text not null,
    models text[] not null,
    budget bigint check (budget > 0),
    used bigint not null default 0 check (used >= 0),
    reserved bigint not null default 0 check (reserved >= 0),
    ends_ms bigint not null,
    created_at timestamptz not null default now()
) with (fillfactor = 60);
create index coupon_account on coupon (account_id);

create table token_alloc (
    alloc_id text collate "C" primary key,
    account_id text collate "C" not null,
    -- Empty: every model.
    models text[] not null,
    tokens bigint not null check (tokens > 0),
    used bigint not null default 0 check (used >= 0),
    reserved bigint not null default 0 check (reserved >= 0),
    ends_ms bigint not null,
    created_at timestamptz not null default now()
) with (fillfactor = 60);
create index token_alloc_account on token_alloc (account_id);

-- What a capped key has used since its owner last started the count (epoch) and since the day its caps renewed.
create table key_spend (
    key_id text collate "C" not null,
    epoch integer not null,
    starts date not null,
    account_id text collate "C" not null,
    -- The cap as it was last told; 0 is none.
    spend_cap bigint not null,
    spent bigint not null check (spent >= 0),
    reserved bigint not null check (reserved >= 0),
    tokens bigint not null check (tokens >= 0),
    tokens_reserved bigint not null check (tokens_reserved >= 0),
    hit boolean not null,
    primary key (key_id, epoch, starts)
) with (fillfactor = 60);

-- A member's draw on the balance of the workspace, kept as the wallet keeps payg_cum, capped or not. Its marks are
-- in spend_mark under 'account/member'.
create table member_spend (
    account_id text collate "C" not null,
    member_id text collate "C" not null,
    cap bigint check (cap >= 0),
    cum bigint not null default 0 check (cum >= 0),
    reserved bigint not null default 0 check (reserved >= 0),
    mark_minute bigint not null default 0,
    -- No second alert before this.
    alerted_until_ms bigint not null default 0,
    primary key (account_id, member_id)
) with (fillfactor = 60);

-- Searches and fetches taken from the plan's allowance on one UTC day.
create table search_allowance (
    account_id text collate "C" not null,
    day date not null,
    used integer not null check (used >= 0),
    reserved integer not null check (reserved >= 0),
    primary key (account_id, day)
);

alter table hold
    drop constraint hold_funding_check,
    drop constraint hold_state_check,
    drop constraint hold_check,
    add constraint hold_funding_check check (funding in ('payg', 'plan', 'coupon', 'token_alloc', 'free', 'byok')),
    -- posted: paid in full when accepted; then settled or refunded.
    add constraint hold_state_check check (state in ('open', 'settled', 'released', 'expired', 'posted', 'refunded')),
    add constraint hold_check check ((state in ('settled', 'posted', 'refunded')) = (cost is not null)),
    add member_id text not null default '',
    -- Held on the coupon or every window, in micro-Rupiah; on the token allocation, in tokens; on the allowance, in calls.
    add quota bigint not null default 0 check (quota >= 0),
    add source_id text,
    add cycle bigint,
    -- Index of the window of each kind; null where that kind had no ceiling.
    add windows bigint[],
    add allowance_day date,
    add key_epoch integer,
    add key_starts date,
    add key_amount bigint not null default 0 check (key_amount >= 0),
    add key_tokens bigint not null default 0 check (key_tokens >= 0),
    add free_cache boolean not null default false,
    add units integer not null default 0 check (units >= 0);

alter table usage_row
    add member_id text not null default '',
    add cache_saved bigint not null default 0 check (cache_saved >= 0),
    add units integer not null default 0 check (units >= 0);

-- 40 jobs paid and not done yet, 60 plan revenue.
alter table transfer
    drop constraint transfer_kind_check,
    drop constraint transfer_check,
    add constraint transfer_kind_check
        check (kind in ('usage', 'top_up', 'bonus', 'charge', 'complete', 'refund', 'plan')),
    add constraint transfer_check check (debit <> credit and debit in (1, 2, 10, 20, 30, 40, 60)
                                         and credit in (1, 2, 10, 20, 30, 40, 60));

alter table price_version add unit bigint check (unit >= 0);

alter table idem add column ref text;

drop function credit(text, bigint, text, text, uuid, uuid, integer);
-- status: 1 credited, 2 credited before (the balance is that of then), 3 the key stands for something else.
create function credit(p_account text, p_amount bigint, p_kind text, p_key text, p_hash uuid, p_ref uuid, p_day integer,
                       out status smallint, out balance bigint)
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
           low_armed = w.low_armed or w.paid + w.bonus + p_amount >= w.low_threshold,
           version = w.version + 1
     where w.account_id = p_account
    returning w.paid + w.bonus into balance;
    insert into transfer
    values (date '1970-01-01' + p_day, p_ref, 0, p_kind, 0, p_account,
            case when p_kind = 'top_up' then 20 else 30 end, case when p_kind = 'top_up' then 1 else 2 end,
            p_amount, clock_timestamp());
    insert into idem (scope, key, request_hash, result) values ('credit', p_key, p_hash, balance);
    status := 1;
end $$;
