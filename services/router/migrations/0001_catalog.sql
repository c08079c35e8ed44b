-- What is for sale, every earlier state of it, and prices that never change.
-- Amounts are micro-Rupiah per million tokens.

-- A price version is named by its figures; holds and usage rows of the ledger refer to it for ever.
create table price_version (
    version text collate "C" primary key,
    input bigint not null check (input >= 0),
    output bigint not null check (output >= 0),
    cache_read bigint check (cache_read >= 0),
    cache_write bigint check (cache_write >= 0),
    created_at timestamptz not null default now()
);

-- One row per model that was ever for sale. `content` is the published card without its version.
create table model (
    id text collate "C" primary key,
    version integer not null check (version > 0),
    for_sale boolean not null,
    price_version text collate "C" not null references price_version,
    content jsonb not null,
    changed_at timestamptz not null default now()
);

-- Every state a model was in; `number` counts the changes of the whole catalogue.
create table model_revision (
    number bigint generated always as identity primary key,
    model_id text collate "C" not null,
    version integer not null,
    for_sale boolean not null,
    content jsonb not null,
    created_at timestamptz not null default now(),
    unique (model_id, version)
);

-- What a provider listed when it last answered, so that a restart does not need its answer.
create table listing (
    provider text collate "C" primary key,
    base_url text not null,
    models jsonb not null,
    listed_at timestamptz not null default now()
);

-- Events that agree with the rows above; deleted when published.
create table outbox (
    id bigint generated always as identity primary key,
    topic text not null,
    key text not null,
    body bytea,
    traceparent text not null default '',
    at timestamptz not null default now()
);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% keeps its rows as they are', tg_table_name using errcode = 'integrity_constraint_violation';
end
$$;

create trigger price_version_never_changes before update or delete on price_version
    for each row execute function refuse_change();
create trigger model_revision_never_changes before update or delete on model_revision
    for each row execute function refuse_change();
