"""The table of accounts, and keys as they are read. A change, its event and its notice are one transaction.

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
from services.accounts.domain.key import Key, Share
from services.accounts.rows import ACCOUNT, CHANNEL, KEYS, SHARES, Telling, account_of, key_of, locked_account

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

    async def keys(self, account_id: str) -> list[Key]:
        """All keys of an account, revoked ones too, oldest first."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(f"{KEYS} where k.account_id = $1 order by k.created_at, k.key_id", account_id)
        return [key_of(row) for row in rows]

    async def key_by_hash(self, key_hash: str) -> Key | None:
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"{KEYS} where key_hash = $1", key_hash)
        return key_of(row) if row else None

    async def share(self, link_token: str) -> Share | None:
        """The share behind a public link while its key can be used; None otherwise."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                f"{SHARES} where l.link_token = $1 and k.status = 'active' and not k.disabled"
                " and k.expires_at > now() and a.status = 'active'",
                link_token,
            )
        return Share(key_of(row), row["owner_name"]) if row else None

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
