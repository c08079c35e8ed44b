"""Keys as values, and what can be one (contract: Authentication and API keys, Per-tool keys; decision 22).

Called by the use cases, the stores and rpc.py.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from services.accounts.domain.account import AccountStatus
from services.accounts.domain.errors import InvalidError
from services.accounts.domain.limits import NO_LIMITS, Limits

MAX_LABEL = 100
MAX_MODELS = 200
MAX_MODEL_ID = 200
MAX_NOTE = 500
# How much of a key is kept and shown.
PREFIX_LENGTH = 11
SHARED_DAYS = range(1, 91)
TOOL_KEYS_PER_LOGIN_KEY = 30
TOOL_KEY_REQUESTS_PER_MINUTE = 20
_DAY_MS = 86_400_000
# The last millisecond of the year 9999, which the database can still hold.
_LAST_MS = 253_402_300_799_999
_TOOL = re.compile(r"[a-z0-9.-]{1,40}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_ID = re.compile(r"key_[A-Za-z0-9_-]{1,64}")


class KeyStatus(StrEnum):
    """A revoked key stays revoked."""

    ACTIVE = "active"
    REVOKED = "revoked"


class KeyKind(StrEnum):
    """Where a key comes from: only a login key manages per-tool keys, a shared key is a limited grant."""

    DASHBOARD = "dashboard"
    LOGIN = "login"
    TOOL = "tool"
    SHARED = "shared"


class Capability(StrEnum):
    """A paid feature that a key with a model scope may use only when it is ticked."""

    DOCUMENT_READING = "document_reading"
    WEB_SEARCH = "web_search"
    X_SEARCH = "x_search"


@dataclass(frozen=True, slots=True)
class Key:
    """One key with its account's status.

    ``expires_at_ms`` 0 is never, empty ``models`` is every model, ``last_used_at_ms`` 0 is no known use;
    ``prefix`` is empty for keys older than prefixes, ``member_id`` for keys that are nobody's in particular.
    ``cap_epoch`` grows when the caps start anew; ``link_token`` and ``note`` belong to a share.
    """

    key_id: str
    key_hash: str
    account_id: str
    status: KeyStatus
    account_status: AccountStatus
    expires_at_ms: int
    label: str
    version: int
    models: tuple[str, ...]
    created_at_ms: int
    kind: KeyKind
    prefix: str
    parent_key_id: str
    replaces_key_id: str
    disabled: bool
    capabilities: tuple[Capability, ...]
    last_used_at_ms: int
    member_id: str
    limits: Limits
    cap_epoch: int
    link_token: str
    note: str

    @property
    def shared(self) -> bool:
        return self.kind is KeyKind.SHARED


@dataclass(frozen=True, slots=True)
class CreateKey:
    """A dashboard, login or shared key to make; it ends at a moment, or some days after it was made."""

    account_id: str
    label: str = ""
    expires_at_ms: int = 0
    models: tuple[str, ...] = ()
    kind: KeyKind = KeyKind.DASHBOARD
    expires_in_days: int = 0
    capabilities: tuple[Capability, ...] = ()
    limits: Limits = NO_LIMITS
    member_id: str = ""
    note: str = ""

    def check(self, now_ms: int) -> None:
        """Raise InvalidError for what cannot be a key."""
        check_label(self.label)
        if self.expires_at_ms and self.expires_in_days:
            raise InvalidError("a key expires at a moment or after some days, not both")
        ends = self.ends_at_ms(now_ms)
        if ends and not now_ms < ends <= _LAST_MS:
            raise InvalidError("a key expires in the future, or never (0)")
        if len(self.models) > MAX_MODELS:
            raise InvalidError(f"a key is limited to at most {MAX_MODELS} models")
        if not all(0 < len(model) <= MAX_MODEL_ID and "\0" not in model for model in self.models):
            raise InvalidError(f"a model id has 1 to {MAX_MODEL_ID} characters")
        self.limits.check()
        self._check_kind()

    def ends_at_ms(self, now_ms: int) -> int:
        """When the key ends if it is made now; 0 for never."""
        return now_ms + self.expires_in_days * _DAY_MS if self.expires_in_days else self.expires_at_ms

    def _check_kind(self) -> None:
        if self.kind is KeyKind.TOOL:
            raise InvalidError("a per-tool key is made by its login key")
        if self.kind is KeyKind.LOGIN and (self.models or self.limits.capped):
            raise InvalidError("a login key has no model scope and no caps")
        if self.note and self.kind is not KeyKind.SHARED:
            raise InvalidError("a note stands on the page of a shared key")
        if len(self.note) > MAX_NOTE or "\0" in self.note:
            raise InvalidError(f"a note has at most {MAX_NOTE} characters")
        if self.kind is KeyKind.SHARED:
            if self.expires_in_days not in SHARED_DAYS:
                raise InvalidError("a shared key expires after 1 to 90 days")
            if not self.models:
                raise InvalidError("a shared key is for chosen models")


@dataclass(frozen=True, slots=True)
class CreateToolKey:
    """A per-tool key to make; the caller chooses the id, to revoke what an unanswered call may have made."""

    login_key_id: str
    tool: str
    host: str
    key_id: str

    def check(self) -> None:
        """Raise InvalidError for what cannot be a per-tool key."""
        if not _TOOL.fullmatch(self.tool):
            raise InvalidError("`tool` takes lower-case letters, digits, dots and hyphens, 40 at most")
        if not _HOST.fullmatch(self.host):
            raise InvalidError("`host` takes letters, digits, dots, underscores and hyphens, 64 at most")
        if not _KEY_ID.fullmatch(self.key_id):
            raise InvalidError("a key id is key_ and up to 64 letters, digits, _ or -")

    @property
    def label(self) -> str:
        return f"kenari-cli · {self.tool} · {self.host}"


@dataclass(frozen=True, slots=True)
class Made:
    """A fresh secret as it is stored: its id, its keyed hash and its first characters."""

    key_id: str
    key_hash: str
    prefix: str


def check_label(label: str) -> None:
    """Raise InvalidError for a label that is too long to be shown."""
    if len(label) > MAX_LABEL or "\0" in label:
        raise InvalidError(f"a label has at most {MAX_LABEL} characters")


@dataclass(frozen=True, slots=True)
class Share:
    """A shared key as whoever holds its link may see it, with the name of the account that shares."""

    key: Key
    owner_name: str
