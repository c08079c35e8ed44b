-- Accounts and their API keys. The key itself is nowhere: only its keyed hash.

create table account (
    account_id text collate "C" primary key,
    name text not null,
    status text not null default 'active' check (status in ('active', 'suspended')),
    -- 0: the limiter's default.
    requests_per_minute integer not null default 0 check (requests_per_minute >= 0),
    -- Version of the published settings; 0 until there are any.
    settings_version bigint not null default 0,
    created_at timestamptz not null default now()
);

create table api_key (
    key_id text collate "C" primary key,
    key_hash text collate "C" not null unique check (key_hash ~ '^[0-9a-f]{64}$'),
    account_id text collate "C" not null references account,
    label text not null,
    status text not null default 'active' check (status in ('active', 'revoked')),
    -- Null: never.
    expires_at timestamptz,
    -- Empty: every model.
    models text[] not null default '{}',
    shared boolean not null default false,
    -- Grows with every change of this key or of its account's status.
    version bigint not null default 1,
    created_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    revoked_at timestamptz,
    check ((status = 'revoked') = (revoked_at is not null))
);

create index api_key_account on api_key (account_id);
-- For watchers that were away for a while.
create index api_key_changed on api_key (changed_at);

create function keep_revoked() returns trigger language plpgsql as $$
begin
    if old.status = 'revoked' and new.status <> 'revoked' then
        raise exception 'a revoked key stays revoked' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end
$$;

create trigger api_key_revoked_is_final before update on api_key
    for each row execute function keep_revoked();
