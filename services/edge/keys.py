"""Who is behind a key: the table fed by the owner of the keys, and the owner itself where the table cannot tell.

Called by every endpoint that needs a key (contract: Authentication and API keys; decisions 13 and 14).
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from libs.core.errors import KenariError
from libs.core.keys import hash_key, looks_like_key
from libs.core.retry import backoff
from libs.events.accounts import KeyChanged
from libs.kafka.table import Table
from libs.ops.telemetry import Telemetry
from services.edge.clients import AccountsClient
from services.edge.errors import PlainRefusedError
from services.edge.exchange import Exchange
from services.edge.telemetry import KEY_LOOKUPS, KEYS_AGE

# Silence of the owner after which the table is asked only for company, and the owner for the truth.
TRUSTED_S = 60.0
UNKNOWN_FOR_S = 5.0
UNKNOWN_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """The key that calls, and what it may do. ``models`` empty means all, ``manages_keys`` is a login key's right."""

    key_id: str
    account_id: str
    models: frozenset[str]
    shared: bool
    capped: bool
    manages_keys: bool

    @property
    def restricted(self) -> bool:
        """A restricted key reads only its own usage and no account data."""
        return bool(self.models) or self.capped


class KeyDirectory:
    """All keys this edge has heard of, by keyed hash, from the table topic and from the owner's push."""

    def __init__(self, table: Table[KeyChanged], accounts: AccountsClient, secret: bytes, telemetry: Telemetry) -> None:
        self._table = table
        self._accounts = accounts
        self._secret = secret
        self._keys: dict[str, KeyChanged] = {}
        self._unknown: dict[str, float] = {}
        self._used_ms: dict[str, int] = {}
        self._pushed_at = float("-inf")
        self._watcher: asyncio.Task[None] | None = None
        lookups = telemetry.metrics.counter(KEY_LOOKUPS)
        self._from_table = lookups.labels("table")
        self._from_owner = lookups.labels("owner")
        telemetry.metrics.gauge(KEYS_AGE, value=self.age_s)
        table.on_change(self._from_topic)

    def age_s(self) -> float:
        """Seconds since the owner of the keys was last heard, by either way."""
        return min(self._table.age_s(), time.monotonic() - self._pushed_at)

    async def caller(self, exchange: Exchange) -> Caller:
        """The caller of a request; raise PlainRefusedError: 401, or 500 when the key cannot be looked up."""
        presented = _presented(exchange)
        if not looks_like_key(presented):
            raise PlainRefusedError(401, "invalid key")
        hashed = hash_key(self._secret, presented)
        key = self._keys.get(hashed)
        if key is None or self.age_s() > TRUSTED_S:
            key = await self._ask_owner(hashed)
        else:
            self._from_table.inc()
        if key is None or not _usable(key):
            raise PlainRefusedError(401, "invalid key")
        self._used_ms[key.key_id] = exchange.started_ms
        capped = key.spend_cap_micro_idr > 0 or key.token_cap > 0
        return Caller(
            key.key_id, key.account_id, frozenset(key.models), key.shared, capped, manages_keys=key.kind == "login"
        )

    async def _ask_owner(self, hashed: str) -> KeyChanged | None:
        if self._unknown.get(hashed, 0.0) > time.monotonic():
            return None
        self._from_owner.inc()
        try:
            key = await self._accounts.resolve_key(hashed)
        except KenariError as error:
            raise PlainRefusedError(500, "db error") from error
        if key is None:
            # A flood of made-up keys must not become a flood of calls.
            if len(self._unknown) >= UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[hashed] = time.monotonic() + UNKNOWN_FOR_S
            return None
        self._apply(key)
        return self._keys[hashed]

    def learn(self, key: KeyChanged) -> None:
        """What the owner has just answered about a key: no need to wait for it to be pushed."""
        self._apply(key)

    async def report_use(self) -> None:
        """Tell the owner which keys were used since the last time; raise Transient, and all is told next time."""
        used, self._used_ms = self._used_ms, {}
        try:
            await self._accounts.report_use(used)
        except KenariError:
            self._used_ms = {**used, **self._used_ms}
            raise

    def _apply(self, key: KeyChanged) -> None:
        known = self._keys.get(key.key_hash)
        if known is None or known.version <= key.version:
            self._keys[key.key_hash] = key
        self._unknown.pop(key.key_hash, None)

    def _from_topic(self, _: str, key: KeyChanged | None) -> None:
        if key is not None:
            self._apply(key)

    async def start(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="keys-watch")

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    def problem(self) -> str | None:
        return None if self.age_s() <= TRUSTED_S else "the owner of the keys has been silent for a minute"

    async def _watch(self) -> None:
        waits = backoff(0.1, 2.0)
        while True:
            with contextlib.suppress(KenariError):
                async for key in self._accounts.watch_keys():
                    waits = backoff(0.1, 2.0)
                    self._pushed_at = time.monotonic()
                    if key is not None:
                        self._apply(key)
            await asyncio.sleep(next(waits))


def _presented(exchange: Exchange) -> str:
    """The key as sent; Authorization wins over x-api-key."""
    authorization = exchange.header(b"authorization")
    if authorization is not None:
        scheme, _, value = authorization.partition(" ")
        return value.strip() if scheme.lower() == "bearer" else ""
    key = exchange.header(b"x-api-key")
    if key is None:
        raise PlainRefusedError(401, "missing authorization")
    return key.strip()


def _usable(key: KeyChanged) -> bool:
    if key.status != "active" or key.disabled or key.account_status != "active":
        return False
    return not key.expires_at_ms or key.expires_at_ms > time.time_ns() // 1_000_000
