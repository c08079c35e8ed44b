"""Each event takes effect once, although it may arrive several times: the row that remembers it.

Called by handlers inside the transaction that holds the effect. Where a fact has its own key (the request of a
settlement), use that instead: it also catches two events about one fact.
"""

import asyncpg

from libs.kafka.records import Received

INBOX_SQL = """
create table inbox (
    consumer text not null,
    event_id text not null,
    at timestamptz not null default now(),
    primary key (consumer, event_id)
);
create index inbox_at on inbox (at);
"""

_FIRST = "insert into inbox (consumer, event_id) values ($1, $2) on conflict do nothing returning true"
_PRUNE = "delete from inbox where consumer = $1 and at < now() - make_interval(days => $2)"


class Inbox:
    """The memory of one consumer in one database."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer

    async def first_time(self, conn: asyncpg.Connection, received: Received) -> bool:
        """Remember the event in the caller's transaction; False when its effect is there already.

        Two processes with the same event at once: the second waits for the first's transaction to end.
        """
        return await conn.fetchval(_FIRST, self._consumer, received.event_id) is True

    async def prune(self, conn: asyncpg.Connection, keep_days: int) -> None:
        """Forget old events. Keep them longer than the topic does, or a replay from its start acts twice."""
        await conn.execute(_PRUNE, self._consumer, keep_days)
