"""A service's connections to its database, as one component.

Made by services/*/app.py; used by services/*/store.py. Every exception on a connection that is not the server's
own refusal is an unknown outcome: the connection is dropped and DatabaseAwayError (Transient) raised.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from libs.core.errors import ConfigError
from libs.core.retry import backoff
from libs.core.settings import DatabaseSettings
from libs.db.errors import FAILURES, DatabaseAwayError, away
from libs.db.session import Session
from libs.db.telemetry import CONNECTIONS, IDLE, LOST, UP
from libs.ops.telemetry import Telemetry

log = logging.getLogger("kenari.db")

_CONNECT_S = 3.0
_PING_EVERY_S = 1.0


class Database:
    """A pool to one database. ``start`` waits until the database answers.

    ``statement_ms`` bounds each statement on the server, ``lock_ms`` its wait for locks; a statement that may
    take longer says so with ``set local statement_timeout``.
    """

    def __init__(
        self, settings: DatabaseSettings, telemetry: Telemetry, *, statement_ms: int = 5_000, lock_ms: int = 2_000
    ) -> None:
        self._settings = settings
        self._statement_ms = statement_ms
        self._session = {
            "application_name": f"kenari-{telemetry.service}",
            "timezone": "UTC",
            "statement_timeout": str(statement_ms),
            "lock_timeout": str(lock_ms),
            "idle_in_transaction_session_timeout": "5000",
        }
        self._pool: Any = None
        self._problem: str | None = "database: not connected yet"
        self._pinging: asyncio.Task[None] | None = None
        self._failures = telemetry.metrics.counter(LOST)
        self._up = telemetry.metrics.gauge(UP)
        telemetry.metrics.gauge(CONNECTIONS, lambda: self._pool.get_size() if self._pool else 0)
        telemetry.metrics.gauge(IDLE, lambda: self._pool.get_idle_size() if self._pool else 0)

    @property
    def pool(self) -> Any:
        """The ``asyncpg.Pool``; there from ``start`` on."""
        if self._pool is None:
            raise DatabaseAwayError("the database is not connected yet")
        return self._pool

    async def start(self) -> None:
        """Connect, however long the database takes to come; raise ConfigError when it will never let us in."""
        for wait_s in backoff(0.1, 2.0):
            try:
                self._pool = await asyncpg.create_pool(
                    self._settings.dsn.get_secret_value(),
                    min_size=1,
                    max_size=self._settings.pool_max,
                    timeout=_CONNECT_S,
                    command_timeout=self._statement_ms / 1000 + 1.0,
                    server_settings=self._session,
                    max_inactive_connection_lifetime=0,
                )
                break
            except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
                raise ConfigError(f"database: {error}") from error
            except FAILURES as error:
                self._problem = f"database: {type(error).__name__}"
                log.warning("database does not answer", extra={"reason": type(error).__name__})
                await asyncio.sleep(wait_s)
        self._answers()
        self._pinging = asyncio.create_task(self._ping(), name="database-ping")

    async def stop(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pinging
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), 3.0)
            except TimeoutError:
                self._pool.terminate()

    def problem(self) -> str | None:
        """Why the database cannot be used; None when its last answer was a good one."""
        return self._problem

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """A connection of the pool, each statement its own transaction; raise DatabaseAwayError."""
        conn = None
        try:
            conn = await self.pool.acquire(timeout=_CONNECT_S)
            yield conn
        except FAILURES as error:
            lost = away(error)
            if lost is None:
                raise
            self._failures.labels(lost.reason).inc()
            if lost.reason == "database_away":
                self._problem = f"database: {lost}"
                self._up.set(0)
                if conn is not None:
                    # The pool takes a connection back by itself when it sees it break, and then refuses this.
                    with contextlib.suppress(asyncpg.InterfaceError):
                        conn.terminate()
            raise lost from error
        finally:
            if conn is not None:
                await self.pool.release(conn)

    @contextlib.asynccontextmanager
    async def transaction(self, **options: Any) -> AsyncIterator[Any]:
        """A connection inside a transaction, rolled back when the block raises; ``options`` as asyncpg's
        ``transaction`` takes them. Raises DatabaseAwayError; after that, ask again under the same id."""
        async with self.connection() as conn, conn.transaction(**options):
            yield conn

    def session(self) -> Session:
        """A connection beside the pool for one worker of its own; the worker closes it."""
        return Session(self._connect)

    async def _connect(self) -> Any:
        return await asyncpg.connect(
            self._settings.dsn.get_secret_value(),
            timeout=_CONNECT_S,
            command_timeout=self._statement_ms / 1000 + 1.0,
            server_settings=self._session,
        )

    def _answers(self) -> None:
        self._problem = None
        self._up.set(1)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_EVERY_S)
            with contextlib.suppress(DatabaseAwayError):
                async with self.connection() as conn:
                    await conn.execute("select 1", timeout=_CONNECT_S)
                self._answers()
