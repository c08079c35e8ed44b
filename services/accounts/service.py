"""The use cases of accounts: make, read, limit and suspend accounts; make, find, change and revoke keys.

Called by rpc.py. Every method raises AccountsError for what is refused and DatabaseAwayError (Transient) when
nobody knows whether it happened.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from libs.core.clock import Clock
from libs.core.ids import prefixed_id
from libs.core.keys import hash_key, new_key
from libs.ops.telemetry import Telemetry
from services.accounts.domain.account import Account, AccountStatus, CreateAccount, check_requests_per_minute
from services.accounts.domain.errors import AlreadyExistsError, InvalidError, NotFoundError
from services.accounts.domain.key import PREFIX_LENGTH, CreateKey, CreateToolKey, Key, Made, Share, check_label
from services.accounts.domain.limits import ChangeLimits
from services.accounts.key_store import KeyStore
from services.accounts.store import Store
from services.accounts.telemetry import CHANGES, RESOLVES
from services.accounts.tool_keys import ToolKeys

T = TypeVar("T")

MOST_ACCOUNTS = 1_000
MOST_USES = 10_000

log = logging.getLogger("kenari.accounts")


class Accounts:
    """People's accounts and their keys."""

    def __init__(
        self,
        store: Store,
        key_store: KeyStore,
        tool_keys: ToolKeys,
        tell_now: Callable[[str], Awaitable[None]],
        hash_secret: bytes,
        clock: Clock,
        telemetry: Telemetry,
        *,
        key_limit: int,
        make_key: Callable[[], str] = new_key,
    ) -> None:
        self._store = store
        self._key_store = key_store
        self._tool_keys = tool_keys
        self._tell_now = tell_now
        self._key_limit = key_limit
        self._hash_secret = hash_secret
        self._clock = clock
        self._make_key = make_key
        self._changes = telemetry.metrics.counter(CHANGES)
        self._resolves = telemetry.metrics.counter(RESOLVES)

    async def create_account(self, wanted: CreateAccount) -> Account:
        """Make an account; the same id and name again return the one there is."""
        if not wanted.account_id:
            wanted = CreateAccount(prefixed_id("acct"), wanted.name)
        wanted.check()
        account = await self._store.create_account(wanted)
        if account.name != wanted.name:
            raise AlreadyExistsError(f"{wanted.account_id} is another account")
        self._note("account_created", account_id=account.account_id)
        return account

    async def account(self, account_id: str) -> Account:
        """The account; raises NotFoundError."""
        return _found(await self._store.account(account_id), "account")

    async def accounts(self, after: str, limit: int) -> list[Account]:
        """The accounts after that id, by id; ``limit`` 0 is the most there can be."""
        if limit > MOST_ACCOUNTS:
            raise InvalidError(f"at most {MOST_ACCOUNTS:,} accounts are listed at once")
        return await self._store.accounts(after, limit or MOST_ACCOUNTS)

    async def set_status(self, account_id: str, status: AccountStatus) -> Account:
        """Suspend or reactivate: all keys of the account follow in the same moment."""
        account = _found(await self._store.set_status(account_id, status), "account")
        await self._tell_now(account_id)
        self._note(f"account_{status.value}", account_id=account_id)
        return account

    async def set_limits(self, account_id: str, requests_per_minute: int) -> Account:
        """Set the account's own limit on paid models; 0 goes back to the limiter's default."""
        check_requests_per_minute(requests_per_minute)
        account = _found(await self._store.set_limits(account_id, requests_per_minute), "account")
        self._note("limits_set", account_id=account_id)
        return account

    async def create_key(self, wanted: CreateKey) -> tuple[Key, str]:
        """Make a key; returns it and the secret itself, which nobody can be told again.

        Raises KeyLimitError when the account has as many as it may.
        """
        wanted.check(self._clock.now_ms())
        made, secret = self._fresh(prefixed_id("key"))
        key = _found(await self._key_store.create(wanted, made, most=self._key_limit), "account")
        self._note("key_created", account_id=key.account_id, key_id=key.key_id)
        return key, secret

    async def rotate_key(self, key_id: str) -> tuple[Key, str]:
        """Replace a key by a fresh one with the same settings in one step; returns it and its secret."""
        made, secret = self._fresh(prefixed_id("key"))
        key = _found(await self._key_store.rotate(key_id, made), "key")
        await self._tell_now(key.account_id)
        self._note("key_rotated", account_id=key.account_id, key_id=key_id)
        return key, secret

    async def rename_key(self, key_id: str, label: str) -> Key:
        """Change a key's label."""
        check_label(label)
        key = _found(await self._key_store.rename(key_id, label), "key")
        self._note("key_renamed", account_id=key.account_id, key_id=key_id)
        return key

    async def set_disabled(self, key_id: str, disabled: bool) -> Key:
        """Pause a key, or end the pause; a revoked or expired one is refused."""
        key = _found(await self._key_store.set_disabled(key_id, disabled), "key")
        await self._tell_now(key.account_id)
        self._note("key_disabled" if disabled else "key_enabled", account_id=key.account_id, key_id=key_id)
        return key

    async def set_key_limits(self, key_id: str, change: ChangeLimits) -> Key:
        """Change what limits an unshared key; raises FixedLimitsError for a shared one."""
        key = _found(await self._key_store.set_limits(key_id, change), "key")
        await self._tell_now(key.account_id)
        self._note("key_limits_set", account_id=key.account_id, key_id=key_id)
        return key

    async def reset_caps(self, key_id: str) -> Key:
        """Let the count of a key's caps start anew; raises FixedLimitsError where they are fixed."""
        key = _found(await self._key_store.reset_caps(key_id), "key")
        await self._tell_now(key.account_id)
        self._note("key_caps_reset", account_id=key.account_id, key_id=key_id)
        return key

    async def share(self, link_token: str) -> Share:
        """What a public link shows; NotFoundError once its key cannot be used."""
        return _found(await self._store.share(link_token), "share")

    async def revoke_key(self, key_id: str) -> Key:
        """Revoke a key for good, a login key with its per-tool keys; a revoked one stays as it is."""
        key = _found(await self._key_store.revoke(key_id), "key")
        await self._tell_now(key.account_id)
        self._note("key_revoked", account_id=key.account_id, key_id=key_id)
        return key

    async def create_tool_key(self, wanted: CreateToolKey) -> tuple[Key, str]:
        """Make a per-tool key of a login key; returns it and its secret.

        Raises KeyCreationRateError, ChildKeyCapError or KeyLimitError, in this order, and NotFoundError for what
        is no active login key.
        """
        wanted.check()
        made, secret = self._fresh(wanted.key_id)
        key = await self._tool_keys.create(wanted, made, most=self._key_limit)
        self._note("key_created", account_id=key.account_id, key_id=key.key_id)
        return key, secret

    async def tool_keys(self, login_key_id: str) -> list[Key]:
        """The active per-tool keys of a login key, newest first."""
        return await self._tool_keys.of(login_key_id)

    async def revoke_tool_key(self, login_key_id: str, key_id: str) -> Key:
        """Revoke one; NotFoundError unless it is an active per-tool key of this login key."""
        key = _found(await self._tool_keys.revoke(login_key_id, key_id), "key")
        await self._tell_now(key.account_id)
        self._note("key_revoked", account_id=key.account_id, key_id=key_id)
        return key

    async def used(self, moments_ms: Mapping[str, int]) -> None:
        """Note when keys were last used, by key id."""
        if len(moments_ms) > MOST_USES:
            raise InvalidError(f"at most {MOST_USES:,} uses are noted at once")
        await self._tool_keys.used(moments_ms)

    async def keys(self, account_id: str) -> list[Key]:
        """All keys of the account, oldest first; raises NotFoundError when there is no such account."""
        keys = await self._store.keys(account_id)
        if not keys:
            await self.account(account_id)
        return keys

    async def resolve(self, key_hash: str) -> Key | None:
        """The key behind a hash, whatever its status; None when there is none."""
        key = await self._store.key_by_hash(key_hash)
        self._resolves.labels("unknown" if key is None else "known").inc()
        return key

    def _fresh(self, key_id: str) -> tuple[Made, str]:
        secret = self._make_key()
        return Made(key_id, hash_key(self._hash_secret, secret), secret[:PREFIX_LENGTH]), secret

    def _note(self, change: str, **ids: str) -> None:
        self._changes.labels(change).inc()
        log.info("changed", extra={"outcome": change, **ids})


def _found(thing: T | None, what: str) -> T:
    if thing is None:
        raise NotFoundError(f"no such {what}")
    return thing
