"""Accounts as values, and what can be one.

Called by the use cases, the stores and rpc.py.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from services.accounts.domain.errors import InvalidError

MAX_NAME = 200
MAX_REQUESTS_PER_MINUTE = 1_000_000
# Account ids are part of record keys and of other stores' key names.
_ACCOUNT_ID = re.compile(r"acct_[A-Za-z0-9_-]{1,64}")


class AccountStatus(StrEnum):
    """A suspended account's keys are all refused."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


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
class CreateAccount:
    """An account to make; an id chosen by the caller makes a retry harmless."""

    account_id: str
    name: str

    def check(self) -> None:
        """Raise InvalidError for what cannot be an account."""
        if not _ACCOUNT_ID.fullmatch(self.account_id):
            raise InvalidError("an account id is acct_ and up to 64 letters, digits, _ or -")
        check_name(self.name)


def check_name(name: str) -> None:
    """Raise InvalidError for what cannot name an account or a person."""
    if not name.strip() or len(name) > MAX_NAME or "\0" in name:
        raise InvalidError(f"a name has 1 to {MAX_NAME} characters")


def check_requests_per_minute(value: int) -> None:
    """Raise InvalidError for a limit nobody can mean."""
    if value > MAX_REQUESTS_PER_MINUTE:
        raise InvalidError(f"requests per minute are at most {MAX_REQUESTS_PER_MINUTE:,}; 0 is the default")
