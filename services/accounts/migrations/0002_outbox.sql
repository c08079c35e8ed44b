-- Events that leave after the transaction that wrote them (libs/kafka/outbox.py).

create table outbox (
    id bigint generated always as identity primary key,
    topic text not null,
    key text not null,
    body bytea,
    traceparent text not null default '',
    at timestamptz not null default now()
);
