-- The calls: every change of money is one statement, one function, one transaction, one round trip.
-- Lock order: wallets by account_id, then holds, then rows in key order. Nothing here waits for a second wallet
-- after it has touched anything else, and the sweeper skips locked wallets, so no two calls can wait in a circle.

-- Settles, releases and admits for several accounts at once. Arrays starting with f_ are finishes, with r_
-- reservations; both lie in the order of p_accounts (sorted, distinct), in arrival order inside an account;
-- p_f_end and p_r_end say at which position an account's items end. p_paying: accounts whose wallet is concerned;
-- free requests leave it alone. Answers come back in the same positions.
--   f_action: 0 release, 1 settle, 2 settle and make the hold when it is missing (its signed descriptor was seen).
--   out_f_status: 1 done, 2 was done before (same content), 3 conflict (the first stands), 4 no such hold,
--                 5 another account's hold, 6 other price version than held (out_f_price says which), 7 nothing to do
--   out_r_status: 1 granted, 2 granted before, 3 insufficient_balance, 4 payg_limit_reached, 5 already finished,
--                 6 other content under this id, 7 id too far from the clock
create function post_batch(
    p_accounts text[], p_paying text[], p_f_end integer[], p_r_end integer[], p_topic text, p_ttl_ms integer, p_id_window_ms bigint,
    f_day integer[], f_request uuid[], f_line integer[], f_action smallint[], f_account text[], f_key text[],
    f_endpoint text[], f_model text[], f_vendor text[], f_price text[], f_kind text[], f_outcome text[],
    f_estimated boolean[], f_prompt integer[], f_completion integer[], f_cached integer[], f_written integer[],
    f_cost bigint[], f_catalog bigint[], f_hash uuid[], f_started_ms bigint[], f_event text[], f_trace text[],
    r_ms bigint[], r_request uuid[], r_line integer[], r_account text[], r_key text[], r_endpoint text[],
    r_model text[], r_price text[], r_hash uuid[], r_asked integer[], r_full bigint[], r_least bigint[],
    r_input_tokens integer[], r_input_price bigint[], r_output_price bigint[],
    out out_f_status smallint[], out out_f_cost bigint[], out out_f_catalog bigint[], out out_f_available bigint[],
    out out_f_price text[],
    out out_r_status smallint[], out out_r_tokens integer[], out out_r_amount bigint[], out out_r_available bigint[],
    out out_r_price text[]
) language plpgsql
    -- Plans are made once per connection, perhaps on empty tables, and must be right for full ones as well.
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
    set enable_mergejoin = off
as $$
declare
    c_epoch constant date := '1970-01-01';
    v_now timestamptz;
    v_now_ms bigint;
    v_minute bigint;
    v_first date;
    v_last date;
    v_n integer := cardinality(p_accounts);
    v_nf integer := cardinality(f_request);
    v_nr integer := cardinality(r_request);
    -- wallets as locked, found ones only, and the running state of the account in hand
    w_account text[]; w_paid bigint[]; w_bonus bigint[]; w_reserved bigint[]; w_cum bigint[]; w_mark bigint[];
    w_limit bigint[]; w_window interval[];
    v_wallets integer;
    w integer := 0;
    v_found boolean;
    v_paid bigint; v_bonus bigint; v_reserved bigint; v_cum bigint; v_blocked boolean; v_new_mark bigint;
    -- what is stored for the ids of this call
    s_state text[]; s_account text[]; s_price text[]; s_amount bigint[]; s_cost bigint[]; s_catalog bigint[];
    s_hash uuid[];
    k_state text[]; k_account text[]; k_price text[]; k_amount bigint[]; k_tokens integer[]; k_hash uuid[];
    -- what is to be written
    x_state text[]; x_bonus bigint[]; x_paid bigint[];
    x_settled integer := 0; x_holds integer := 0; x_created integer := 0; x_charged integer := 0;
    x_granted integer := 0; x_reserved integer := 0; x_marked integer := 0; x_conflicts integer := 0;
    m_account text[]; m_cum bigint[];
    v_decision decision;
    v_cost bigint;
    v_bonus_part bigint;
    v_ids uuid[];
    i integer;
    f integer := 0;
    r integer := 0;
