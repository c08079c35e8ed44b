"""The edge's peers as it sees them: keys from accounts, reads from the ledger, and the three check streams.

Made by app.py; used by keys, admission, settlement and the account endpoints.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import grpc
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import (
    funding_pb2,
    funding_pb2_grpc,
    idempotency_pb2,
    idempotency_pb2_grpc,
    ledger_pb2,
    ledger_pb2_grpc,
)
from kenari.limiter.v1 import limiter_pb2, limiter_pb2_grpc
from kenari.router.v1 import router_pb2, router_pb2_grpc

from libs.events.accounts import KeyChanged
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from libs.rpc.client import RpcClient
from libs.rpc.errors import from_call

_KEY_STATUS: dict[int, Any] = {accounts_pb2.KEY_STATUS_ACTIVE: "active", accounts_pb2.KEY_STATUS_REVOKED: "revoked"}
_ACCOUNT_STATUS: dict[int, Any] = {
    accounts_pb2.ACCOUNT_STATUS_ACTIVE: "active",
    accounts_pb2.ACCOUNT_STATUS_SUSPENDED: "suspended",
}
_KIND: dict[int, Any] = {
    accounts_pb2.KEY_KIND_LOGIN: "login",
    accounts_pb2.KEY_KIND_TOOL: "tool",
    accounts_pb2.KEY_KIND_SHARED: "shared",
}
_CAPABILITY: dict[int, Any] = {
    accounts_pb2.CAPABILITY_DOCUMENT_READING: "document_reading",
    accounts_pb2.CAPABILITY_WEB_SEARCH: "web_search",
    accounts_pb2.CAPABILITY_X_SEARCH: "x_search",
}
# As many as the owner takes in one call.
_USES = 10_000


@dataclass(frozen=True, slots=True)
class ToolKey:
    """A per-tool key as its login key sees it; ``last_used_at_ms`` 0 is no known use."""

    key_id: str
    prefix: str
    label: str
    created_at_ms: int
    last_used_at_ms: int


def _tool_key(key: accounts_pb2.Key) -> ToolKey:
    return ToolKey(key.key_id, key.prefix, key.label, key.created_at_ms, key.last_used_at_ms)


def _key(key: accounts_pb2.Key) -> KeyChanged:
    return KeyChanged(
        key_id=key.key_id,
        key_hash=key.key_hash,
        account_id=key.account_id,
        # What this edge does not know yet does not pass.
        status=_KEY_STATUS.get(key.status, "revoked"),
        account_status=_ACCOUNT_STATUS.get(key.account_status, "suspended"),
        expires_at_ms=key.expires_at_ms,
        label=key.label,
        version=key.version,
        models=tuple(key.models),
        shared=key.shared,
        created_at_ms=key.created_at_ms,
        kind=_KIND.get(key.kind, "dashboard"),
        prefix=key.prefix,
        parent_key_id=key.parent_key_id,
        disabled=key.disabled,
        capabilities=tuple(_CAPABILITY[one] for one in key.capabilities if one in _CAPABILITY),
        spend_cap_micro_idr=key.spend_cap_micro_idr,
        token_cap=key.token_cap,
        replaces_key_id=key.replaces_key_id,
        member_id=key.member_id,
        cap_period=cast(Any, key.cap_period),
        cap_epoch=key.cap_epoch,
        allowed_ips=tuple(key.allowed_ips),
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
    )


class AccountsClient:
    """The owner of the keys."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._stub = accounts_pb2_grpc.AccountsStub(rpc.channel)

    async def resolve_key(self, key_hash: str) -> KeyChanged | None:
        """The key with this hash, or None if there is none; raise Transient or Permanent."""
        request = accounts_pb2.ResolveKeyRequest(key_hash=key_hash)
        response = await self._rpc.call("accounts.ResolveKey", self._stub.ResolveKey, request, retry=True)
        return _key(response.key) if response.HasField("key") else None

    async def create_tool_key(self, login_key_id: str, tool: str, host: str, key_id: str) -> tuple[ToolKey, str]:
        """A per-tool key under an id of the caller's choice, and its secret.

        Raise Permanent with the owner's reason, or Transient when nobody knows whether it was made.
        """
        request = accounts_pb2.CreateToolKeyRequest(login_key_id=login_key_id, tool=tool, host=host, key_id=key_id)
        response = await self._rpc.call("accounts.CreateToolKey", self._stub.CreateToolKey, request)
        return _tool_key(response.key), response.secret

    async def tool_keys(self, login_key_id: str) -> list[ToolKey]:
        """The active per-tool keys of a login key, newest first; raise Transient or Permanent."""
        request = accounts_pb2.ListToolKeysRequest(login_key_id=login_key_id)
        response = await self._rpc.call("accounts.ListToolKeys", self._stub.ListToolKeys, request, retry=True)
        return [_tool_key(key) for key in response.keys]

    async def revoke_tool_key(self, login_key_id: str, key_id: str) -> KeyChanged:
        """Revoke a per-tool key; raise Permanent (not_found) for any other id, or Transient."""
        request = accounts_pb2.RevokeToolKeyRequest(login_key_id=login_key_id, key_id=key_id)
        response = await self._rpc.call("accounts.RevokeToolKey", self._stub.RevokeToolKey, request, retry=True)
        return _key(response.key)

    async def report_use(self, moments_ms: Mapping[str, int]) -> None:
        """Tell when keys were last used, by key id; raise Transient or Permanent."""
        uses = [accounts_pb2.KeyUse(key_id=key_id, at_ms=at_ms) for key_id, at_ms in moments_ms.items()]
        for start in range(0, len(uses), _USES):
            request = accounts_pb2.ReportKeyUseRequest(uses=uses[start : start + _USES])
            await self._rpc.call("accounts.ReportKeyUse", self._stub.ReportKeyUse, request, retry=True)

    async def watch_keys(self) -> AsyncIterator[KeyChanged | None]:
        """Changes as they happen, None for heartbeats; raise Transient when the stream breaks."""
        call = self._stub.WatchKeys(accounts_pb2.WatchKeysRequest())
        try:
            async for response in call:
                yield _key(response.key) if response.HasField("key") else None
        except grpc.aio.AioRpcError as error:
            raise from_call(error) from error
        finally:
            call.cancel()


