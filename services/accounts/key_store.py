"""Keys in the database as they are made and changed: each change, its event and its notice are one transaction.

Called by service.py.
"""

import secrets
from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from services.accounts.domain.errors import FixedLimitsError, InvalidError, KeyLimitError, NotActiveError
from services.accounts.domain.key import CreateKey, Key, KeyKind, KeyStatus, Made
from services.accounts.domain.limits import ChangeLimits
from services.accounts.rows import Telling, active_keys, locked_account, locked_key, moment_or_none, revoke

# 128 random bits: whoever has no link finds none.
_LINK_BYTES = 16
_CARRIED = (
    "account_id, label, expires_at, models, shared, parent_key_id, disabled, capabilities, spend_cap_micro_idr,"
    " token_cap, member_id, cap_period, cap_epoch, allowed_ips, requests_per_minute, tokens_per_minute"
)
"""What a key hands on when it is rotated."""


class KeyStore:
    """Makes and changes keys; every method raises DatabaseAwayError when the database is away."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._tell = Telling(clock)

    async def create(self, wanted: CreateKey, made: Made, *, most: int) -> Key | None:
        """Make the key; None when there is no such account. A suspended account's key is made, and refused.

        Raises KeyLimitError when the account has ``most`` keys already, InvalidError when the key is to be
        somebody's who is no member.
        """
        async with self._database.transaction() as conn:
            if await locked_account(conn, wanted.account_id) is None:
                return None
            if await active_keys(conn, wanted.account_id) >= most:
                raise KeyLimitError("key limit reached")
            if wanted.member_id and not await _is_member(conn, wanted.account_id, wanted.member_id):
                raise InvalidError("a key can only be a member's of its account")
            limits = wanted.limits
            await conn.execute(
                "insert into api_key (key_id, key_hash, prefix, account_id, label, expires_at, models, kind, shared,"
                " capabilities, spend_cap_micro_idr, token_cap, member_id, cap_period, allowed_ips,"
                " requests_per_minute, tokens_per_minute)"
                " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
                made.key_id, made.key_hash, made.prefix, wanted.account_id, wanted.label,
                moment_or_none(wanted.ends_at_ms(self._clock.now_ms())), list(wanted.models), wanted.kind,
                wanted.kind is KeyKind.SHARED, list(wanted.capabilities), limits.spend_cap_micro_idr, limits.token_cap,
                wanted.member_id or None, limits.cap_period, list(limits.allowed_ips), limits.requests_per_minute,
                limits.tokens_per_minute,
            )  # fmt: skip
            if wanted.kind is KeyKind.SHARED:
                await conn.execute(
                    "insert into share_link (link_token, key_id, note) values ($1, $2, $3)",
                    secrets.token_urlsafe(_LINK_BYTES), made.key_id, wanted.note,
                )  # fmt: skip
            return await self._tell.key(conn, made.key_id)

    async def rotate(self, key_id: str, made: Made) -> Key | None:
        """Make a key with the same settings and revoke the old one; None when there is no such key.

        A login key's per-tool keys end with it, and its successor is an ordinary one (decision 13); a share keeps
        its link. Raises NotActiveError for a key that has ended.
        """
        async with self._database.transaction() as conn:
            old = await locked_key(conn, key_id)
            if old is None:
                return None
            self._insist_on_active(old)
            await conn.execute(
                f"insert into api_key (key_id, key_hash, prefix, replaces_key_id, kind, {_CARRIED})"
                f" select $2, $3, $4, key_id, $5, {_CARRIED} from api_key where key_id = $1",
                key_id, made.key_id, made.key_hash, made.prefix,
                KeyKind.DASHBOARD if old.kind is KeyKind.LOGIN else old.kind,
            )  # fmt: skip
            await conn.execute("update share_link set key_id = $2 where key_id = $1", key_id, made.key_id)
            for ended in await revoke(conn, key_id):
                await self._tell.key(conn, ended)
            return await self._tell.key(conn, made.key_id)

    async def revoke(self, key_id: str) -> Key | None:
        """Revoke it for good, and the per-tool keys of a login key with it. None when there is no such key.

        Nothing happens when it was revoked before.
        """
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None:
                return None
            ended = [await self._tell.key(conn, one) for one in await revoke(conn, key_id)]
            return next((one for one in ended if one.key_id == key_id), key)

    async def rename(self, key_id: str, label: str) -> Key | None:
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

    async def set_limits(self, key_id: str, change: ChangeLimits) -> Key | None:
        """Change a key's limits; None when there is no such key.

        Raises NotActiveError when it has ended, FixedLimitsError or InvalidError for what must not change.
        """
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None:
                return None
            self._insist_on_active(key)
            limits = change.of(key.limits, shared=key.shared, login=key.kind is KeyKind.LOGIN)
            if limits == key.limits:
                return key
            await conn.execute(
                "update api_key set spend_cap_micro_idr = $2, cap_period = $3, allowed_ips = $4,"
                " requests_per_minute = $5, tokens_per_minute = $6, changed_at = now(), version = version + 1"
                " where key_id = $1",
                key_id, limits.spend_cap_micro_idr, limits.cap_period, list(limits.allowed_ips),
                limits.requests_per_minute, limits.tokens_per_minute,
            )  # fmt: skip
            return await self._tell.key(conn, key_id)

    async def reset_caps(self, key_id: str) -> Key | None:
        """Let the count of a key's caps start anew; None when there is no such key.

        Raises NotActiveError when it has ended, FixedLimitsError for a shared key and one without a spend cap.
        """
        async with self._database.transaction() as conn:
            key = await locked_key(conn, key_id)
            if key is None:
                return None
            self._insist_on_active(key)
            if key.shared or not key.limits.spend_cap_micro_idr:
                raise FixedLimitsError("only an unshared key with a spend cap can start anew; make another key")
            await conn.execute(
                "update api_key set cap_epoch = cap_epoch + 1, changed_at = now(), version = version + 1"
                " where key_id = $1",
                key_id,
            )
            return await self._tell.key(conn, key_id)

    def _insist_on_active(self, key: Key) -> None:
        expired = key.expires_at_ms and key.expires_at_ms <= self._clock.now_ms()
        if key.status is KeyStatus.REVOKED or expired:
            raise NotActiveError("the key has been revoked or has expired; make a new one")


async def _is_member(conn: Any, account_id: str, person_id: str) -> bool:
    return bool(
        await conn.fetchval("select true from member where account_id = $1 and person_id = $2", account_id, person_id)
    )
