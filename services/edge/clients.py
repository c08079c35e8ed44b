"""The edge's peers as it sees them: keys from accounts, reads from the ledger, and the three check streams.

Made by app.py; used by keys, admission, settlement and the account endpoints.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc
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

    async def balance(self, account_id: str) -> ledger_pb2.GetBalanceResponse:
        request = ledger_pb2.GetBalanceRequest(account_id=account_id)
        return await self._rpc.call("ledger.GetBalance", self._stub.GetBalance, request, retry=True)

    async def usage_log(self, request: ledger_pb2.UsageLogRequest) -> ledger_pb2.UsageLogResponse:
        return await self._rpc.call("ledger.UsageLog", self._stub.UsageLog, request, retry=True)

    async def touch(self, request_ids: list[str]) -> None:
        """Keep the holds of these requests from expiring."""
        holds = [ledger_pb2.HoldRef(request_id=request_id, line=0) for request_id in request_ids]
        await self._rpc.call("ledger.Touch", self._stub.Touch, ledger_pb2.TouchRequest(holds=holds), retry=True)


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
