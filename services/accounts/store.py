"""The tables of accounts and keys. A change, its event and its notice are one transaction.

Called by service.py and watch.py.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from libs.events.accounts import SettingsChanged
from libs.events.base import encode, envelope
from libs.events.topics import ACCOUNTS_SETTINGS
from libs.kafka.outbox import put
from libs.ops.tracing import current_traceparent
from services.accounts.domain.account import Account, AccountStatus, CreateAccount
from services.accounts.domain.errors import KeyLimitError, NotActiveError
from services.accounts.domain.key import CreateKey, Key, KeyKind, KeyStatus, Made
from services.accounts.rows import (
    ACCOUNT,
    CHANNEL,
    KEYS,
    Telling,
    account_of,
    active_keys,
    key_of,
    locked_account,
    locked_key,
    moment_or_none,
    revoke,
)

_PAGE = 1_000


class Store:
    """Reads and writes of the service's database; every method raises DatabaseAwayError when it is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._tell = Telling(clock)

    async def create_account(self, wanted: CreateAccount) -> Account:
        """Make the account, or return the one that has this id already."""
        async with self._database.transaction() as conn:
            await conn.execute(
                "insert into account (account_id, name) values ($1, $2) on conflict do nothing",
                wanted.account_id, wanted.name,
            )  # fmt: skip
            row = await conn.fetchrow(f"select {ACCOUNT} from account where account_id = $1", wanted.account_id)
        return account_of(row)

    async def account(self, account_id: str) -> Account | None:
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"select {ACCOUNT} from account where account_id = $1", account_id)
        return account_of(row) if row else None

    async def accounts(self, after: str, limit: int) -> list[Account]:
        """The next accounts by id."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(
                f"select {ACCOUNT} from account where account_id > $1 order by account_id limit $2", after, limit
            )
        return [account_of(row) for row in rows]

    async def set_status(self, account_id: str, status: AccountStatus) -> Account | None:
        """Change the status and tell it with every key of the account; nothing happens when it is the same."""
        async with self._database.transaction() as conn:
            account = await locked_account(conn, account_id)
            if account is None or account.status is status:
                return account
            row = await conn.fetchrow(
                f"update account set status = $2 where account_id = $1 returning {ACCOUNT}", account_id, status
            )
            await conn.execute(
                "update api_key set version = version + 1, changed_at = now() where account_id = $1", account_id
            )
            for key in await conn.fetch(f"{KEYS} where k.account_id = $1", account_id):
                await self._tell.event(conn, key_of(key))
            await conn.execute("select pg_notify($1, $2)", CHANNEL, account_id)
        return account_of(row)

    async def set_limits(self, account_id: str, requests_per_minute: int) -> Account | None:
        """Change the account's own limit and tell it; nothing happens when it is the same."""
        async with self._database.transaction() as conn:
            account = await locked_account(conn, account_id)
            if account is None or account.requests_per_minute == requests_per_minute:
                return account
            row = await conn.fetchrow(
                "update account set requests_per_minute = $2, settings_version = settings_version + 1"
                f" where account_id = $1 returning {ACCOUNT}",
                account_id, requests_per_minute,
            )  # fmt: skip
            account = account_of(row)
            await put(
                conn, ACCOUNTS_SETTINGS, account_id, self._settings_event(account), current_traceparent()
            )  # fmt: skip
        return account

    async def create_key(self, wanted: CreateKey, made: Made, *, most: int) -> Key | None:
        """Make the key; None when there is no such account. A suspended account's key is made, and refused.

        Raises KeyLimitError when the account has ``most`` keys already.
        """
        async with self._database.transaction() as conn:
            if await locked_account(conn, wanted.account_id) is None:
                return None
            if await active_keys(conn, wanted.account_id) >= most:
                raise KeyLimitError("key limit reached")
            await conn.execute(
                "insert into api_key (key_id, key_hash, prefix, account_id, label, expires_at, models, kind, shared,"
                " capabilities, spend_cap_micro_idr, token_cap)"
                " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                made.key_id, made.key_hash, made.prefix, wanted.account_id, wanted.label,
                moment_or_none(wanted.ends_at_ms(self._clock.now_ms())), list(wanted.models), wanted.kind,
                wanted.kind is KeyKind.SHARED, list(wanted.capabilities), wanted.spend_cap_micro_idr, wanted.token_cap,
            )  # fmt: skip
            return await self._tell.key(conn, made.key_id)

    async def rotate_key(self, key_id: str, made: Made) -> Key | None:
        """Make a key with the same settings and revoke the old one; None when there is no such key.

        A login key's per-tool keys end with it, and its successor is an ordinary one (decision 13). Raises
        NotActiveError for a key that has ended.
        """
        async with self._database.transaction() as conn:
            old = await locked_key(conn, key_id)
            if old is None:
                return None
            self._insist_on_active(old)
            await conn.execute(
                "insert into api_key (key_id, key_hash, prefix, replaces_key_id, account_id, label, expires_at, models,"
                " kind, shared, parent_key_id, disabled, capabilities, spend_cap_micro_idr, token_cap)"
                " select $2, $3, $4, key_id, account_id, label, expires_at, models,"
                " $5, shared, parent_key_id, disabled, capabilities, spend_cap_micro_idr, token_cap"
                " from api_key where key_id = $1",
                key_id, made.key_id, made.key_hash, made.prefix,
                KeyKind.DASHBOARD if old.kind is KeyKind.LOGIN else old.kind,
            )  # fmt: skip
            for ended in await revoke(conn, key_id):
                await self._tell.key(conn, ended)
            return await self._tell.key(conn, made.key_id)

    async def revoke_key(self, key_id: str) -> Key | None:
        """Revoke it for good, and the per-tool keys of a login key with it. None when there is no such key.

        Nothing happens when it was revoked before.
        """
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None:
                return None
            ended = [await self._tell.key(conn, one) for one in await revoke(conn, key_id)]
            return next((one for one in ended if one.key_id == key_id), key)

    async def rename_key(self, key_id: str, label: str) -> Key | None:
        """Change the label of any key, a revoked one too; None when there is no such key."""
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None or key.label == label:
                return key
            await conn.execute(
                "update api_key set label = $2, changed_at = now(), version = version + 1 where key_id = $1",
                key_id, label,
            )  # fmt: skip
            return await self._tell.key(conn, key_id)

    async def set_disabled(self, key_id: str, disabled: bool) -> Key | None:
        """Pause one key or end the pause; None when there is no such key, NotActiveError when it has ended."""
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None:
                return None
            self._insist_on_active(key)
            if key.disabled is disabled:
                return key
            await conn.execute(
                "update api_key set disabled = $2, changed_at = now(), version = version + 1 where key_id = $1",
                key_id, disabled,
            )  # fmt: skip
            return await self._tell.key(conn, key_id)

    async def keys(self, account_id: str) -> list[Key]:
        """All keys of an account, revoked ones too, oldest first."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(f"{KEYS} where k.account_id = $1 order by k.created_at, k.key_id", account_id)
        return [key_of(row) for row in rows]

    async def key_by_hash(self, key_hash: str) -> Key | None:
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"{KEYS} where key_hash = $1", key_hash)
        return key_of(row) if row else None

    async def every_key_event(self) -> AsyncIterator[tuple[str, bytes]]:
        """What belongs on ``accounts.keys.v1``: record key and event of every key."""
        last = ""
        while True:
            async with self._database.connection() as conn:
                rows = await conn.fetch(f"{KEYS} where k.key_id > $1 order by k.key_id limit $2", last, _PAGE)
            for key in map(key_of, rows):
                yield key.key_id, self._tell.body(key)
            if len(rows) < _PAGE:
                return
            last = rows[-1]["key_id"]

    async def every_settings_event(self) -> AsyncIterator[tuple[str, bytes]]:
        """What belongs on ``accounts.settings.v1``: every account whose limits were ever set."""
        last = ""
        while True:
            async with self._database.connection() as conn:
                rows = await conn.fetch(
                    f"select {ACCOUNT} from account where settings_version > 0 and account_id > $1"
                    " order by account_id limit $2",
                    last, _PAGE,
                )  # fmt: skip
            for account in map(account_of, rows):
                yield account.account_id, self._settings_event(account)
            if len(rows) < _PAGE:
                return
            last = rows[-1]["account_id"]

    def _insist_on_active(self, key: Key) -> None:
        expired = key.expires_at_ms and key.expires_at_ms <= self._clock.now_ms()
        if key.status is KeyStatus.REVOKED or expired:
            raise NotActiveError("the key has been revoked or has expired; make a new one")

    def _settings_event(self, account: Account) -> bytes:
        data = SettingsChanged(
            account_id=account.account_id,
            version=account.settings_version,
            requests_per_minute=account.requests_per_minute,
        )
        return encode(envelope(data, source="accounts", subject=account.account_id, now_ms=self._clock.now_ms()))


async def changed_keys(conn: Any, ids: Sequence[str]) -> list[Key]:
    """The keys behind notices: ids of keys, and of accounts for all of theirs."""
    rows = await conn.fetch(f"{KEYS} where k.key_id = any($1) or k.account_id = any($1)", list(ids))
    return [key_of(row) for row in rows]


async def keys_changed_within(conn: Any, seconds: float) -> list[Key]:
    """Keys changed lately, by the database's clock."""
    rows = await conn.fetch(f"{KEYS} where changed_at > now() - make_interval(secs => $1) order by changed_at", seconds)
    return [key_of(row) for row in rows]


async def just_changed(conn: Any, account_id: str) -> list[Key]:
    """Keys of an account that a transaction which has just ended may have changed."""
    rows = await conn.fetch(
        f"{KEYS} where k.account_id = $1 and changed_at > now() - interval '10 seconds' order by changed_at", account_id
    )
    return [key_of(row) for row in rows]
