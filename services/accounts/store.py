"""The tables of accounts: all SQL is here. A change, its event and its notice are one transaction.

Called by service.py and watch.py. Whoever changes a key holds its account's row: the version of a key and the
order of its events follow the order of commits.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from libs.events.accounts import KeyChanged, SettingsChanged
from libs.events.base import encode, envelope
from libs.events.topics import ACCOUNTS_KEYS, ACCOUNTS_SETTINGS
from libs.kafka.outbox import put
from libs.ops.tracing import current_traceparent
from services.accounts.domain import Account, AccountStatus, CreateAccount, CreateKey, Key, KeyStatus

# Carries the id of a key, or of an account when all of its keys changed.
CHANNEL = "accounts_keys"

_PAGE = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_ACCOUNT = "account_id, name, status, requests_per_minute, settings_version, created_at"
_KEY = (
    "key_id, key_hash, k.account_id, k.status, a.status as account_status, expires_at, label, version, models,"
    " shared, k.created_at"
)
_KEYS = f"select {_KEY} from api_key k join account a using (account_id)"


class Store:
    """Reads and writes of the service's database; every method raises DatabaseAwayError when it is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create_account(self, wanted: CreateAccount) -> Account:
        """Make the account, or return the one that has this id already."""
        async with self._database.transaction() as conn:
            await conn.execute(
                "insert into account (account_id, name) values ($1, $2) on conflict do nothing",
                wanted.account_id, wanted.name,
            )  # fmt: skip
            row = await conn.fetchrow(f"select {_ACCOUNT} from account where account_id = $1", wanted.account_id)
        return _account(row)

    async def account(self, account_id: str) -> Account | None:
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"select {_ACCOUNT} from account where account_id = $1", account_id)
        return _account(row) if row else None

    async def set_status(self, account_id: str, status: AccountStatus) -> Account | None:
        """Change the status and tell it with every key of the account; nothing happens when it is the same."""
        async with self._database.transaction() as conn:
            account = await _locked(conn, account_id)
            if account is None or account.status is status:
                return account
            row = await conn.fetchrow(
                f"update account set status = $2 where account_id = $1 returning {_ACCOUNT}", account_id, status
            )
            await conn.execute(
                "update api_key set version = version + 1, changed_at = now() where account_id = $1", account_id
            )
            for key in await conn.fetch(f"{_KEYS} where k.account_id = $1", account_id):
                await self._tell_key(conn, _key(key))
            await conn.execute("select pg_notify($1, $2)", CHANNEL, account_id)
        return _account(row)

    async def set_limits(self, account_id: str, requests_per_minute: int) -> Account | None:
        """Change the account's own limit and tell it; nothing happens when it is the same."""
        async with self._database.transaction() as conn:
            account = await _locked(conn, account_id)
            if account is None or account.requests_per_minute == requests_per_minute:
                return account
            row = await conn.fetchrow(
                "update account set requests_per_minute = $2, settings_version = settings_version + 1"
                f" where account_id = $1 returning {_ACCOUNT}",
                account_id, requests_per_minute,
            )  # fmt: skip
            account = _account(row)
            await put(
                conn, ACCOUNTS_SETTINGS, account_id, self._settings_event(account), current_traceparent()
            )  # fmt: skip
        return account

    async def create_key(self, wanted: CreateKey, key_id: str, key_hash: str) -> Key | None:
        """Make the key; None when there is no such account. A suspended account's key is made, and refused."""
        expires_at = _EPOCH + wanted.expires_at_ms * _MS if wanted.expires_at_ms else None
        async with self._database.transaction() as conn:
            if not await _shared(conn, wanted.account_id):
                return None
            await conn.execute(
                "insert into api_key (key_id, key_hash, account_id, label, expires_at, models)"
                " values ($1, $2, $3, $4, $5, $6)",
                key_id, key_hash, wanted.account_id, wanted.label, expires_at, list(wanted.models),
            )  # fmt: skip
            return await self._told(conn, key_id)

    async def revoke_key(self, key_id: str) -> Key | None:
        """Revoke it for good; nothing happens when it was revoked before. None when there is no such key."""
        async with self._database.transaction() as conn:
            account_id = await conn.fetchval("select account_id from api_key where key_id = $1", key_id)
            if account_id is None:
                return None
            await _shared(conn, account_id)
            revoked = await conn.fetchval(
                "update api_key set status = 'revoked', revoked_at = now(), changed_at = now(), version = version + 1"
                " where key_id = $1 and status = 'active' returning key_id",
                key_id,
            )
            if revoked is None:
                return _key(await conn.fetchrow(f"{_KEYS} where key_id = $1", key_id))
            return await self._told(conn, key_id)

    async def keys(self, account_id: str) -> list[Key]:
        """All keys of an account, revoked ones too, oldest first."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(f"{_KEYS} where k.account_id = $1 order by k.created_at, key_id", account_id)
        return [_key(row) for row in rows]

    async def key_by_hash(self, key_hash: str) -> Key | None:
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"{_KEYS} where key_hash = $1", key_hash)
        return _key(row) if row else None

    async def _told(self, conn: Any, key_id: str) -> Key:
        key = _key(await conn.fetchrow(f"{_KEYS} where key_id = $1", key_id))
        await self._tell_key(conn, key)
        await conn.execute("select pg_notify($1, $2)", CHANNEL, key_id)
        return key

    async def _tell_key(self, conn: Any, key: Key) -> None:
        await put(conn, ACCOUNTS_KEYS, key.key_id, self._key_event(key), current_traceparent())

    async def every_key_event(self) -> AsyncIterator[tuple[str, bytes]]:
        """What belongs on ``accounts.keys.v1``: record key and event of every key."""
        last = ""
        while True:
            async with self._database.connection() as conn:
                rows = await conn.fetch(f"{_KEYS} where key_id > $1 order by key_id limit $2", last, _PAGE)
            for key in map(_key, rows):
                yield key.key_id, self._key_event(key)
            if len(rows) < _PAGE:
                return
            last = rows[-1]["key_id"]

    async def every_settings_event(self) -> AsyncIterator[tuple[str, bytes]]:
        """What belongs on ``accounts.settings.v1``: every account whose limits were ever set."""
        last = ""
        while True:
            async with self._database.connection() as conn:
                rows = await conn.fetch(
                    f"select {_ACCOUNT} from account where settings_version > 0 and account_id > $1"
                    " order by account_id limit $2",
                    last, _PAGE,
                )  # fmt: skip
            for account in map(_account, rows):
                yield account.account_id, self._settings_event(account)
            if len(rows) < _PAGE:
                return
            last = rows[-1]["account_id"]

    def _key_event(self, key: Key) -> bytes:
        data = KeyChanged(
            key_id=key.key_id,
            key_hash=key.key_hash,
            account_id=key.account_id,
            status=key.status.value,
            account_status=key.account_status.value,
            expires_at_ms=key.expires_at_ms,
            label=key.label,
            version=key.version,
            models=key.models,
            shared=key.shared,
            created_at_ms=key.created_at_ms,
        )
        return encode(envelope(data, source="accounts", subject=key.key_id, now_ms=self._clock.now_ms()))

    def _settings_event(self, account: Account) -> bytes:
        data = SettingsChanged(
            account_id=account.account_id,
            version=account.settings_version,
            requests_per_minute=account.requests_per_minute,
        )
        return encode(envelope(data, source="accounts", subject=account.account_id, now_ms=self._clock.now_ms()))


async def changed_keys(conn: Any, ids: Sequence[str]) -> list[Key]:
    """The keys behind notices: ids of keys, and of accounts for all of theirs."""
    rows = await conn.fetch(f"{_KEYS} where key_id = any($1) or k.account_id = any($1)", list(ids))
    return [_key(row) for row in rows]


async def keys_changed_within(conn: Any, seconds: float) -> list[Key]:
    """Keys changed lately, by the database's clock."""
    rows = await conn.fetch(
        f"{_KEYS} where changed_at > now() - make_interval(secs => $1) order by changed_at", seconds
    )
    return [_key(row) for row in rows]


async def _locked(conn: Any, account_id: str) -> Account | None:
    row = await conn.fetchrow(f"select {_ACCOUNT} from account where account_id = $1 for update", account_id)
    return _account(row) if row else None


async def _shared(conn: Any, account_id: str) -> bool:
    """Keep the account as it is until this transaction ends; False when there is none."""
    return bool(await conn.fetchval("select true from account where account_id = $1 for share", account_id))


def _account(row: Any) -> Account:
    return Account(
        row["account_id"], row["name"], AccountStatus(row["status"]), row["requests_per_minute"],
        row["settings_version"], _unix_ms(row["created_at"]),
    )  # fmt: skip


def _key(row: Any) -> Key:
    return Key(
        key_id=row["key_id"],
        key_hash=row["key_hash"],
        account_id=row["account_id"],
        status=KeyStatus(row["status"]),
        account_status=AccountStatus(row["account_status"]),
        expires_at_ms=_unix_ms(row["expires_at"]) if row["expires_at"] else 0,
        label=row["label"],
        version=row["version"],
        models=tuple(row["models"]),
        shared=row["shared"],
        created_at_ms=_unix_ms(row["created_at"]),
    )


def _unix_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MS
