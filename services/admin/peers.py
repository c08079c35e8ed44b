"""The services that the operator's commands ask, with one call each.

Made by action.py for the time of one command.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kenari.accounts.v1 import accounts_pb2_grpc
from kenari.ledger.v1 import funding_pb2_grpc, ledger_pb2_grpc
from kenari.router.v1 import router_pb2_grpc

from libs.core.errors import Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient
from services.admin.settings import AdminSettings


class Peers:
    """Accounts, router, ledger. Answers are messages; failures Transient or Permanent with the peer's reason."""

    def __init__(self, accounts: RpcClient, router: RpcClient, ledger: RpcClient) -> None:
        self._accounts = accounts
        self._router = router
        self._ledger = ledger
        self._accounts_stub = accounts_pb2_grpc.AccountsStub(accounts.channel)
        self._router_stub = router_pb2_grpc.RouterStub(router.channel)
        self._routes_stub = router_pb2_grpc.RoutesStub(router.channel)
        self._ledger_stub = ledger_pb2_grpc.LedgerStub(ledger.channel)
        self._funds_stub = funding_pb2_grpc.FundsStub(ledger.channel)

    async def accounts(self, method: str, request: Any, *, retry: bool = True) -> Any:
        """Call a method of accounts; ``retry`` only where a repeat changes nothing."""
        return await self._accounts.call(
            f"accounts.{method}", getattr(self._accounts_stub, method), request, retry=retry
        )

    async def router(self, method: str, request: Any) -> Any:
        """Call a method of the router of which a repeat changes nothing."""
        return await self._router.call(f"router.{method}", getattr(self._router_stub, method), request, retry=True)

    async def routes(self, method: str, request: Any, *, retry: bool = True) -> Any:
        """Call a method of the router's keeper of named routes; ``retry`` only where a repeat changes nothing."""
        return await self._router.call(f"router.{method}", getattr(self._routes_stub, method), request, retry=retry)

    async def ledger(self, method: str, request: Any) -> Any:
        """Call a method of the ledger of which a repeat changes nothing."""
        return await self._ledger.call(f"ledger.{method}", getattr(self._ledger_stub, method), request, retry=True)

    async def funds(self, method: str, request: Any) -> Any:
        """Call a method of the ledger's Funds of which a repeat changes nothing."""
        return await self._ledger.call(f"funds.{method}", getattr(self._funds_stub, method), request, retry=True)


@contextlib.asynccontextmanager
async def told_key(idempotency_key: str) -> AsyncIterator[None]:
    """Name the key in the failure of a call that may have been done, so that it can be repeated safely."""
    try:
        yield
    except Transient as error:
        told = f"{error}; nobody knows whether it was done: run it again with --idempotency-key {idempotency_key}"
        raise Transient(told, reason=error.reason) from error


@contextlib.asynccontextmanager
async def connected(settings: AdminSettings) -> AsyncIterator[Peers]:
    """Channels for one command; they connect when first used."""
    telemetry = Telemetry(settings.NAME, TelemetrySettings())
    accounts = RpcClient(settings.accounts_address, telemetry, deadline_s=settings.timeout_s)
    router = RpcClient(settings.router_address, telemetry, deadline_s=settings.timeout_s)
    ledger = RpcClient(settings.ledger_address, telemetry, deadline_s=settings.timeout_s)
    try:
        yield Peers(accounts, router, ledger)
    finally:
        await accounts.stop()
        await router.stop()
        await ledger.stop()
