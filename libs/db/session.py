"""One connection for one worker that runs transaction after transaction.

Made by ``Database.session``. It spares the pool's reset between uses, a round trip each, and keeps prepared plans.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from libs.db.errors import FAILURES, away

Connect = Callable[[], Awaitable[Any]]
T = TypeVar("T")


class Session:
    """A connection that is kept between statements and replaced after any failure. Not for concurrent use."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._conn: Any = None

    async def transact(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do the work on the connection inside a transaction, which is rolled back when it raises.

        Raises DatabaseAwayError, after which the same work may be done again if it is idempotent, the server's own
        refusal (``asyncpg.PostgresError``, also for an argument that does not fit its type), and what the work raises.
        """

        async def inside(conn: Any) -> T:
            async with conn.transaction():
                return await work(conn)

        return await self._guarded(inside)

    async def _guarded(self, work: Callable[[Any], Awaitable[T]]) -> T:
        try:
            if self._conn is None:
                self._conn = await self._connect()
            return await work(self._conn)
        except asyncio.CancelledError:
            # What the server still does is unknown to whoever comes next.
            self._drop()
            raise
        except FAILURES as error:
            lost = away(error)
            if lost is None:
                raise
            self._drop()
            raise lost from error

    async def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(*FAILURES):
                await conn.close(timeout=1.0)

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.terminate()