begin
    -- A charge without a hold may concern an account that has no wallet yet.
    if 2 = any(f_action) then
        insert into wallet (account_id)
        select distinct a from unnest(f_account, f_action) as u(a, act) where act = 2 order by a
        on conflict do nothing;
    end if;
    select array_agg(l.account_id), array_agg(l.paid), array_agg(l.bonus), array_agg(l.reserved),
           array_agg(l.payg_cum), array_agg(l.mark_minute), array_agg(l.payg_limit), array_agg(l.payg_window)
      into w_account, w_paid, w_bonus, w_reserved, w_cum, w_mark, w_limit, w_window
      from (select * from wallet where account_id = any(p_paying) order by account_id for no key update) l;
    v_wallets := coalesce(cardinality(w_account), 0);
    v_now := clock_timestamp();
    v_now_ms := (extract(epoch from v_now) * 1000)::bigint;
    v_minute := v_now_ms / 60000;

    if v_nf > 0 then
        select c_epoch + min(d), c_epoch + max(d) into v_first, v_last from unnest(f_day) d;
        select array_agg(h.state order by n), array_agg(h.account_id order by n), array_agg(h.price_version order by n),
               array_agg(h.amount order by n)
          into s_state, s_account, s_price, s_amount
          from unnest(f_day, f_request, f_line) with ordinality as a(day, request, line, n)
          left join hold h on h.request_id = any(f_request) and h.day between v_first and v_last
                          and h.request_id = a.request and h.line = a.line and h.day = c_epoch + a.day;
        s_hash := array_fill(null::uuid, array[v_nf]);
        -- An open hold has no usage row.
        select array_agg(a.request) into v_ids from unnest(f_request, f_action, s_state) as a(request, action, state)
         where a.action > 0 and (a.state is null or a.state = 'settled');
        if v_ids is not null then
            select array_agg(coalesce(u.account_id, a.account) order by n), array_agg(u.cost order by n),
                   array_agg(u.catalog order by n), array_agg(u.settle_hash order by n)
              into s_account, s_cost, s_catalog, s_hash
              from unnest(f_day, f_request, f_line, s_account) with ordinality as a(day, request, line, account, n)
              left join usage_row u on u.request_id = any(v_ids) and u.day between v_first and v_last
                                   and u.request_id = a.request and u.line = a.line and u.day = c_epoch + a.day;
        end if;
        x_state := array_fill(null::text, array[v_nf]);
        x_bonus := array_fill(0::bigint, array[v_nf]);
        x_paid := x_bonus;
        out_f_status := array_fill(7::smallint, array[v_nf]);
        out_f_cost := x_bonus;
        out_f_catalog := x_bonus;
        out_f_available := x_bonus;
        out_f_price := s_price;
    end if;
    if v_nr > 0 then
        select c_epoch + (min(ms) / 86400000)::integer, c_epoch + (max(ms) / 86400000)::integer
          into v_first, v_last from unnest(r_ms) ms;
        select array_agg(h.state order by n), array_agg(h.account_id order by n), array_agg(h.price_version order by n),
               array_agg(h.amount order by n), array_agg(h.max_tokens order by n), array_agg(h.request_hash order by n)
          into k_state, k_account, k_price, k_amount, k_tokens, k_hash
          from unnest(r_ms, r_request, r_line) with ordinality as a(ms, request, line, n)
          left join hold h on h.request_id = any(r_request) and h.day between v_first and v_last
                          and h.request_id = a.request and h.line = a.line
                          and h.day = c_epoch + (a.ms / 86400000)::integer;
        out_r_status := array_fill(0::smallint, array[v_nr]);
        out_r_tokens := array_fill(0, array[v_nr]);
        out_r_amount := array_fill(0::bigint, array[v_nr]);
        out_r_available := out_r_amount;
        out_r_price := k_price;
    end if;

    for i in 1 .. v_n loop
        v_found := w < v_wallets and w_account[w + 1] = p_accounts[i];
        if v_found then
            w := w + 1;
            v_paid := w_paid[w]; v_bonus := w_bonus[w]; v_reserved := w_reserved[w]; v_cum := w_cum[w];
        else
            v_paid := 0; v_bonus := 0; v_reserved := 0; v_cum := 0;
        end if;
        v_new_mark := null;

        while f < p_f_end[i] loop
            f := f + 1;
            v_cost := f_cost[f];
            if s_account[f] <> p_accounts[i] then
                out_f_status[f] := 5;
            elsif f_action[f] = 0 then
                if s_state[f] = 'open' then
                    v_reserved := v_reserved - s_amount[f];
                    x_state[f] := 'released';
                    x_holds := x_holds + 1;
                    out_f_status[f] := 1;
                elsif s_state[f] = 'released' then
                    out_f_status[f] := 2;
                end if;
            elsif s_hash[f] is not null then
                out_f_cost[f] := s_cost[f];
                out_f_catalog[f] := s_catalog[f];
                if s_hash[f] = f_hash[f] then
                    out_f_status[f] := 2;
                else
                    out_f_status[f] := 3;
                    x_conflicts := x_conflicts + 1;
                end if;
            elsif f_kind[f] <> 'payg' then
                if s_state[f] is null then
                    out_f_status[f] := 1;
                    out_f_catalog[f] := f_catalog[f];
                    x_settled := x_settled + 1;
                else
                    out_f_status[f] := 3;
                    x_conflicts := x_conflicts + 1;
                end if;
            elsif s_state[f] = 'released' then
                out_f_status[f] := 3;
                x_conflicts := x_conflicts + 1;
            elsif s_state[f] is null and f_action[f] = 1 then
                out_f_status[f] := 4;
            elsif s_price[f] <> f_price[f] then
                out_f_status[f] := 6;
            else
                if s_state[f] = 'open' then
                    v_reserved := v_reserved - s_amount[f];
                end if;
                if s_state[f] is null then
                    x_created := x_created + 1;
                else
                    x_state[f] := 'settled';
                    x_holds := x_holds + 1;
                end if;
                if v_cost > 0 then
                    if v_minute > w_mark[w] then
                        w_mark[w] := v_minute;
                        x_marked := x_marked + 1;
                        m_account[x_marked] := p_accounts[i];
                        m_cum[x_marked] := v_cum;
                        v_new_mark := v_cum;
                    end if;
                    v_bonus_part := least(v_bonus, v_cost);
                    v_bonus := v_bonus - v_bonus_part;
                    v_paid := v_paid - (v_cost - v_bonus_part);
                    v_cum := v_cum + v_cost;
                    x_bonus[f] := v_bonus_part;
                    x_paid[f] := v_cost - v_bonus_part;
                    x_charged := x_charged + 1;
                end if;
                out_f_status[f] := 1;
                out_f_cost[f] := v_cost;
                out_f_catalog[f] := f_catalog[f];
                x_settled := x_settled + 1;
            end if;
            out_f_available[f] := greatest(v_paid + v_bonus - v_reserved, 0);
        end loop;

        if r < p_r_end[i] then
            v_blocked := false;
            if v_found and w_limit[w] is not null then
                select v_cum - coalesce(min(s.cum_before), v_new_mark, v_cum) >= w_limit[w] into v_blocked
                  from (select cum_before from spend_mark
                         where scope_id = p_accounts[i]
                           and minute >= floor(extract(epoch from v_now - w_window[w]) / 60)::bigint
                         order by minute limit 1) s;
            end if;
        end if;
        while r < p_r_end[i] loop
            r := r + 1;
            if abs(r_ms[r] - v_now_ms) > p_id_window_ms then
                out_r_status[r] := 7;
            elsif k_state[r] is not null then
                if k_hash[r] <> r_hash[r] or k_account[r] <> p_accounts[i] then
                    out_r_status[r] := 6;
                elsif k_state[r] <> 'open' then
                    out_r_status[r] := 5;
                else
                    out_r_status[r] := 2;
                    out_r_tokens[r] := k_tokens[r];
                    out_r_amount[r] := k_amount[r];
                end if;
            else
                v_decision := decide(v_paid + v_bonus - v_reserved, v_blocked, r_asked[r], r_full[r], r_least[r],
                                     r_input_tokens[r], r_input_price[r], r_output_price[r]);
                if v_decision.refusal is null and v_found then
                    v_reserved := v_reserved + v_decision.amount;
                    out_r_status[r] := 1;
                    out_r_tokens[r] := v_decision.max_tokens;
                    out_r_amount[r] := v_decision.amount;
                    x_granted := x_granted + 1;
                elsif v_decision.refusal = 'payg_limit_reached' then
                    out_r_status[r] := 4;
                else
                    out_r_status[r] := 3;
                end if;
            end if;
            out_r_available[r] := greatest(v_paid + v_bonus - v_reserved, 0);
        end loop;

        if v_found then
            w_paid[w] := v_paid; w_bonus[w] := v_bonus; w_reserved[w] := v_reserved; w_cum[w] := v_cum;
        end if;
    end loop;

    if x_holds > 0 then
        select c_epoch + min(d), c_epoch + max(d) into v_first, v_last from unnest(f_day) d;
        update hold h set state = a.state, cost = case when a.state = 'settled' then a.cost end
          from unnest(f_day, f_request, f_line, x_state, f_cost) as a(day, request, line, state, cost)
         where h.request_id = any(f_request) and h.day between v_first and v_last
           and h.request_id = a.request and h.line = a.line and h.day = c_epoch + a.day and a.state is not null;
    end if;
    if x_created > 0 then
        -- Nothing is reserved for it: the amount that once was is gone with the hold.
        insert into hold
        select c_epoch + a.day, a.request, a.line, a.account, a.key, a.endpoint, a.model, 'payg', 'settled', 0,
               0, false, a.price, a.hash, v_now, v_now, a.cost
          from unnest(f_day, f_request, f_line, f_account, f_key, f_endpoint, f_model, f_price, f_hash, f_cost,
                      f_action, out_f_status, s_state, f_kind)
            as a(day, request, line, account, key, endpoint, model, price, hash, cost, action, status, state, kind)
         where a.action = 2 and a.status = 1 and a.state is null and a.kind = 'payg'
         order by 1, 2, 3;
    end if;
    if x_settled > 0 then
        -- Free requests lock no wallet, so another call may be first with one: a unique violation, and the caller
        -- tries the batch again.
        insert into usage_row
        select c_epoch + a.day, a.request, a.line, a.account, a.key, a.model, a.vendor, a.endpoint, a.kind, a.outcome,
               a.estimated, a.prompt, a.completion, a.cached, a.written, a.cost, a.catalog, a.hash,
               timestamptz 'epoch' + a.started_ms * interval '1 millisecond'
          from unnest(f_day, f_request, f_line, f_account, f_key, f_model, f_vendor, f_endpoint, f_kind, f_outcome,
                      f_estimated, f_prompt, f_completion, f_cached, f_written, f_cost, f_catalog, f_hash, f_started_ms,
                      f_action, out_f_status)
            as a(day, request, line, account, key, model, vendor, endpoint, kind, outcome, estimated, prompt,
                 completion, cached, written, cost, catalog, hash, started_ms, action, status)
         where a.action > 0 and a.status = 1
         order by 1, 2, 3;
        insert into outbox (topic, key, body, traceparent)
        select p_topic, a.account, convert_to(a.event, 'UTF8'), a.trace
          from unnest(f_account, f_event, f_trace, f_action, out_f_status) as a(account, event, trace, action, status)
         where a.action > 0 and a.status = 1;
    end if;
    if x_charged > 0 then
        insert into transfer
        select c_epoch + a.day, a.request, a.line, 'usage', l.seq, a.account, l.bucket, 10, l.amount, v_now
          from unnest(f_day, f_request, f_line, f_account, x_bonus, x_paid)
            as a(day, request, line, account, bonus, paid),
               lateral (values (0, 2, a.bonus), (1, 1, a.paid)) as l(seq, bucket, amount)
         where l.amount > 0;
    end if;
    if x_conflicts > 0 then
        insert into settle_conflict (request_id, line, account_id, reason, cost, settle_hash)
        select a.request, a.line, a.account, coalesce(a.state, 'settled'), a.cost, a.hash
          from unnest(f_request, f_line, f_account, s_state, f_cost, f_hash, out_f_status)
            as a(request, line, account, state, cost, hash, status)
         where a.status = 3;
    end if;
    if x_marked > 0 then
        insert into spend_mark select a, v_minute, c from unnest(m_account, m_cum) as m(a, c) on conflict do nothing;
    end if;
    if x_granted > 0 then
        insert into hold
        select c_epoch + (a.ms / 86400000)::integer, a.request, a.line, a.account, a.key, a.endpoint, a.model, 'payg',
               'open', a.amount, a.tokens, a.tokens < a.asked, a.price, a.hash, v_now,
               v_now + p_ttl_ms * interval '1 millisecond', null
          from unnest(r_ms, r_request, r_line, r_account, r_key, r_endpoint, r_model, r_price, r_hash, r_asked,
                      out_r_amount, out_r_tokens, out_r_status)
            as a(ms, request, line, account, key, endpoint, model, price, hash, asked, amount, tokens, status)
         where a.status = 1
         order by 1, 2, 3;
    end if;
    if x_granted > 0 or x_holds > 0 or x_charged > 0 then
        update wallet u
           set paid = a.paid, bonus = a.bonus, reserved = a.reserved, payg_cum = a.cum, mark_minute = a.mark
          from unnest(w_account, w_paid, w_bonus, w_reserved, w_cum, w_mark)
            as a(account, paid, bonus, reserved, cum, mark)
         where u.account_id = a.account
           and (u.reserved <> a.reserved or u.payg_cum <> a.cum);
    end if;
end $$;
