"""Who is behind a key: the table fed by the owner of the keys, and the owner itself where the table cannot tell.

Called by every endpoint that needs a key (contract: Authentication and API keys; decisions 13 and 14).
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from ipaddress import ip_network

from kenari.ledger.v1 import ledger_pb2

from libs.core.errors import KenariError
from libs.core.keys import hash_key, looks_like_key
from libs.core.retry import backoff
from libs.events.accounts import KeyChanged
from libs.kafka.table import Table
from libs.ops.telemetry import Telemetry
from services.edge.address import Addresses, Network, within
from services.edge.clients import AccountsClient
from services.edge.errors import PlainRefusedError, refuse
from services.edge.exchange import Exchange
from services.edge.telemetry import KEY_LOOKUPS, KEYS_AGE

# Silence of the owner after which the table is asked only for company, and the owner for the truth.
TRUSTED_S = 60.0
UNKNOWN_FOR_S = 5.0
UNKNOWN_MAX = 10_000

_ELSEWHERE = "this key may not be used from this address; its owner decides from where"


@dataclass(frozen=True, slots=True)
class Caller:
    """The key that calls, and what it may do.

    ``models`` empty means all, ``caps`` None no cap (the ledger counts them), a limit a minute of 0 none.
    ``member_id`` is the person whose draw on the account its use is, if anybody's.
    """

    key_id: str
    account_id: str
    models: frozenset[str] = frozenset()
    kind: str = "dashboard"
    caps: ledger_pb2.KeyCaps | None = None
    member_id: str = ""
    requests_per_minute: int = 0
    tokens_per_minute: int = 0

    @property
    def shared(self) -> bool:
        """A shared key is in somebody else's hands: it reads nothing of the account."""
        return self.kind == "shared"

    @property
    def manages_keys(self) -> bool:
        """A login key makes per-tool keys."""
        return self.kind == "login"

    @property
    def restricted(self) -> bool:
        """A restricted key reads only its own usage and no account data."""
        return bool(self.models) or self.caps is not None


@dataclass(frozen=True, slots=True)
class _Known:
    """A caller as its key makes it, and the networks it may call from; empty: any."""

    caller: Caller
    networks: tuple[Network, ...]


class KeyDirectory:
    """All keys this edge has heard of, by keyed hash, from the table topic and from the owner's push."""

    def __init__(
        self,
        table: Table[KeyChanged],
        accounts: AccountsClient,
        addresses: Addresses,
        secret: bytes,
        telemetry: Telemetry,
    ) -> None:
        self._table = table
        self._accounts = accounts
        self._addresses = addresses
        self._secret = secret
        self._keys: dict[str, KeyChanged] = {}
        # Of keys that have called since they last changed.
        self._known: dict[str, _Known] = {}
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
        """The caller of a request.

        Raise PlainRefusedError (401, or 500 when the key cannot be looked up), or RefusedError (403) for a key
        that may not be used from where the request comes.
        """
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
        known = self._known.get(hashed)
        if known is None:
            known = self._known[hashed] = _Known(_caller(key), tuple(map(ip_network, key.allowed_ips)))
        if known.networks and not within(self._addresses.of(exchange), known.networks):
            raise refuse(403, "ip_not_allowed", _ELSEWHERE, kind="permission_error")
        self._used_ms[key.key_id] = exchange.started_ms
        return known.caller

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
            self._known.pop(key.key_hash, None)
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


def _caller(key: KeyChanged) -> Caller:
    capped = key.spend_cap_micro_idr > 0 or key.token_cap > 0
    caps = ledger_pb2.KeyCaps(
        spend_micro_idr=key.spend_cap_micro_idr, tokens=key.token_cap, period=key.cap_period, epoch=key.cap_epoch
    )
    return Caller(
        key_id=key.key_id,
        account_id=key.account_id,
        models=frozenset(key.models),
        kind=key.kind,
        caps=caps if capped else None,
        member_id=key.member_id,
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
    )


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
