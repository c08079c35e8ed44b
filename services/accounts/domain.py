"""Accounts and keys as values, and what may be asked for. Pure: no clock, no IO.

Called by service.py, store.py and rpc.py (contract: Authentication and API keys).
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from libs.core.errors import Permanent

MAX_NAME = 200
MAX_LABEL = 100
MAX_MODELS = 200
MAX_MODEL_ID = 200
MAX_REQUESTS_PER_MINUTE = 1_000_000
# Account ids are part of record keys and of other stores' key names.
_ACCOUNT_ID = re.compile(r"acct_[A-Za-z0-9_-]{1,64}")
# The last millisecond of the year 9999, which the database can still hold.
_LAST_MS = 253_402_300_799_999


class AccountsError(Permanent):
    """Base of what this service refuses."""


class NotFoundError(AccountsError):
    """No such account or key."""

    reason = "not_found"


class InvalidError(AccountsError):
    """The request itself is wrong."""

    reason = "invalid"


class AlreadyExistsError(AccountsError):
    """The id is taken by something else."""

    reason = "already_exists"


class AccountStatus(StrEnum):
    """A suspended account's keys are all refused."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class KeyStatus(StrEnum):
    """A revoked key stays revoked."""

    ACTIVE = "active"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Account:
    """One account; ``requests_per_minute`` 0 means the limiter's default."""

    account_id: str
    name: str
    status: AccountStatus
    requests_per_minute: int
    settings_version: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Key:
    """One key with its account's status; ``expires_at_ms`` 0 is never, empty ``models`` is every model."""

    key_id: str
    key_hash: str
    account_id: str
    status: KeyStatus
    account_status: AccountStatus
    expires_at_ms: int
    label: str
    version: int
    models: tuple[str, ...]
    shared: bool
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class CreateAccount:
    """An account to make; an id chosen by the caller makes a retry harmless."""

    account_id: str
    name: str

    def check(self) -> None:
        """Raise InvalidError for what cannot be an account."""
        if not _ACCOUNT_ID.fullmatch(self.account_id):
            raise InvalidError("an account id is acct_ and up to 64 letters, digits, _ or -")
        if not self.name.strip() or len(self.name) > MAX_NAME:
            raise InvalidError(f"a name has 1 to {MAX_NAME} characters")


@dataclass(frozen=True, slots=True)
class CreateKey:
    """A key to make."""

    account_id: str
    label: str = ""
    expires_at_ms: int = 0
    models: tuple[str, ...] = ()

    def check(self, now_ms: int) -> None:
        """Raise InvalidError for what cannot be a key."""
        if len(self.label) > MAX_LABEL:
            raise InvalidError(f"a label has at most {MAX_LABEL} characters")
        if self.expires_at_ms and not now_ms < self.expires_at_ms <= _LAST_MS:
            raise InvalidError("a key expires in the future, or never (0)")
        if len(self.models) > MAX_MODELS:
            raise InvalidError(f"a key is limited to at most {MAX_MODELS} models")
        if not all(0 < len(model) <= MAX_MODEL_ID for model in self.models):
            raise InvalidError(f"a model id has 1 to {MAX_MODEL_ID} characters")


def check_requests_per_minute(value: int) -> None:
    """Raise InvalidError for a limit nobody can mean."""
    if value > MAX_REQUESTS_PER_MINUTE:
        raise InvalidError(f"requests per minute are at most {MAX_REQUESTS_PER_MINUTE:,}; 0 is the default")
