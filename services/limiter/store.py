"""Valkey as the limiter uses it: script calls of one message in one pipeline, within a fixed time, behind a breaker.

Called by service.py. Commands are packed here and sent over the client library's connections: its own pipeline
cost 0.035 ms of CPU a call in messages of 16, this costs 0.016.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from importlib import resources

from valkey.asyncio import Connection, ConnectionPool
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import NoScriptError, ResponseError

from libs.core.errors import Transient
from libs.ops.telemetry import Telemetry
from services.limiter.breaker import Breaker
from services.limiter.settings import ValkeySettings
from services.limiter.telemetry import DEGRADED, STORE_FAILURES, STORE_SECONDS

Reply = int | list[int]

# The last part of the time limit is one more look at the socket: after a pause of this process the answer lies
# there already, and the timer would win over it.
_LAST_LOOK_S = 0.002


class StoreAwayError(Transient):
    """Valkey did not answer in time, refused, or is not being asked. The calls may or may not have had effect."""

    reason = "store_away"


def packed(parts: Sequence[bytes]) -> bytes:
    """Arguments of a command as the server reads them."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


class Script:
    """A file of ``scripts/`` and how a call of it is written on the wire."""

    def __init__(self, name: str) -> None:
        self.source = resources.files("services.limiter").joinpath("scripts", f"{name}.lua").read_bytes()
        sha = hashlib.sha1(self.source, usedforsecurity=False).hexdigest().encode()
        self._begin = packed([b"EVALSHA", sha])

    def call(self, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
        """One EVALSHA in the server's protocol; all ``keys`` of a call carry the same {tag}."""
        return self.call_packed(keys, packed(arguments), len(arguments))

    def call_packed(self, keys: Sequence[bytes], arguments: bytes, count: int) -> bytes:
        """The same with ``count`` arguments that are packed already."""
        size = 3 + len(keys) + count
        return b"*%d\r\n%b%b%b" % (size, self._begin, packed([b"%d" % len(keys), *keys]), arguments)

    def load(self) -> bytes:
        """The command that makes the server know this script."""
        return b"*3\r\n" + packed([b"SCRIPT", b"LOAD", self.source])


WINDOWS = Script("windows")
FREE_ADMIT = Script("free_admit")
FREE_DONE = Script("free_done")
BUDGET_DRAW = Script("budget_draw")
BUDGET_SETTLE = Script("budget_settle")
PLACE_TAKE = Script("place_take")
PLACE_LEAVE = Script("place_leave")
_SCRIPTS = (WINDOWS, FREE_ADMIT, FREE_DONE, BUDGET_DRAW, BUDGET_SETTLE, PLACE_TAKE, PLACE_LEAVE)


class Store:
    """Runs script calls. Connections are made when first needed and dropped after any doubt about their state."""

    def __init__(self, settings: ValkeySettings, telemetry: Telemetry) -> None:
        # The time limit is set once for all replies of a message, not for each again.
        self._pool = ConnectionPool.from_url(
            settings.url.get_secret_value(),
            socket_timeout=None,
            socket_connect_timeout=None,
            lib_name=None,
            lib_version=None,
        )
        self._timeout_s = settings.timeout_ms / 1000
        self._room = asyncio.Semaphore(settings.connections)
        self._idle: list[Connection] = []
        self._breaker = Breaker(settings.breaker_failures)
        metrics = telemetry.metrics
        metrics.gauge(DEGRADED).set_function(lambda: self._breaker.is_open)
        self._seconds = metrics.histogram(STORE_SECONDS)
        self._failures = metrics.counter(STORE_FAILURES)

    @property
    def away(self) -> bool:
        """Whether calls are refused at once."""
        return self._breaker.is_open

    async def run(self, calls: Sequence[bytes]) -> list[Reply]:
        """Send all calls in one go and return their replies in order; raise StoreAwayError.

        Takes at most the configured time. A call that ran may have been counted although this raised.
        """
        if self._breaker.is_open:
            raise StoreAwayError("not asked: the breaker is open")
        started = time.monotonic()
        try:
            replies = await self._within_time(calls)
        except StoreAwayError:
            self._breaker.failed(started, time.monotonic())
            raise
        self._seconds.observe(time.monotonic() - started)
        return replies

    async def probe(self) -> bool:
        """While away: whether the store answers again; if so, calls are let through from now on."""
        try:
            await self._within_time([script.load() for script in _SCRIPTS])
        except StoreAwayError:
            return False
        self._breaker.close()
        return True

    async def start(self) -> None:
        """Connect once, so that the first request need not; the limiter also starts while the store is away."""
        await self.probe()

    async def stop(self) -> None:
        await self._drop_idle()

    def problem(self) -> str | None:
        # Without the store the limiter grants local shares; that is an alarm, not a reason to stop serving.
        return None

    async def _within_time(self, calls: Sequence[bytes]) -> list[Reply]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                last_look = loop.call_later(
                    self._timeout_s - _LAST_LOOK_S, lambda: limit.reschedule(loop.time() + _LAST_LOOK_S)
                )
                try:
                    async with self._room:
                        return await self._with_connection(calls)
                finally:
                    last_look.cancel()
        except TimeoutError as error:
            raise self._away("timeout") from error
        except (ValkeyConnectionError, OSError) as error:
            raise self._away("connection") from error
        except ResponseError as error:
            raise self._away("refused", str(error)) from error

    def _away(self, reason: str, detail: str = "") -> StoreAwayError:
        self._failures.labels(reason).inc()
        return StoreAwayError(f"Valkey: {detail or reason}")

    async def _with_connection(self, calls: Sequence[bytes]) -> list[Reply]:
        if self._idle:
            try:
                return await self._exchange(self._idle.pop(), calls)
            except (ValkeyConnectionError, OSError):
                # The server went and came while this connection lay idle; so did the others.
                await self._drop_idle()
        return await self._exchange(self._pool.make_connection(), calls)  # type: ignore[no-untyped-call]

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def _exchange(self, connection: Connection, calls: Sequence[bytes]) -> list[Reply]:
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            replies = await _send(connection, calls)
            unknown = [place for place, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if unknown:
                await _send(connection, [script.load() for script in _SCRIPTS])
                again = await _send(connection, [calls[place] for place in unknown])
                for place, reply in zip(unknown, again, strict=True):
                    replies[place] = reply
        except BaseException:
            # Answers may still be on their way: nobody else may read them.
            await connection.disconnect(nowait=True)
            raise
        self._idle.append(connection)
        return [_value(reply) for reply in replies]


async def _send(connection: Connection, calls: Sequence[bytes]) -> list[Reply | ResponseError]:
    await connection.send_packed_command([b"".join(calls)], check_health=False)
    replies: list[Reply | ResponseError] = []
    for _ in calls:
        try:
            replies.append(await connection.read_response())
        except ResponseError as error:
            replies.append(error)
    return replies


def _value(reply: Reply | ResponseError) -> Reply:
    if isinstance(reply, ResponseError):
        raise reply
    return reply
