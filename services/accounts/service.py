"""The use cases of accounts: make, read, limit and suspend accounts; make, find and revoke keys.

Called by rpc.py. Every method raises AccountsError for what is refused and DatabaseAwayError (Transient) when
nobody knows whether it happened.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from libs.core.clock import Clock
from libs.core.ids import prefixed_id
from libs.core.keys import hash_key, new_key
from libs.ops.telemetry import Telemetry
from services.accounts.domain import (
    Account,
    AccountStatus,
    AlreadyExistsError,
    CreateAccount,
    CreateKey,
    Key,
    NotFoundError,
    check_requests_per_minute,
)
from services.accounts.store import Store
from services.accounts.telemetry import CHANGES, RESOLVES

T = TypeVar("T")

log = logging.getLogger("kenari.accounts")


class Accounts:
    """People's accounts and their keys."""

    def __init__(
        self,
        store: Store,
        hash_secret: bytes,
        clock: Clock,
        telemetry: Telemetry,
        make_key: Callable[[], str] = new_key,
    ) -> None:
        self._store = store
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

    async def set_status(self, account_id: str, status: AccountStatus) -> Account:
        """Suspend or reactivate: all keys of the account follow in the same moment."""
        account = _found(await self._store.set_status(account_id, status), "account")
        self._note(f"account_{status.value}", account_id=account_id)
        return account

    async def set_limits(self, account_id: str, requests_per_minute: int) -> Account:
        """Set the account's own limit on paid models; 0 goes back to the limiter's default."""
        check_requests_per_minute(requests_per_minute)
        account = _found(await self._store.set_limits(account_id, requests_per_minute), "account")
        self._note("limits_set", account_id=account_id)
        return account

    async def create_key(self, wanted: CreateKey) -> tuple[Key, str]:
        """Make a key; returns it and the secret itself, which nobody can be told again."""
        wanted.check(self._clock.now_ms())
        secret = self._make_key()
        made = await self._store.create_key(wanted, prefixed_id("key"), hash_key(self._hash_secret, secret))
        key = _found(made, "account")
        self._note("key_created", account_id=key.account_id, key_id=key.key_id)
        return key, secret

    async def revoke_key(self, key_id: str) -> Key:
        """Revoke a key for good; a revoked one stays as it is."""
        key = _found(await self._store.revoke_key(key_id), "key")
        self._note("key_revoked", account_id=key.account_id, key_id=key_id)
        return key

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

    def _note(self, change: str, **ids: str) -> None:
        self._changes.labels(change).inc()
        log.info("changed", extra={"outcome": change, **ids})


def _found(thing: T | None, what: str) -> T:
    if thing is None:
        raise NotFoundError(f"no such {what}")
    return thing
