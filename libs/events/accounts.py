"""Events of the accounts service: keys and limits. Read by the edge (keys) and the limiter (settings)."""

from typing import ClassVar, Literal

from libs.events.base import EventData


class KeyChanged(EventData):
    """The whole present state of one API key; never the key itself."""

    TYPE: ClassVar[str] = "accounts.key_changed.v1"

    key_id: str
    key_hash: str
    account_id: str
    status: Literal["active", "revoked"]
    account_status: Literal["active", "suspended"]
    expires_at_ms: int = 0
    label: str = ""
    version: int
    models: tuple[str, ...] = ()
    shared: bool = False
    created_at_ms: int = 0
    kind: Literal["dashboard", "login", "tool", "shared"] = "dashboard"
    prefix: str = ""
    parent_key_id: str = ""
    disabled: bool = False
    capabilities: tuple[Literal["document_reading", "web_search", "x_search"], ...] = ()
    # Caps are counted and enforced by the ledger; 0 means none.
    spend_cap_micro_idr: int = 0
    token_cap: int = 0
    # The rotated key whose use of the caps this one goes on with.
    replaces_key_id: str = ""
    # The person whose draw on a workspace's balance its use is.
    member_id: str = ""
    # When the caps start anew, and how often the owner has started them anew.
    cap_period: Literal["", "day", "week", "month"] = ""
    cap_epoch: int = 0
    # Addresses and networks it may be used from; empty means any.
    allowed_ips: tuple[str, ...] = ()
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


class SettingsChanged(EventData):
    """Limits set on one account; 0 means the limiter's default."""

    TYPE: ClassVar[str] = "accounts.settings_changed.v1"

    account_id: str
    version: int
    requests_per_minute: int = 0
