"""Calls to providers over HTTP/1.1, kept cheap: one pooled session per provider address and process.

Made once by the edge; adapters use it through ``Transport``. The only module that knows the HTTP client.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache
from weakref import WeakSet

import aiohttp
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.transport import Call, Reply

_POOL_KEEPALIVE_S = 75.0
_DNS_CACHE_S = 60
_FRAMING_S = 0.5
"""How long an answer's framing may take to end after its last event before the connection is given up."""

_DROPPED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_STALE_S = 1.0
"""A pooled connection that the provider closed meanwhile shows it within a round trip; then one more try is
safe. Later than this the provider may have been at work."""


_reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the connection of the running call had served another before."""


class _Connector(aiohttp.TCPConnector):
    """A pool that tells a used connection from a new one."""

    def __init__(self) -> None:
        # No limit here: the edge's admission decides how many calls there are.
        super().__init__(limit=0, keepalive_timeout=_POOL_KEEPALIVE_S, ttl_dns_cache=_DNS_CACHE_S)
        self._used: WeakSet[object] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        _reused.set(connection.protocol in self._used)
        self._used.add(connection.protocol)
        return connection


@lru_cache(maxsize=64)
def _client_timeout(connect_s: float) -> aiohttp.ClientTimeout:
    """The one wait left to the client library; making its settings anew costs as much as a small parse."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_s)


class HttpTransport:
    """``Transport`` over HTTP/1.1: no cookies, redirects or proxies from the environment."""

    def __init__(self) -> None:
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._urls: dict[tuple[str, str], URL] = {}

    async def start(self) -> None:
        """Nothing to do: sessions open with the first call to an address."""

    async def stop(self) -> None:
        """Close all connections, those in use included."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()

    def problem(self) -> str | None:
        """A provider that is away never makes the edge unready."""
        return None

    @asynccontextmanager
    async def send(self, call: Call) -> AsyncGenerator[Reply, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + call.connect_s + call.first_byte_s
        whole_by = loop.time() + call.content_s
        reply = _HttpReply(await self._open(call, deadline), loop, deadline, whole_by, call.idle_s)
        try:
            yield reply
        finally:
            reply.close()

    async def _open(self, call: Call, deadline: float) -> aiohttp.ClientResponse:
        """Send the call and wait for the head of the answer."""
        session = self._session(call.base_url)
        began = time.monotonic()
        _reused.set(False)
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    return await self._post(session, call)
                except _DROPPED:
                    if not _reused.get() or time.monotonic() - began > _STALE_S:
                        raise
                    return await self._post(session, call)
        except TimeoutError:
            raise ProviderFailure(FailureKind.TIMEOUT, detail="no answer in time") from None
        except aiohttp.ClientResponseError:
            raise ProviderFailure(FailureKind.JUNK, detail="not HTTP") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ProviderFailure(FailureKind.REFUSED, detail=type(error).__name__) from None

    async def _post(self, session: aiohttp.ClientSession, call: Call) -> aiohttp.ClientResponse:
        return await session.post(
            self._url(call),
            data=call.body,
            headers=call.headers,
            allow_redirects=False,
            timeout=_client_timeout(call.connect_s),
        )

    def _session(self, base_url: str) -> aiohttp.ClientSession:
        session = self._sessions.get(base_url)
        if session is None:
            session = self._sessions[base_url] = aiohttp.ClientSession(
                connector=_Connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "kenari"},
                skip_auto_headers=("Accept-Encoding",),
                trust_env=False,
            )
        return session

    def _url(self, call: Call) -> URL:
        key = (call.base_url, call.path)
        url = self._urls.get(key)
        if url is None:
            url = self._urls[key] = URL(call.base_url.rstrip("/") + call.path)
        return url


class _HttpReply:
    """One answer while it arrives, watched by a single timer that is set anew only when it fires."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        loop: asyncio.AbstractEventLoop,
        deadline: float,
        whole_by: float,
        idle_s: float,
    ) -> None:
        self._response = response
        self._loop = loop
        self._idle_s = idle_s
        self._deadline = deadline
        self._whole_by = whole_by
        self._timer = loop.call_at(deadline, self._look)
        self._begun = self._over = self._reading = self._timed_out = False
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        if self._begun:
            self._deadline = self._loop.time() + self._idle_s
        self._reading = True
        try:
            data = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            kind = FailureKind.TIMEOUT if self._timed_out else FailureKind.INTERRUPTED
            raise ProviderFailure(kind, status=self.status, detail=type(error).__name__) from None
        finally:
            self._reading = False
        self._begun = True
        return data

    async def read_all(self, limit: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        while data := await self.read():
            size += len(data)
            if size > limit:
                raise ProviderFailure(FailureKind.JUNK, status=self.status, detail="body too long")
            if self._loop.time() > self._whole_by:
                raise ProviderFailure(FailureKind.TIMEOUT, status=self.status, detail="body not whole in time")
            parts.append(data)
        return b"".join(parts)

    def ended(self) -> None:
        self._over = True

    def close(self) -> None:
        """Give the connection back when the answer is over, else close it."""
        self._timer.cancel()
        if self._response.content.is_eof():
            return  # the client library has given the connection back when the framing ended
        if self._over:
            self._loop.call_later(_FRAMING_S, self._response.close)
        else:
            self._response.close()

    def _look(self) -> None:
        now = self._loop.time()
        if now < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        elif self._reading:
            self._timed_out = True
            self._response.close()
        else:
            # The reader is busy with a slow client: that silence is not the provider's.
            self._timer = self._loop.call_at(now + self._idle_s, self._look)
