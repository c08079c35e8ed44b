"""Accounts on a real PostgreSQL, with the outbox laid open. Used by the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, Self

from pydantic import SecretStr

from libs.core.clock import SystemClock
from libs.core.ids import prefixed_id
from libs.core.keys import hash_key
from libs.core.settings import DatabaseSettings, TelemetrySettings
from libs.db.database import Database
from libs.events.accounts import KeyChanged, SettingsChanged
from libs.events.base import decode
from libs.events.topics import ACCOUNTS_KEYS, ACCOUNTS_SETTINGS, Topic
from libs.ops.telemetry import Telemetry
from services.accounts.domain.account import Account, CreateAccount
from services.accounts.domain.key import CreateKey, CreateToolKey, Key, KeyKind
from services.accounts.domain.people import CreatePerson, Person, Role
from services.accounts.key_store import KeyStore
from services.accounts.people import People
from services.accounts.service import Accounts
from services.accounts.store import Store
from services.accounts.tool_keys import ToolKeys
from services.accounts.watch import KeyWatch

SECRET = b"the tests' own secret, long enough for it"
KEY_LIMIT = 40
_names = count(1)


class Bench:
    """One accounts process, as far as its use cases go."""

    def __init__(self, dsn: str) -> None:
        telemetry = Telemetry("accounts", TelemetrySettings())
        self.database = Database(DatabaseSettings(dsn=SecretStr(dsn)), telemetry)
        self.store = Store(self.database, SystemClock())
        tool_keys = ToolKeys(self.database, SystemClock())
        self.watch = KeyWatch(self.database, telemetry, replay_s=60, heartbeat_s=0.2)
        self.people = People(self.database, self.watch.tell_now, SystemClock(), telemetry)
        self.accounts = Accounts(
            self.store,
            KeyStore(self.database, SystemClock()),
            tool_keys,
            self.watch.tell_now,
            SECRET,
            SystemClock(),
            telemetry,
            key_limit=KEY_LIMIT,
        )

    async def __aenter__(self) -> Self:
        await self.database.start()
        await self.watch.start()
        await self.listening(True)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.watch.stop()
        await self.database.stop()

    async def listening(self, wanted: bool) -> None:
        """Wait until changes are heard, or until it is known that they are not."""
        while (self.watch.problem() is None) is not wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def account(self) -> Account:
        return await self.accounts.create_account(CreateAccount(prefixed_id("acct"), f"Person {next(_names)}"))

    async def key(self, account: Account, **wanted: Any) -> Key:
        key, _ = await self.accounts.create_key(CreateKey(account.account_id, **wanted))
        return key

    async def login_key(self, account: Account) -> Key:
        return await self.key(account, kind=KeyKind.LOGIN)

    async def tool_key(self, login: Key, tool: str = "codex", host: str = "laptop") -> tuple[Key, str]:
        wanted = CreateToolKey(login.key_id, tool, host, prefixed_id("key"))
        return await self.accounts.create_tool_key(wanted)

    async def person(self) -> Person:
        number = next(_names)
        return await self.people.create(CreatePerson(f"p{number}@example.com", f"Person {number}"))

    async def member(self, account: Account, role: Role = Role.OWNER) -> Person:
        """A new person in that account."""
        person = await self.person()
        await self.people.add(account.account_id, person.person_id, role, "")
        return person

    async def resolve(self, secret: str) -> Key | None:
        return await self.accounts.resolve(hash_key(SECRET, secret))

    async def key_events(self, key_id: str) -> list[KeyChanged]:
        return [KeyChanged.model_validate(data) for data in await self._events(ACCOUNTS_KEYS, key_id)]

    async def settings_events(self, account_id: str) -> list[SettingsChanged]:
        return [SettingsChanged.model_validate(data) for data in await self._events(ACCOUNTS_SETTINGS, account_id)]

    async def _events(self, topic: Topic, key: str) -> list[dict[str, Any]]:
        rows = await self.database.pool.fetch(
            "select body from outbox where topic = $1 and key = $2 order by id", topic.name, key
        )
        return [decode(row["body"]).data for row in rows]


async def told(changes: AsyncIterator[Key | None], account: Account, wanted: int, *, version: int = 1) -> list[Key]:
    """The next ``wanted`` changes of that account's keys a watcher hears of, within two seconds.

    A watcher may hear of a change twice: what is older than ``version`` is passed over.
    """
    heard: list[Key] = []
    async with asyncio.timeout(2):
        while len(heard) < wanted:
            key = await anext(changes)
            if key is not None and key.account_id == account.account_id and key.version >= version:
                heard.append(key)
    return heard
