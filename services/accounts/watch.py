"""Tells watchers of every committed change of a key at once, whichever accounts process made it.

Called by rpc.py. Changes arrive as PostgreSQL notices (NOTIFY in the changing transaction). A watcher first gets
what changed lately, so one that was away for less than that misses nothing.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from libs.core.errors import Transient
from libs.core.retry import backoff
from libs.db.database import Database
from libs.db.errors import DatabaseAwayError
from libs.ops.telemetry import Telemetry
from services.accounts.domain.key import Key
from services.accounts.rows import CHANNEL
from services.accounts.store import changed_keys, just_changed, keys_changed_within
from services.accounts.telemetry import LISTENING, PUSHED, WATCHERS

log = logging.getLogger("kenari.accounts")

# More than a watcher can fall behind before it is better off starting anew.
_QUEUE = 10_000
_CHECK_S = 1.0

_Queue = asyncio.Queue[Key | None]


class WatchEndedError(Transient):
    """This watch is over; open another."""

    reason = "watch_ended"


class KeyWatch:
    """Listens on one database connection and hands every change to every watcher."""

    def __init__(self, database: Database, telemetry: Telemetry, *, replay_s: float, heartbeat_s: float) -> None:
        self._database = database
        self._replay_s = replay_s
        self._heartbeat_s = heartbeat_s
        self._noticed: set[str] = set()
        self._wake = asyncio.Event()
        self._watchers: set[_Queue] = set()
        self._listening = False
        self._heard_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._pushed = telemetry.metrics.counter(PUSHED)
        telemetry.metrics.gauge(WATCHERS).set_function(lambda: len(self._watchers))
        telemetry.metrics.gauge(LISTENING).set_function(lambda: self._listening)

    async def changes(self) -> AsyncIterator[Key | None]:
        """Every change from now on, after those of the last while; None is a heartbeat.

        Silence longer than a heartbeat means that changes are not being heard. Raises WatchEndedError when the
        watcher is too slow or the service stops, DatabaseAwayError when it cannot begin.
        """
        queue: _Queue = asyncio.Queue(_QUEUE)
        self._watchers.add(queue)
        try:
            async with self._database.connection() as conn:
                recent = await keys_changed_within(conn, self._replay_s)
            for key in recent:
                yield key
            while True:
                if queue.empty() and self._listening:
                    yield None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._heartbeat_s):
                        change = await queue.get()
                    if change is None:
                        raise WatchEndedError("this watch is over")
                    yield change
        finally:
            self._watchers.discard(queue)

    async def tell_now(self, account_id: str) -> None:
        """Tell this process's watchers what has just changed of an account's keys, without waiting for the notice.

        Whoever is answered after this can count on the change: it is on its way before the answer is.
        """
        # What cannot be read now is told when the notice comes.
        with contextlib.suppress(DatabaseAwayError):
            async with self._database.connection() as conn:
                self._tell(await just_changed(conn, account_id))

    async def end_all(self) -> None:
        """End every watch: the service is about to stop."""
        for queue in list(self._watchers):
            self._end(queue)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="key-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def problem(self) -> str | None:
        return None if self._listening else "changes of keys are not being heard"

    async def _run(self) -> None:
        for wait_s in backoff(0.1, 1.0):
            try:
                async with self._database.connection() as conn:
                    await self._listen(conn)
            except DatabaseAwayError as error:
                log.warning("no longer listening for changes of keys", extra={"reason": str(error)})
            finally:
                self._listening = False
            await asyncio.sleep(wait_s)

    async def _listen(self, conn: Any) -> None:
        """Hear and tell until the connection fails."""
        await conn.add_listener(CHANNEL, self._on_notice)
        try:
            unheard_s = time.monotonic() - self._heard_at
            self._tell(await keys_changed_within(conn, unheard_s + self._replay_s))
            self._listening = True
            while True:
                self._heard_at = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_S):
                        await self._wake.wait()
                self._wake.clear()
                noticed = list(self._noticed)
                self._noticed.clear()
                # Without notices this shows that the connection still lives.
                self._tell(await changed_keys(conn, noticed))
        finally:
            # A connection that is gone hears nothing anyway.
            with contextlib.suppress(asyncpg.InterfaceError):
                await conn.remove_listener(CHANNEL, self._on_notice)

    def _on_notice(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        self._noticed.add(str(payload))
        self._wake.set()

    def _tell(self, keys: list[Key]) -> None:
        for key in keys:
            for queue in list(self._watchers):
                if queue.full():
                    self._end(queue)
                else:
                    queue.put_nowait(key)
                    self._pushed.inc()

    def _end(self, queue: _Queue) -> None:
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)
        self._watchers.discard(queue)
