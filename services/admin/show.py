"""What a command found, as a table for people or as JSON for programs.

Called by action.py with what the commands return; they make their rows with the functions below.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kenari.accounts.v1 import accounts_pb2

from libs.core.money import PER_RUPIAH

Row = Mapping[str, Any]
Found = Row | Sequence[Row]

ROLES: Mapping[str, "accounts_pb2.Role.ValueType"] = {
    "owner": accounts_pb2.ROLE_OWNER,
    "admin": accounts_pb2.ROLE_ADMIN,
    "member": accounts_pb2.ROLE_MEMBER,
}
KINDS: Mapping[str, "accounts_pb2.KeyKind.ValueType"] = {
    "dashboard": accounts_pb2.KEY_KIND_DASHBOARD,
    "login": accounts_pb2.KEY_KIND_LOGIN,
    "shared": accounts_pb2.KEY_KIND_SHARED,
}
CAPABILITIES: Mapping[str, "accounts_pb2.Capability.ValueType"] = {
    "document_reading": accounts_pb2.CAPABILITY_DOCUMENT_READING,
    "web_search": accounts_pb2.CAPABILITY_WEB_SEARCH,
    "x_search": accounts_pb2.CAPABILITY_X_SEARCH,
}
PERIODS: Mapping[str, str] = {"never": "", "day": "day", "week": "week", "month": "month"}
_MONEY = "_micro_idr"
_NOTHING = "-"


def text(found: Found, as_json: bool) -> str:
    """One JSON document, or lines for people."""
    if as_json:
        return json.dumps(found, indent=2, ensure_ascii=False)
    return _fields(found) if isinstance(found, Mapping) else _table(found)


def account(message: accounts_pb2.Account) -> dict[str, Any]:
    """An account as a row."""
    return {
        "account_id": message.account_id,
        "name": message.name,
        "status": "suspended" if message.status == accounts_pb2.ACCOUNT_STATUS_SUSPENDED else "active",
        "requests_per_minute": message.requests_per_minute or None,
        "created": moment(message.created_at_ms),
    }


def key(message: accounts_pb2.Key) -> dict[str, Any]:
    """A key as a row; what is not restricted is None."""
    return {
        "key_id": message.key_id,
        "kind": _name(accounts_pb2.KeyKind, message.kind, "KEY_KIND_"),
        "status": _key_status(message),
        "prefix": message.prefix or None,
        "label": message.label or None,
        "created": moment(message.created_at_ms),
        "expires": moment(message.expires_at_ms),
        "last_used": moment(message.last_used_at_ms),
        "models": list(message.models) or None,
        "capabilities": _capabilities(message.capabilities),
        "spend_cap_micro_idr": message.spend_cap_micro_idr or None,
        "token_cap": message.token_cap or None,
        "cap_period": message.cap_period or None,
        "cap_epoch": message.cap_epoch or None,
        "allowed_ips": list(message.allowed_ips) or None,
        "requests_per_minute": message.requests_per_minute or None,
        "tokens_per_minute": message.tokens_per_minute or None,
        "member_id": message.member_id or None,
        "parent_key_id": message.parent_key_id or None,
        "link_token": message.link_token or None,
        "note": message.note or None,
    }


def share(message: accounts_pb2.GetSharedKeyResponse) -> dict[str, Any]:
    """A share as the holder of its link sees it."""
    return {
        "label": message.label or None,
        "note": message.note or None,
        "owner": message.owner_name,
        "models": list(message.models),
        "capabilities": _capabilities(message.capabilities),
        "expires": moment(message.expires_at_ms),
        "spend_cap_micro_idr": message.spend_cap_micro_idr or None,
        "token_cap": message.token_cap or None,
        "cap_period": message.cap_period or None,
    }


def person(message: accounts_pb2.Person) -> dict[str, Any]:
    """A person as a row."""
    return {
        "person_id": message.person_id,
        "email": message.email,
        "name": message.name,
        "created": moment(message.created_at_ms),
    }


def member(message: accounts_pb2.Member) -> dict[str, Any]:
    """A member as a row."""
    return {
        "person_id": message.person.person_id,
        "email": message.person.email,
        "name": message.person.name,
        "role": _name(accounts_pb2.Role, message.role, "ROLE_"),
        "since": moment(message.since_ms),
    }


def moment(ms: int) -> str | None:
    """Milliseconds since 1970 as UTC text to the second; None for 0."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ms else None


def _key_status(message: accounts_pb2.Key) -> str:
    if message.status == accounts_pb2.KEY_STATUS_REVOKED:
        return "revoked"
    if message.expires_at_ms and message.expires_at_ms <= time.time_ns() // 1_000_000:
        return "expired"
    return "disabled" if message.disabled else "active"


def _capabilities(numbers: Iterable[int]) -> list[str] | None:
    return [_name(accounts_pb2.Capability, one, "CAPABILITY_") for one in numbers] or None


def _name(enum: Any, number: int, prefix: str) -> str:
    return str(enum.Name(number)).removeprefix(prefix).lower()


def _fields(row: Row) -> str:
    """One line a value; what has values of its own follows below, with its name above it."""
    plain = {name: value for name, value in row.items() if not _is_section(value)}
    width = max(len(_title(name)) for name in plain)
    lines = [f"{_title(name):<{width}}  {_cell(name, value)}" for name, value in plain.items()]
    for name, value in row.items():
        if _is_section(value) and value:
            lines += ["", f"{_title(name)}:", *(f"  {line}".rstrip() for line in text(value, False).split("\n"))]
    return "\n".join(lines)


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(one, Mapping) for one in value))


def _table(rows: Sequence[Row]) -> str:
    """Columns that hold nothing in any row are left out."""
    if not rows:
        return "none"
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    lines = [[_title(name) for name in names]] + [[_cell(name, row[name]) for name in names] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _title(name: str) -> str:
    return name.removesuffix(_MONEY).replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return _NOTHING
    if name.endswith(_MONEY):
        return _rupiah(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    # A label is whatever somebody typed: it must not move the cursor of whoever reads it.
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _rupiah(micros: int) -> str:
    """The exact amount: an operator compares it with what was typed."""
    whole, part = divmod(abs(micros), PER_RUPIAH)
    sign = "-" if micros < 0 else ""
    return f"Rp {sign}{whole:,}" + (f".{part:06}".rstrip("0") if part else "")
