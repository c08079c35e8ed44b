-- Kinds of keys, what restricts them, when they were last used, and how fast a login key may make others.

alter table api_key
    add column kind text not null default 'dashboard' check (kind in ('dashboard', 'login', 'tool', 'shared')),
    -- The key's first characters, to tell keys apart; empty for keys older than this.
    add column prefix text not null default '' check (length(prefix) <= 11),
    add column parent_key_id text collate "C" references api_key,
    -- The key that was rotated into this one.
    add column replaces_key_id text collate "C" references api_key,
    add column disabled boolean not null default false,
    add column capabilities text[] not null default '{}'
        check (capabilities <@ array['document_reading', 'web_search', 'x_search']),
    -- 0: no cap.
    add column spend_cap_micro_idr bigint not null default 0 check (spend_cap_micro_idr >= 0),
    add column token_cap bigint not null default 0 check (token_cap >= 0),
    add check ((kind = 'tool') = (parent_key_id is not null)),
    add check (shared = (kind = 'shared')),
    add check (kind <> 'shared' or (expires_at is not null and models <> '{}'));

create index api_key_parent on api_key (parent_key_id) where parent_key_id is not null;
create index api_key_replaces on api_key (replaces_key_id) where replaces_key_id is not null;

-- Beside api_key: a use is no change of the key, has no version and waits for no account's lock.
create table key_use (
    key_id text collate "C" primary key references api_key,
    at timestamptz not null
) with (fillfactor = 70);

-- Requests to make a per-tool key in the last minute, refused ones too.
create table tool_key_request (
    login_key_id text collate "C" not null references api_key,
    at timestamptz not null default clock_timestamp()
);

create index tool_key_request_login on tool_key_request (login_key_id, at);
