"""Accounts on the wire: maps messages to use cases and back.

Called by the edge (ResolveKey, WatchKeys), the launcher and administrators' tools.
"""

from collections.abc import AsyncIterator
from typing import Any

from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc

from libs.core.errors import Transient
from libs.rpc.errors import to_status
from services.accounts.domain import Account, AccountStatus, CreateAccount, CreateKey, InvalidError, Key, KeyStatus
from services.accounts.service import Accounts
from services.accounts.watch import KeyWatch

NAME = "kenari.accounts.v1.Accounts"

_ACCOUNT_STATUS = {
    AccountStatus.ACTIVE: accounts_pb2.ACCOUNT_STATUS_ACTIVE,
    AccountStatus.SUSPENDED: accounts_pb2.ACCOUNT_STATUS_SUSPENDED,
}
_STATUS_ASKED = {number: status for status, number in _ACCOUNT_STATUS.items()}
_KEY_STATUS = {KeyStatus.ACTIVE: accounts_pb2.KEY_STATUS_ACTIVE, KeyStatus.REVOKED: accounts_pb2.KEY_STATUS_REVOKED}


class AccountsRpc(accounts_pb2_grpc.AccountsServicer):
    """Servicer of ``kenari.accounts.v1.Accounts``."""

    def __init__(self, accounts: Accounts, watch: KeyWatch) -> None:
        self._accounts = accounts
        self._watch = watch

    async def ResolveKey(
        self, request: accounts_pb2.ResolveKeyRequest, context: Any
    ) -> accounts_pb2.ResolveKeyResponse:
        key = await self._accounts.resolve(request.key_hash)
        return accounts_pb2.ResolveKeyResponse(key=_key(key) if key else None)

    async def WatchKeys(
        self, request: accounts_pb2.WatchKeysRequest, context: Any
    ) -> AsyncIterator[accounts_pb2.WatchKeysResponse]:
        try:
            async for key in self._watch.changes():
                yield accounts_pb2.WatchKeysResponse(key=_key(key) if key else None)
        except Transient as error:
            await context.abort_with_status(to_status(error))

    async def CreateAccount(
        self, request: accounts_pb2.CreateAccountRequest, context: Any
    ) -> accounts_pb2.CreateAccountResponse:
        account = await self._accounts.create_account(CreateAccount(request.account_id, request.name))
        return accounts_pb2.CreateAccountResponse(account=_account(account))

    async def SetAccountStatus(
        self, request: accounts_pb2.SetAccountStatusRequest, context: Any
    ) -> accounts_pb2.SetAccountStatusResponse:
        status = _STATUS_ASKED.get(request.status)
        if status is None:
            raise InvalidError("a status is active or suspended")
        account = await self._accounts.set_status(request.account_id, status)
        return accounts_pb2.SetAccountStatusResponse(account=_account(account))

    async def SetAccountLimits(
        self, request: accounts_pb2.SetAccountLimitsRequest, context: Any
    ) -> accounts_pb2.SetAccountLimitsResponse:
        account = await self._accounts.set_limits(request.account_id, request.requests_per_minute)
        return accounts_pb2.SetAccountLimitsResponse(account=_account(account))

    async def GetAccount(
        self, request: accounts_pb2.GetAccountRequest, context: Any
    ) -> accounts_pb2.GetAccountResponse:
        return accounts_pb2.GetAccountResponse(account=_account(await self._accounts.account(request.account_id)))

    async def CreateKey(self, request: accounts_pb2.CreateKeyRequest, context: Any) -> accounts_pb2.CreateKeyResponse:
        wanted = CreateKey(request.account_id, request.label, request.expires_at_ms, tuple(request.models))
        key, secret = await self._accounts.create_key(wanted)
        return accounts_pb2.CreateKeyResponse(key=_key(key), secret=secret)

    async def RevokeKey(self, request: accounts_pb2.RevokeKeyRequest, context: Any) -> accounts_pb2.RevokeKeyResponse:
        return accounts_pb2.RevokeKeyResponse(key=_key(await self._accounts.revoke_key(request.key_id)))

    async def ListKeys(self, request: accounts_pb2.ListKeysRequest, context: Any) -> accounts_pb2.ListKeysResponse:
        keys = await self._accounts.keys(request.account_id)
        return accounts_pb2.ListKeysResponse(keys=[_key(key) for key in keys])


def _account(account: Account) -> accounts_pb2.Account:
    return accounts_pb2.Account(
        account_id=account.account_id,
        name=account.name,
        status=_ACCOUNT_STATUS[account.status],
        requests_per_minute=account.requests_per_minute,
        created_at_ms=account.created_at_ms,
    )


def _key(key: Key) -> accounts_pb2.Key:
    return accounts_pb2.Key(
        key_id=key.key_id,
        key_hash=key.key_hash,
        account_id=key.account_id,
        status=_KEY_STATUS[key.status],
        account_status=_ACCOUNT_STATUS[key.account_status],
        expires_at_ms=key.expires_at_ms,
        label=key.label,
        version=key.version,
        models=key.models,
        shared=key.shared,
        created_at_ms=key.created_at_ms,
    )