class LedgerClient:
    """The books: reads, and keeping holds alive. Reserve and settle go over the check stream."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._stub = ledger_pb2_grpc.LedgerStub(rpc.channel)
        self._funds = funding_pb2_grpc.FundsStub(rpc.channel)

    async def funding(self, account_id: str) -> funding_pb2.GetFundingResponse:
        request = funding_pb2.GetFundingRequest(account_id=account_id)
        return await self._rpc.call("ledger.GetFunding", self._funds.GetFunding, request, retry=True)

    async def plans(self) -> list[funding_pb2.Plan]:
        """The plans on sale; raise Transient."""
        request = funding_pb2.ListPlansRequest()
        response = await self._rpc.call("ledger.ListPlans", self._funds.ListPlans, request, retry=True)
        return list(response.plans)

    async def balance(self, account_id: str) -> ledger_pb2.GetBalanceResponse:
        request = ledger_pb2.GetBalanceRequest(account_id=account_id)
        return await self._rpc.call("ledger.GetBalance", self._stub.GetBalance, request, retry=True)

    async def usage_log(self, request: ledger_pb2.UsageLogRequest) -> ledger_pb2.UsageLogResponse:
        return await self._rpc.call("ledger.UsageLog", self._stub.UsageLog, request, retry=True)

    async def usage_summary(self, request: ledger_pb2.UsageSummaryRequest) -> ledger_pb2.UsageSummaryResponse:
        return await self._rpc.call("ledger.UsageSummary", self._stub.UsageSummary, request, retry=True)

    async def usage_daily(self, request: ledger_pb2.UsageDailyRequest) -> ledger_pb2.UsageDailyResponse:
        return await self._rpc.call("ledger.UsageDaily", self._stub.UsageDaily, request, retry=True)

    async def usage_row(self, request: ledger_pb2.UsageRowRequest) -> ledger_pb2.UsageRow | None:
        response = await self._rpc.call("ledger.UsageRow", self._stub.UsageRow, request, retry=True)
        return response.row if response.HasField("row") else None

    async def touch(self, open_holds: Iterable[tuple[str, int]]) -> None:
        """Keep the holds of these lines of requests from expiring."""
        holds = [ledger_pb2.HoldRef(request_id=request_id, line=line) for request_id, line in open_holds]
        await self._rpc.call("ledger.Touch", self._stub.Touch, ledger_pb2.TouchRequest(holds=holds), retry=True)


class LimiterClient:
    """What the limiter tells beside its check stream."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._stub = limiter_pb2_grpc.LimiterStub(rpc.channel)

    async def free_tiers(self) -> limiter_pb2.GetFreeTiersResponse:
        """The limits of free models by kind of account; raise Transient."""
        request = limiter_pb2.GetFreeTiersRequest()
        return await self._rpc.call("limiter.GetFreeTiers", self._stub.GetFreeTiers, request, retry=True)


class IdempotencyClient:
    """What the ledger knows of idempotency keys; a repeat of either question changes nothing."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._stub = idempotency_pb2_grpc.IdempotencyStub(rpc.channel)

    async def begin(self, request: idempotency_pb2.BeginRequest) -> idempotency_pb2.BeginResponse:
        """Claim a key, or keep a claim alive; raise Transient or Permanent."""
        return await self._rpc.call("ledger.Begin", self._stub.Begin, request, retry=True)

    async def end(self, request: idempotency_pb2.EndRequest) -> None:
        """End a claim; raise Transient or Permanent."""
        await self._rpc.call("ledger.End", self._stub.End, request, retry=True)


def limiter_checks(rpc: RpcClient, telemetry: Telemetry) -> CheckClient:
    """The check stream to the limiter."""
    stub = limiter_pb2_grpc.LimiterStub(rpc.channel)
    return CheckClient("limiter", stub.CheckStream, limiter_pb2.CheckBatch, limiter_pb2.CheckItem, telemetry)


def router_checks(rpc: RpcClient, telemetry: Telemetry) -> CheckClient:
    """The check stream to the router."""
    stub = router_pb2_grpc.RouterStub(rpc.channel)
    return CheckClient("router", stub.CheckStream, router_pb2.CheckBatch, router_pb2.CheckItem, telemetry)


def ledger_checks(rpc: RpcClient, telemetry: Telemetry) -> CheckClient:
    """The check stream to the ledger."""
    stub = ledger_pb2_grpc.LedgerStub(rpc.channel)
    return CheckClient("ledger", stub.CheckStream, ledger_pb2.CheckBatch, ledger_pb2.CheckItem, telemetry)
