-- People, and which of them share an account (a workspace) in which role.

create table person (
    person_id text collate "C" primary key,
    -- Lower case: an address is one person's however it is typed.
    email text collate "C" not null unique check (email = lower(email)),
    name text not null,
    created_at timestamptz not null default now()
);

create table member (
    account_id text collate "C" not null references account,
    person_id text collate "C" not null references person,
    role text not null check (role in ('owner', 'admin', 'member')),
    since timestamptz not null default now(),
    primary key (account_id, person_id)
);

create index member_person on member (person_id);
