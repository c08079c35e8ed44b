"""Per-tool keys in the database: their limits are counted with the creation, in one transaction.

Called by service.py (contract: Per-tool keys).
"""

from collections.abc import Mapping
from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from services.accounts.domain.errors import (
    AccountsError,
    AlreadyExistsError,
    ChildKeyCapError,
    KeyCreationRateError,
    KeyLimitError,
    NotFoundError,
)
from services.accounts.domain.key import (
    TOOL_KEY_REQUESTS_PER_MINUTE,
    TOOL_KEYS_PER_LOGIN_KEY,
    CreateToolKey,
    Key,
    KeyKind,
    KeyStatus,
    Made,
)
from services.accounts.rows import EPOCH, KEYS, MS, Telling, active_keys, key_of, locked_key, revoke


class ToolKeys:
    """Keys of tools under their login keys; every method raises DatabaseAwayError when the database is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._tell = Telling(clock)

    async def create(self, wanted: CreateToolKey, made: Made, *, most: int) -> Key:
        """Make the key; raise what refuses it. ``most`` is how many keys an account may have."""
        async with self._database.transaction() as conn:
            login = await locked_key(conn, wanted.login_key_id)
            if login is None or login.kind is not KeyKind.LOGIN or login.status is not KeyStatus.ACTIVE:
                raise NotFoundError("there is no such login key")
            refusal = await _refusal(conn, login, most)
            if refusal is None:
                if await conn.fetchval("select true from api_key where key_id = $1", made.key_id):
                    raise AlreadyExistsError("this key has been made already")
                await conn.execute(
                    # Otherwise a login key would make keys that may do more than it does.
                    "insert into api_key (key_id, key_hash, prefix, account_id, label, kind, parent_key_id, expires_at,"
                    " member_id, allowed_ips, requests_per_minute, tokens_per_minute)"
                    " select $1, $2, $3, account_id, $4, 'tool', key_id, expires_at,"
                    " member_id, allowed_ips, requests_per_minute, tokens_per_minute from api_key where key_id = $5",
                    made.key_id, made.key_hash, made.prefix, wanted.label, login.key_id,
                )  # fmt: skip
                return await self._tell.key(conn, made.key_id)
        # Only after the commit: the refused request counts too.
        raise refusal

    async def of(self, login_key_id: str) -> list[Key]:
        """The active per-tool keys of a login key, newest first."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(
                f"{KEYS} where parent_key_id = $1 and k.status = 'active' order by k.created_at desc, k.key_id desc",
                login_key_id,
            )
        return [key_of(row) for row in rows]

    async def revoke(self, login_key_id: str, key_id: str) -> Key | None:
        """Revoke one for good; None unless it is an active per-tool key of this login key."""
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None or key.parent_key_id != login_key_id or key.status is not KeyStatus.ACTIVE:
                return None
            await revoke(conn, key_id)
            return await self._tell.key(conn, key_id)

    async def used(self, moments_ms: Mapping[str, int]) -> None:
        """Note when keys were last used; an earlier moment changes nothing, nor does an unknown key."""
        async with self._database.connection() as conn:
            await conn.execute(
                "insert into key_use (key_id, at)"
                " select key_id, seen.at from unnest($1::text[], $2::timestamptz[]) as seen (key_id, at)"
                " join api_key using (key_id) order by key_id"
                " on conflict (key_id) do update set at = excluded.at where key_use.at < excluded.at",
                list(moments_ms), [EPOCH + ms * MS for ms in moments_ms.values()],
            )  # fmt: skip


async def _refusal(conn: Any, login: Key, most: int) -> AccountsError | None:
    """Count this request and say what stands against it, the limits of the login key first."""
    key_id = login.key_id
    await conn.execute(
        "delete from tool_key_request where login_key_id = $1 and at <= clock_timestamp() - interval '1 minute'", key_id
    )
    asked = await conn.fetchval("select count(*) from tool_key_request where login_key_id = $1", key_id)
    if asked >= TOOL_KEY_REQUESTS_PER_MINUTE:
        return KeyCreationRateError("too many keys were asked for within a minute; wait a few seconds and retry")
    await conn.execute("insert into tool_key_request (login_key_id) values ($1)", key_id)
    held = await conn.fetchval(
        "select count(*) from api_key where parent_key_id = $1 and status = 'active'", key_id
    )  # fmt: skip
    if held >= TOOL_KEYS_PER_LOGIN_KEY:
        return ChildKeyCapError(f"this key already has {TOOL_KEYS_PER_LOGIN_KEY} per-tool keys; revoke one first")
    if await active_keys(conn, login.account_id) >= most:
        return KeyLimitError("key limit reached")
    return None
