"""One connection for one worker that runs statement after statement.

Made by ``Database.session``. It spares the pool's reset between uses, a round trip each, and keeps prepared plans.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from libs.db.errors import FAILURES, away

Connect = Callable[[], Awaitable[Any]]


class Session:
    """A connection that is kept between statements and replaced after any failure. Not for concurrent use."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._conn: Any = None

    async def fetchrow(self, statement: str, *arguments: Any) -> Any:
        """Run one statement as a transaction of its own and return its first row.

        Raises DatabaseAwayError, after which the same statement may be asked again if it is idempotent, or the
        server's own refusal (``asyncpg.PostgresError``, also for an argument that does not fit its type).
        """
        try:
            if self._conn is None:
                self._conn = await self._connect()
            return await self._conn.fetchrow(statement, *arguments)
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
