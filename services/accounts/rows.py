"""Rows of accounts and keys as values, and the statements that several stores share.

Called by the stores and watch.py. Whoever changes a key holds its account's row: the version of a key and the order
of its events follow the order of commits.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from libs.core.clock import Clock
from libs.events.accounts import KeyChanged
from libs.events.base import encode, envelope
from libs.events.topics import ACCOUNTS_KEYS
from libs.kafka.outbox import put
from libs.ops.tracing import current_traceparent
from services.accounts.domain.account import Account, AccountStatus
from services.accounts.domain.key import Capability, Key, KeyKind, KeyStatus
from services.accounts.domain.limits import CapPeriod, Limits

# Carries the id of a key, or of an account when all of its keys changed.
CHANNEL = "accounts_keys"

ACCOUNT = "account_id, name, status, requests_per_minute, settings_version, created_at"
_KEY = (
    "k.key_id, key_hash, k.account_id, k.status, a.status as account_status, expires_at, label, version, models,"
    " k.created_at, kind, prefix, parent_key_id, replaces_key_id, disabled, capabilities, spend_cap_micro_idr,"
    " token_cap, member_id, cap_period, cap_epoch, allowed_ips, k.requests_per_minute, tokens_per_minute,"
    " u.at as last_used_at, l.link_token, l.note"
)
_FROM = (
    "api_key k join account a using (account_id)"
    " left join key_use u using (key_id) left join share_link l using (key_id)"
)
KEYS = f"select {_KEY} from {_FROM}"
"""Every key with its account's status; a condition names columns of ``k``."""
SHARES = f"select {_KEY}, a.name as owner_name from {_FROM}"
"""The same with the name of the account."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def account_of(row: Any) -> Account:
    """The account in a row of the columns ``ACCOUNT``."""
    return Account(
        row["account_id"], row["name"], AccountStatus(row["status"]), row["requests_per_minute"],
        row["settings_version"], unix_ms(row["created_at"]),
    )  # fmt: skip


def key_of(row: Any) -> Key:
    """The key in a row of ``KEYS``."""
    return Key(
        key_id=row["key_id"],
        key_hash=row["key_hash"],
        account_id=row["account_id"],
        status=KeyStatus(row["status"]),
        account_status=AccountStatus(row["account_status"]),
        expires_at_ms=unix_ms(row["expires_at"]) if row["expires_at"] else 0,
        label=row["label"],
        version=row["version"],
        models=tuple(row["models"]),
        created_at_ms=unix_ms(row["created_at"]),
        kind=KeyKind(row["kind"]),
        prefix=row["prefix"],
        parent_key_id=row["parent_key_id"] or "",
        replaces_key_id=row["replaces_key_id"] or "",
        disabled=row["disabled"],
        capabilities=tuple(map(Capability, row["capabilities"])),
        last_used_at_ms=unix_ms(row["last_used_at"]) if row["last_used_at"] else 0,
        member_id=row["member_id"] or "",
        limits=Limits(
            spend_cap_micro_idr=row["spend_cap_micro_idr"],
            token_cap=row["token_cap"],
            cap_period=CapPeriod(row["cap_period"]),
            allowed_ips=tuple(row["allowed_ips"]),
            requests_per_minute=row["requests_per_minute"],
            tokens_per_minute=row["tokens_per_minute"],
        ),
        cap_epoch=row["cap_epoch"],
        link_token=row["link_token"] or "",
        note=row["note"] or "",
    )


def unix_ms(moment: datetime) -> int:
    """Milliseconds since 1970, rounded down."""
    return (moment - EPOCH) // MS


def moment_or_none(ms: int) -> datetime | None:
    """The moment as the database stores it; None for 0."""
    return EPOCH + ms * MS if ms else None


async def locked_account(conn: Any, account_id: str) -> Account | None:
    """The account, held until this transaction ends; None when there is none."""
    row = await conn.fetchrow(f"select {ACCOUNT} from account where account_id = $1 for update", account_id)
    return account_of(row) if row else None


async def locked_key(conn: Any, key_id: str) -> Key | None:
    """The key as it is once its account is held until this transaction ends; None when there is none."""
    account_id = await conn.fetchval("select account_id from api_key where key_id = $1", key_id)
    if account_id is None:
        return None
    await locked_account(conn, account_id)
    return await key_with(conn, key_id)


async def key_with(conn: Any, key_id: str) -> Key:
    """A key that is known to be there."""
    return key_of(await conn.fetchrow(f"{KEYS} where k.key_id = $1", key_id))


async def active_keys(conn: Any, account_id: str) -> int:
    """How many keys count toward the account's limit: neither revoked nor expired."""
    count: int = await conn.fetchval(
        "select count(*) from api_key where account_id = $1 and status = 'active'"
        " and (expires_at is null or expires_at > now())",
        account_id,
    )
    return count


_REVOKE = "update api_key set status = 'revoked', revoked_at = now(), changed_at = now(), version = version + 1"


async def revoke(conn: Any, key_id: str) -> list[str]:
    """Revoke the key for good, and the per-tool keys it has; the ids of those that were active."""
    rows = await conn.fetch(
        f"{_REVOKE} where (key_id = $1 or parent_key_id = $1) and status = 'active' returning key_id", key_id
    )
    return [row["key_id"] for row in rows]


async def revoke_of_member(conn: Any, account_id: str, person_id: str) -> list[str]:
    """Revoke a member's keys for good; the ids of those that were active. Their per-tool keys are the member's too."""
    rows = await conn.fetch(
        f"{_REVOKE} where account_id = $1 and member_id = $2 and status = 'active' returning key_id",
        account_id, person_id,
    )  # fmt: skip
    return [row["key_id"] for row in rows]


class Telling:
    """Tells a change of a key with the transaction that makes it: an event for readers, a notice for watchers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def key(self, conn: Any, key_id: str) -> Key:
        """Tell the key as it is now in this transaction, and return it."""
        key = await key_with(conn, key_id)
        await self.event(conn, key)
        await conn.execute("select pg_notify($1, $2)", CHANNEL, key_id)
        return key

    async def event(self, conn: Any, key: Key) -> None:
        """Leave the key's event to the outbox."""
        await put(conn, ACCOUNTS_KEYS, key.key_id, self.body(key), current_traceparent())

    def body(self, key: Key) -> bytes:
        """The key as its event."""
        limits = key.limits
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
            kind=key.kind.value,
            prefix=key.prefix,
            parent_key_id=key.parent_key_id,
            disabled=key.disabled,
            capabilities=tuple(capability.value for capability in key.capabilities),
            spend_cap_micro_idr=limits.spend_cap_micro_idr,
            token_cap=limits.token_cap,
            replaces_key_id=key.replaces_key_id,
            member_id=key.member_id,
            cap_period=limits.cap_period.value,
            cap_epoch=key.cap_epoch,
            allowed_ips=limits.allowed_ips,
            requests_per_minute=limits.requests_per_minute,
            tokens_per_minute=limits.tokens_per_minute,
        )
        return encode(envelope(data, source="accounts", subject=key.key_id, now_ms=self._clock.now_ms()))
