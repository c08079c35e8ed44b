-- Routes that accounts build themselves.

create table named_route (
    route_id text collate "C" primary key,
    account_id text collate "C" not null,
    -- Compared exactly, letter case and all.
    name text collate "C" not null check (char_length(name) between 1 and 64),
    strategy text not null check (strategy in ('fallback', 'round_robin', 'random', 'weighted', 'latency')),
    -- How many requests of strategy round_robin there were; one count for all processes.
    turn bigint not null default 0,
    created_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    unique (account_id, name)
);

-- A step is one model and one credential, in the order of the route.
create table named_route_step (
    route_id text collate "C" not null references named_route on delete cascade,
    place integer not null check (place >= 0),
    model text collate "C" not null check (model <> ''),
    credential text not null check (credential <> ''),
    weight integer not null default 1 check (weight >= 0),
    primary key (route_id, place)
);
