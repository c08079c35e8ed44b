"""Accounts on the wire: maps messages to use cases and back.

Called by the edge (ResolveKey, WatchKeys), the launcher and administrators' tools.
"""

from collections.abc import AsyncIterator
from typing import Any

from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc

from libs.core.errors import Transient
from libs.rpc.errors import to_status
from services.accounts import wire
from services.accounts.domain.account import CreateAccount
from services.accounts.domain.key import CreateToolKey
from services.accounts.domain.people import CreatePerson
from services.accounts.people import People
from services.accounts.service import Accounts
from services.accounts.watch import KeyWatch

NAME = "kenari.accounts.v1.Accounts"


class AccountsRpc(accounts_pb2_grpc.AccountsServicer):
    """Servicer of ``kenari.accounts.v1.Accounts``."""

    def __init__(self, accounts: Accounts, people: People, watch: KeyWatch) -> None:
        self._accounts = accounts
        self._people = people
        self._watch = watch

    async def ResolveKey(
        self, request: accounts_pb2.ResolveKeyRequest, context: Any
    ) -> accounts_pb2.ResolveKeyResponse:
        key = await self._accounts.resolve(request.key_hash)
        return accounts_pb2.ResolveKeyResponse(key=wire.key(key) if key else None)

    async def WatchKeys(
        self, request: accounts_pb2.WatchKeysRequest, context: Any
    ) -> AsyncIterator[accounts_pb2.WatchKeysResponse]:
        try:
            async for key in self._watch.changes():
                yield accounts_pb2.WatchKeysResponse(key=wire.key(key) if key else None)
        except Transient as error:
            await context.abort_with_status(to_status(error))

    async def CreateAccount(
        self, request: accounts_pb2.CreateAccountRequest, context: Any
    ) -> accounts_pb2.CreateAccountResponse:
        account = await self._accounts.create_account(CreateAccount(request.account_id, request.name))
        return accounts_pb2.CreateAccountResponse(account=wire.account(account))

    async def SetAccountStatus(
        self, request: accounts_pb2.SetAccountStatusRequest, context: Any
    ) -> accounts_pb2.SetAccountStatusResponse:
        account = await self._accounts.set_status(request.account_id, wire.account_status(request.status))
        return accounts_pb2.SetAccountStatusResponse(account=wire.account(account))

    async def SetAccountLimits(
        self, request: accounts_pb2.SetAccountLimitsRequest, context: Any
    ) -> accounts_pb2.SetAccountLimitsResponse:
        account = await self._accounts.set_limits(request.account_id, request.requests_per_minute)
        return accounts_pb2.SetAccountLimitsResponse(account=wire.account(account))

    async def GetAccount(
        self, request: accounts_pb2.GetAccountRequest, context: Any
    ) -> accounts_pb2.GetAccountResponse:
        return accounts_pb2.GetAccountResponse(account=wire.account(await self._accounts.account(request.account_id)))

    async def CreateKey(self, request: accounts_pb2.CreateKeyRequest, context: Any) -> accounts_pb2.CreateKeyResponse:
        key, secret = await self._accounts.create_key(wire.wanted_key(request))
        return accounts_pb2.CreateKeyResponse(key=wire.key(key), secret=secret)

    async def RevokeKey(self, request: accounts_pb2.RevokeKeyRequest, context: Any) -> accounts_pb2.RevokeKeyResponse:
        return accounts_pb2.RevokeKeyResponse(key=wire.key(await self._accounts.revoke_key(request.key_id)))

    async def ListKeys(self, request: accounts_pb2.ListKeysRequest, context: Any) -> accounts_pb2.ListKeysResponse:
        keys = await self._accounts.keys(request.account_id)
        return accounts_pb2.ListKeysResponse(keys=[wire.key(key) for key in keys])

    async def ListAccounts(
        self, request: accounts_pb2.ListAccountsRequest, context: Any
    ) -> accounts_pb2.ListAccountsResponse:
        accounts = await self._accounts.accounts(request.after_account_id, request.limit)
        return accounts_pb2.ListAccountsResponse(accounts=[wire.account(account) for account in accounts])

    async def RenameKey(self, request: accounts_pb2.RenameKeyRequest, context: Any) -> accounts_pb2.RenameKeyResponse:
        key = await self._accounts.rename_key(request.key_id, request.label)
        return accounts_pb2.RenameKeyResponse(key=wire.key(key))

    async def RotateKey(self, request: accounts_pb2.RotateKeyRequest, context: Any) -> accounts_pb2.RotateKeyResponse:
        key, secret = await self._accounts.rotate_key(request.key_id)
        return accounts_pb2.RotateKeyResponse(key=wire.key(key), secret=secret)

    async def SetKeyDisabled(
        self, request: accounts_pb2.SetKeyDisabledRequest, context: Any
    ) -> accounts_pb2.SetKeyDisabledResponse:
        key = await self._accounts.set_disabled(request.key_id, request.disabled)
        return accounts_pb2.SetKeyDisabledResponse(key=wire.key(key))

    async def SetKeyLimits(
        self, request: accounts_pb2.SetKeyLimitsRequest, context: Any
    ) -> accounts_pb2.SetKeyLimitsResponse:
        key = await self._accounts.set_key_limits(request.key_id, wire.wanted_limits(request))
        return accounts_pb2.SetKeyLimitsResponse(key=wire.key(key))

    async def ResetKeyCaps(
        self, request: accounts_pb2.ResetKeyCapsRequest, context: Any
    ) -> accounts_pb2.ResetKeyCapsResponse:
        return accounts_pb2.ResetKeyCapsResponse(key=wire.key(await self._accounts.reset_caps(request.key_id)))

    async def GetSharedKey(
        self, request: accounts_pb2.GetSharedKeyRequest, context: Any
    ) -> accounts_pb2.GetSharedKeyResponse:
        return wire.share(await self._accounts.share(request.link_token))

    async def CreateToolKey(
        self, request: accounts_pb2.CreateToolKeyRequest, context: Any
    ) -> accounts_pb2.CreateToolKeyResponse:
        wanted = CreateToolKey(request.login_key_id, request.tool, request.host, request.key_id)
        key, secret = await self._accounts.create_tool_key(wanted)
        return accounts_pb2.CreateToolKeyResponse(key=wire.key(key), secret=secret)

    async def ListToolKeys(
        self, request: accounts_pb2.ListToolKeysRequest, context: Any
    ) -> accounts_pb2.ListToolKeysResponse:
        keys = await self._accounts.tool_keys(request.login_key_id)
        return accounts_pb2.ListToolKeysResponse(keys=[wire.key(key) for key in keys])

    async def RevokeToolKey(
        self, request: accounts_pb2.RevokeToolKeyRequest, context: Any
    ) -> accounts_pb2.RevokeToolKeyResponse:
        key = await self._accounts.revoke_tool_key(request.login_key_id, request.key_id)
        return accounts_pb2.RevokeToolKeyResponse(key=wire.key(key))

    async def ReportKeyUse(
        self, request: accounts_pb2.ReportKeyUseRequest, context: Any
    ) -> accounts_pb2.ReportKeyUseResponse:
        await self._accounts.used({use.key_id: use.at_ms for use in request.uses})
        return accounts_pb2.ReportKeyUseResponse()

    async def CreatePerson(
        self, request: accounts_pb2.CreatePersonRequest, context: Any
    ) -> accounts_pb2.CreatePersonResponse:
        person = await self._people.create(CreatePerson(request.email, request.name))
        return accounts_pb2.CreatePersonResponse(person=wire.person(person))

    async def GetPerson(self, request: accounts_pb2.GetPersonRequest, context: Any) -> accounts_pb2.GetPersonResponse:
        by_email = request.WhichOneof("by") == "email"
        found = self._people.with_email(request.email) if by_email else self._people.person(request.person_id)
        return accounts_pb2.GetPersonResponse(person=wire.person(await found))

    async def AddMember(self, request: accounts_pb2.AddMemberRequest, context: Any) -> accounts_pb2.AddMemberResponse:
        role = wire.role(request.role)
        member = await self._people.add(request.account_id, request.person_id, role, request.actor_person_id)
        return accounts_pb2.AddMemberResponse(member=wire.member(member))

    async def SetMemberRole(
        self, request: accounts_pb2.SetMemberRoleRequest, context: Any
    ) -> accounts_pb2.SetMemberRoleResponse:
        role = wire.role(request.role)
        member = await self._people.set_role(request.account_id, request.person_id, role, request.actor_person_id)
        return accounts_pb2.SetMemberRoleResponse(member=wire.member(member))

    async def RemoveMember(
        self, request: accounts_pb2.RemoveMemberRequest, context: Any
    ) -> accounts_pb2.RemoveMemberResponse:
        await self._people.remove(request.account_id, request.person_id, request.actor_person_id)
        return accounts_pb2.RemoveMemberResponse()

    async def ListMembers(
        self, request: accounts_pb2.ListMembersRequest, context: Any
    ) -> accounts_pb2.ListMembersResponse:
        members = await self._people.members(request.account_id)
        return accounts_pb2.ListMembersResponse(members=[wire.member(member) for member in members])

    async def ListMemberships(
        self, request: accounts_pb2.ListMembershipsRequest, context: Any
    ) -> accounts_pb2.ListMembershipsResponse:
        places = await self._people.memberships(request.person_id)
        return accounts_pb2.ListMembershipsResponse(memberships=[wire.member(place) for place in places])
