"""Idempotency keys in the database: claimed by one request each, and what became of it kept for a day.

Called by idempotency_rpc.py and, to forget, by a periodic job of app.py. Every method raises DatabaseAwayError
(Transient) while the database is away; asking again for the same request is safe.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from libs.core.errors import Permanent
from libs.db.database import Database
from services.ledger.domain.calls import Release
from services.ledger.settings import IdempotencySettings

MAX_KEY = 255
MAX_BODY = 1024 * 1024
_FINGERPRINT = 32
_FORGET_AT_ONCE = 500

Header = tuple[bytes, bytes]


class InvalidClaimError(Permanent):
    """What is no key, no fingerprint or no outcome."""

    reason = "invalid"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's word within its account; ``key_id`` names the shared key whose own it is, else empty."""

    account_id: str
    key_id: str
    key: str

    def check(self) -> None:
        """Raise InvalidClaimError."""
        if not self.account_id or not 0 < len(self.key) <= MAX_KEY or "\0" in self.account_id + self.key_id + self.key:
            raise InvalidClaimError(f"an idempotency key has 1 to {MAX_KEY} characters and an account")


class State(StrEnum):
    """What a request with a key is told."""

    CLAIMED = "claimed"
    RUNNING = "running"
    REUSED = "reused"
    LOST = "lost"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer as it went out: status, the headers worth repeating, and the whole body."""

    status: int
    headers: tuple[Header, ...]
    body: bytes

    def check(self) -> None:
        """Raise InvalidClaimError for what is too large to be kept."""
        if len(self.body) > MAX_BODY:
            raise InvalidClaimError(f"an outcome of more than {MAX_BODY:,} bytes is not kept")


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a key, the request that has it, and that request's outcome if it is kept."""

    state: State
    request_id: str
    outcome: Outcome | None = None


class Idempotency:
    """Claims, outcomes and their end."""

    def __init__(self, database: Database, settings: IdempotencySettings) -> None:
        self._database = database
        self._settings = settings

    async def begin(self, key: IdempotencyKey, request_id: str, fingerprint: bytes) -> Found:
        """Claim the key, or keep the request's claim alive, or say what stands in its way."""
        key.check()
        Release(request_id, 0, key.account_id).check()
        if len(fingerprint) != _FINGERPRINT:
            raise InvalidClaimError("a fingerprint is a SHA-256")
        async with self._database.transaction() as conn:
            row = await conn.fetchrow(
                _CLAIM, key.account_id, key.key_id, key.key, request_id, fingerprint,
                self._settings.lease_s, self._settings.keep_s,
            )  # fmt: skip
            if row["mine"]:
                return Found(State.CLAIMED, request_id)
            holder = row["request_id"].hex
            if row["forgotten"] or (row["abandoned"] and not await _charged(conn, holder)):
                await conn.execute(
                    _TAKE_OVER, key.account_id, key.key_id, key.key, request_id, fingerprint, self._settings.lease_s
                )
                return Found(State.CLAIMED, request_id)
        return _found(row, holder, fingerprint)

    async def end(self, key: IdempotencyKey, request_id: str, ends: Outcome | None, *, free: bool) -> None:
        """End a request's claim: free the key, or keep its outcome, or None: know that it is lost."""
        if ends is not None:
            ends.check()
        Release(request_id, 0, key.account_id).check()
        mine = (key.account_id, key.key_id, key.key, request_id)
        async with self._database.connection() as conn:
            if free:
                await conn.execute(f"delete from idempotency {_MINE}", *mine)
            elif ends is None:
                await conn.execute(f"update idempotency set state = 'lost' {_MINE}", *mine)
            else:
                headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in ends.headers]
                await conn.execute(
                    f"update idempotency set state = 'kept', status = $5, headers = $6, body = $7 {_MINE}",
                    *mine, ends.status, json.dumps(headers), ends.body,
                )  # fmt: skip

    async def forget(self) -> None:
        """Delete what is older than it is kept; a part at a time, for nobody waits for it."""
        while True:
            async with self._database.connection() as conn:
                ended = await conn.execute(_FORGET, self._settings.keep_s, _FORGET_AT_ONCE)
            if int(ended.rpartition(" ")[2]) < _FORGET_AT_ONCE:
                return


# The row is locked either way: two requests with one key are told one after the other.
_CLAIM = """
insert into idempotency as i (account_id, key_id, key, request_id, fingerprint, state, lease_until)
values ($1, $2, $3, $4, $5, 'running', clock_timestamp() + make_interval(secs => $6))
on conflict (account_id, key_id, key) do update
    set lease_until = case when i.request_id = excluded.request_id then excluded.lease_until else i.lease_until end
returning request_id, fingerprint, state, status, headers, body,
    state = 'running' and request_id = $4 as mine,
    claimed_at < clock_timestamp() - make_interval(secs => $7) as forgotten,
    state = 'running' and lease_until < clock_timestamp() as abandoned
"""
_TAKE_OVER = """
update idempotency
set request_id = $4, fingerprint = $5, state = 'running', claimed_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => $6), status = null, headers = null, body = null
where account_id = $1 and key_id = $2 and key = $3
"""
_MINE = "where account_id = $1 and key_id = $2 and key = $3 and request_id = $4 and state = 'running'"
_FORGET = """
delete from idempotency where (account_id, key_id, key) in (
    select account_id, key_id, key from idempotency
    where claimed_at < clock_timestamp() - make_interval(secs => $1) limit $2
)
"""


async def _charged(conn: Any, request_id: str) -> bool:
    """Whether an abandoned request was settled all the same: its edge died between the charge and its report."""
    return bool(
        await conn.fetchval(
            "select exists (select from usage_row where request_id = $1 and outcome <> 'interrupted')", request_id
        )
    )


def _found(row: Any, holder: str, fingerprint: bytes) -> Found:
    if row["fingerprint"] != fingerprint:
        return Found(State.REUSED, holder)
    if row["state"] == "kept":
        headers = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in json.loads(row["headers"]))
        return Found(State.KEPT, holder, Outcome(row["status"], headers, row["body"]))
    # Abandoned after a charge: there is nothing to repeat, and once more would be charged once more.
    lost = row["state"] == "lost" or row["abandoned"]
    return Found(State.LOST if lost else State.RUNNING, holder)
