-- Whose a key is, what limits it besides its models, and the public links of shared keys.

alter table api_key
    -- The member whose draw on the account its use is; null: nobody's in particular.
    add column member_id text collate "C" references person,
    -- Empty: the count of the caps never starts anew by itself.
    add column cap_period text not null default '' check (cap_period in ('', 'day', 'week', 'month')),
    add column cap_epoch integer not null default 0 check (cap_epoch >= 0),
    -- Addresses and networks; empty: any.
    add column allowed_ips text[] not null default '{}' check (cardinality(allowed_ips) <= 50),
    -- 0: no limit of the key's own.
    add column requests_per_minute integer not null default 0 check (requests_per_minute >= 0),
    add column tokens_per_minute integer not null default 0 check (tokens_per_minute >= 0);

create index api_key_member on api_key (account_id, member_id) where member_id is not null;

-- Beside api_key: a rotated key hands its link on.
create table share_link (
    link_token text collate "C" primary key check (length(link_token) >= 20),
    key_id text collate "C" not null unique references api_key,
    note text not null default ''
);

insert into share_link (link_token, key_id)
select replace(gen_random_uuid()::text, '-', ''), key_id from api_key where kind = 'shared' and status = 'active';

create function keep_shared_caps() returns trigger language plpgsql as $$
begin
    if old.token_cap <> new.token_cap then
        raise exception 'a token cap is fixed' using errcode = 'integrity_constraint_violation';
    end if;
    if old.kind = 'shared' and (old.spend_cap_micro_idr, old.cap_period, old.cap_epoch)
       is distinct from (new.spend_cap_micro_idr, new.cap_period, new.cap_epoch) then
        raise exception 'the caps of a shared key are fixed' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end
$$;

create trigger api_key_fixed_caps before update of token_cap, spend_cap_micro_idr, cap_period, cap_epoch on api_key
    for each row execute function keep_shared_caps();
