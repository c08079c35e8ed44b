-- Idempotency keys of clients and what became of their requests; rows are forgotten after a day.

create table idempotency (
    account_id text collate "C" not null,
    -- The shared key whose own this is; empty: the account's.
    key_id text collate "C" not null,
    key text collate "C" not null check (length(key) between 1 and 255),
    request_id uuid not null,
    -- SHA-256 of what was asked.
    fingerprint bytea not null check (octet_length(fingerprint) = 32),
    state text not null check (state in ('running', 'kept', 'lost')),
    claimed_at timestamptz not null default clock_timestamp(),
    -- A running request whose edge has died is given up after this.
    lease_until timestamptz not null,
    status smallint,
    headers jsonb,
    body bytea check (octet_length(body) <= 1048576),
    primary key (account_id, key_id, key),
    check ((state = 'kept') = (status is not null and headers is not null and body is not null))
);

create index idempotency_claimed on idempotency (claimed_at);
