"""Accounts, keys and people as protobuf messages, and what is asked for as values.

Called by rpc.py.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kenari.accounts.v1 import accounts_pb2

from services.accounts.domain.account import Account, AccountStatus
from services.accounts.domain.errors import InvalidError
from services.accounts.domain.key import Capability, CreateKey, Key, KeyKind, KeyStatus, Share
from services.accounts.domain.limits import ChangeLimits, Limits, addresses, cap_period
from services.accounts.domain.people import Member, Person, Role

V = TypeVar("V")

_ACCOUNT_STATUS = {
    AccountStatus.ACTIVE: accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    AccountStatus.SUSPENDED: accounts_pb2.ACCOUNT_STATUS_SUSPENDED,
}
_KEY_STATUS = {KeyStatus.ACTIVE: accounts_pb2.KEY_STATUS_ACTIVE, KeyStatus.REVOKED: accounts_pb2.KEY_STATUS_REVOKED}
_KIND = {
    KeyKind.DASHBOARD: accounts_pb2.KEY_KIND_DASHBOARD,
    KeyKind.LOGIN: accounts_pb2.KEY_KIND_LOGIN,
    KeyKind.TOOL: accounts_pb2.KEY_KIND_TOOL,
    KeyKind.SHARED: accounts_pb2.KEY_KIND_SHARED,
}
_CAPABILITY = {
    Capability.DOCUMENT_READING: accounts_pb2.CAPABILITY_DOCUMENT_READING,
    Capability.WEB_SEARCH: accounts_pb2.CAPABILITY_WEB_SEARCH,
    Capability.X_SEARCH: accounts_pb2.CAPABILITY_X_SEARCH,
}
_ROLE = {
    Role.OWNER: accounts_pb2.ROLE_OWNER,
    Role.ADMIN: accounts_pb2.ROLE_ADMIN,
    Role.MEMBER: accounts_pb2.ROLE_MEMBER,
}


def account(value: Account) -> accounts_pb2.Account:
    """An account as others see it."""
    return accounts_pb2.Account(
        account_id=value.account_id,
        name=value.name,
        status=_ACCOUNT_STATUS[value.status],
        requests_per_minute=value.requests_per_minute,
        created_at_ms=value.created_at_ms,
    )


def key(value: Key) -> accounts_pb2.Key:
    """A key as others see it."""
    limits = value.limits
    return accounts_pb2.Key(
        key_id=value.key_id,
        key_hash=value.key_hash,
        account_id=value.account_id,
        status=_KEY_STATUS[value.status],
        account_status=_ACCOUNT_STATUS[value.account_status],
        expires_at_ms=value.expires_at_ms,
        label=value.label,
        version=value.version,
        models=value.models,
        shared=value.shared,
        created_at_ms=value.created_at_ms,
        kind=_KIND[value.kind],
        prefix=value.prefix,
        parent_key_id=value.parent_key_id,
        disabled=value.disabled,
        capabilities=[_CAPABILITY[capability] for capability in value.capabilities],
        spend_cap_micro_idr=limits.spend_cap_micro_idr,
        token_cap=limits.token_cap,
        replaces_key_id=value.replaces_key_id,
        last_used_at_ms=value.last_used_at_ms,
        member_id=value.member_id,
        cap_period=limits.cap_period,
        cap_epoch=value.cap_epoch,
        allowed_ips=limits.allowed_ips,
        requests_per_minute=limits.requests_per_minute,
        tokens_per_minute=limits.tokens_per_minute,
        link_token=value.link_token,
        note=value.note,
    )


def share(value: Share) -> accounts_pb2.GetSharedKeyResponse:
    """A share as the holder of its link sees it: nothing of the key itself."""
    key = value.key
    return accounts_pb2.GetSharedKeyResponse(
        label=key.label,
        note=key.note,
        owner_name=value.owner_name,
        models=key.models,
        capabilities=[_CAPABILITY[capability] for capability in key.capabilities],
        expires_at_ms=key.expires_at_ms,
        spend_cap_micro_idr=key.limits.spend_cap_micro_idr,
        token_cap=key.limits.token_cap,
        cap_period=key.limits.cap_period,
        cap_epoch=key.cap_epoch,
        account_id=key.account_id,
        key_id=key.key_id,
    )


def person(value: Person) -> accounts_pb2.Person:
    """A person as others see them."""
    return accounts_pb2.Person(
        person_id=value.person_id, email=value.email, name=value.name, created_at_ms=value.created_at_ms
    )


def member(value: Member) -> accounts_pb2.Member:
    """A member as others see them."""
    return accounts_pb2.Member(
        person=person(value.person), account_id=value.account_id, role=_ROLE[value.role], since_ms=value.since_ms
    )


def role(number: int) -> Role:
    """The role asked for; raise InvalidError."""
    return _asked(_ROLE, number, "a role is owner, admin or member")


def account_status(number: int) -> AccountStatus:
    """The status asked for; raise InvalidError."""
    return _asked(_ACCOUNT_STATUS, number, "a status is active or suspended")


def wanted_key(request: accounts_pb2.CreateKeyRequest) -> CreateKey:
    """The key asked for; raise InvalidError for a kind or capability nobody knows."""
    unset = request.kind == accounts_pb2.KEY_KIND_UNSPECIFIED
    return CreateKey(
        account_id=request.account_id,
        label=request.label,
        expires_at_ms=request.expires_at_ms,
        models=tuple(request.models),
        kind=KeyKind.DASHBOARD if unset else _asked(_KIND, request.kind, "a key's kind is dashboard, login or shared"),
        expires_in_days=request.expires_in_days,
        capabilities=tuple(_capabilities(request.capabilities)),
        limits=Limits(
            spend_cap_micro_idr=request.spend_cap_micro_idr,
            token_cap=request.token_cap,
            cap_period=cap_period(request.cap_period),
            allowed_ips=addresses(tuple(request.allowed_ips)),
            requests_per_minute=request.requests_per_minute,
            tokens_per_minute=request.tokens_per_minute,
        ),
        member_id=request.member_id,
        note=request.note,
    )


def wanted_limits(request: accounts_pb2.SetKeyLimitsRequest) -> ChangeLimits:
    """The change asked for, None where the message says nothing; raise InvalidError."""
    told = request.HasField
    return ChangeLimits(
        spend_cap_micro_idr=request.spend_cap_micro_idr if told("spend_cap_micro_idr") else None,
        cap_period=cap_period(request.cap_period) if told("cap_period") else None,
        allowed_ips=addresses(tuple(request.allowed_ips.entries)) if told("allowed_ips") else None,
        requests_per_minute=request.requests_per_minute if told("requests_per_minute") else None,
        tokens_per_minute=request.tokens_per_minute if told("tokens_per_minute") else None,
    )


def _capabilities(numbers: Iterable[int]) -> list[Capability]:
    """Each once, in the order of their list."""
    told = "a capability is document reading, web search or X search"
    asked = {_asked(_CAPABILITY, number, told) for number in numbers}
    return [capability for capability in Capability if capability in asked]


def _asked(known: Mapping[V, Any], number: int, otherwise: str) -> V:
    for value, its_number in known.items():
        if its_number == number:
            return value
    raise InvalidError(otherwise)
