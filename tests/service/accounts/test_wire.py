"""Accounts as others see them: gRPC with statuses and reasons, the watch, keys on their topic."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from pydantic import SecretStr

from libs.core.errors import Permanent
from libs.core.keys import hash_key
from libs.core.settings import DatabaseSettings, KafkaSettings, OpsSettings, RpcSettings, TelemetrySettings
from libs.events.accounts import KeyChanged, SettingsChanged
from libs.events.topics import ACCOUNTS_KEYS, ACCOUNTS_SETTINGS
from libs.kafka.bus import Bus
from libs.ops.telemetry import Telemetry
from libs.rpc.errors import from_call
from libs.rpc.server import RpcServer
from libs.service.service import Service
from services.accounts.app import build
from services.accounts.settings import AccountsSettings
from tests.service.accounts.bench import SECRET

SUSPENDED = accounts_pb2.ACCOUNT_STATUS_SUSPENDED


@pytest.fixture
async def service(dsn: str, kafka: str, tmp_path: Path) -> AsyncIterator[Service]:
    """The whole service, ready."""
    service = build(
        AccountsSettings(
            kafka=KafkaSettings(bootstrap=kafka, spool_dir=tmp_path),
            rpc=RpcSettings(port=0),
            ops=OpsSettings(port=0),
            database=DatabaseSettings(dsn=SecretStr(dsn)),
            key_hash_secret=SecretStr(SECRET.decode()),
            watch_heartbeat_s=0.2,
        )
    )
    await service.start()
    async with asyncio.timeout(20):
        while service.problems():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    yield service
    await service.stop()


@pytest.fixture
async def stub(service: Service) -> AsyncIterator[Any]:
    server = next(part for part in service._parts if isinstance(part, RpcServer))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield accounts_pb2_grpc.AccountsStub(channel)


async def person(stub: Any) -> accounts_pb2.Account:
    wanted = accounts_pb2.CreateAccountRequest(account_id=f"acct_{secrets.token_hex(6)}", name="Someone")
    made: accounts_pb2.Account = (await stub.CreateAccount(wanted, timeout=5)).account
    return made


async def new_key(stub: Any, account: accounts_pb2.Account) -> accounts_pb2.CreateKeyResponse:
    request = accounts_pb2.CreateKeyRequest(account_id=account.account_id, label="app")
    made: accounts_pb2.CreateKeyResponse = await stub.CreateKey(request, timeout=5)
    return made


async def test_a_key_from_making_to_revoking(stub: Any) -> None:
    account = await person(stub)
    made = await new_key(stub, account)
    assert made.key.key_hash == hash_key(SECRET, made.secret)
    found = await stub.ResolveKey(accounts_pb2.ResolveKeyRequest(key_hash=made.key.key_hash), timeout=5)
    assert found.key == made.key
    assert found.key.status == accounts_pb2.KEY_STATUS_ACTIVE
    revoked = await stub.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=made.key.key_id), timeout=5)
    assert (revoked.key.status, revoked.key.version) == (accounts_pb2.KEY_STATUS_REVOKED, 2)
    listed = await stub.ListKeys(accounts_pb2.ListKeysRequest(account_id=account.account_id), timeout=5)
    assert list(listed.keys) == [revoked.key]
    unknown = await stub.ResolveKey(accounts_pb2.ResolveKeyRequest(key_hash="0" * 64), timeout=5)
    assert not unknown.HasField("key")


async def test_refusals_are_statuses_with_a_reason(stub: Any) -> None:
    account = await person(stub)
    taken = accounts_pb2.CreateAccountRequest(account_id=account.account_id, name="Someone else")
    unspecified = accounts_pb2.SetAccountStatusRequest(account_id=account.account_id)
    for call, code, reason in (
        (stub.GetAccount(accounts_pb2.GetAccountRequest(account_id="acct_none"), timeout=5), "NOT_FOUND", "not_found"),
        (stub.CreateAccount(taken, timeout=5), "ALREADY_EXISTS", "already_exists"),
        (stub.CreateAccount(accounts_pb2.CreateAccountRequest(), timeout=5), "INVALID_ARGUMENT", "invalid"),
        (stub.SetAccountStatus(unspecified, timeout=5), "INVALID_ARGUMENT", "invalid"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await call
        assert refusal.value.code().name == code
        error = from_call(refusal.value)
        assert isinstance(error, Permanent)
        assert error.reason == reason


async def test_the_watch_tells_of_revocation_and_suspension_at_once(stub: Any) -> None:
    account = await person(stub)
    made = await new_key(stub, account)
    watch = stub.WatchKeys(accounts_pb2.WatchKeysRequest())

    async def next_change(version: int) -> accounts_pb2.Key:
        """What is told next of that version or a later one: a watch may tell a change twice."""
        async with asyncio.timeout(3):
            while True:
                told = await watch.read()
                if told.HasField("key") and told.key.version >= version:
                    key: accounts_pb2.Key = told.key
                    return key

    assert (await next_change(1)) == made.key
    started = time.perf_counter()
    request = accounts_pb2.SetAccountStatusRequest(account_id=account.account_id, status=SUSPENDED)
    await stub.SetAccountStatus(request, timeout=5)
    assert (await next_change(2)).account_status == SUSPENDED
    await stub.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=made.key.key_id), timeout=5)
    assert (await next_change(3)).status == accounts_pb2.KEY_STATUS_REVOKED
    assert time.perf_counter() - started < 1
    async with asyncio.timeout(10):
        while (await watch.read()).HasField("key"):
            continue  # then heartbeats
    watch.cancel()


async def test_an_open_watch_does_not_delay_stopping(service: Service, stub: Any) -> None:
    watch = stub.WatchKeys(accounts_pb2.WatchKeysRequest())
    await watch.read()
    started = time.perf_counter()
    await service.stop()
    assert time.perf_counter() - started < 4
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        while True:
            await watch.read()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_keys_and_limits_reach_the_tables_of_others(stub: Any, kafka: str, tmp_path: Path) -> None:
    bus = Bus(KafkaSettings(bootstrap=kafka, spool_dir=tmp_path), "edge", Telemetry("edge", TelemetrySettings()))
    keys = bus.table(ACCOUNTS_KEYS, KeyChanged, lambda data: data.key_hash)
    limits = bus.table(ACCOUNTS_SETTINGS, SettingsChanged, lambda data: data.account_id)
    await bus.start()
    account = await person(stub)
    made = await new_key(stub, account)
    await stub.SetAccountLimits(
        accounts_pb2.SetAccountLimitsRequest(account_id=account.account_id, requests_per_minute=42), timeout=5
    )
    await stub.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=made.key.key_id), timeout=5)
    async with asyncio.timeout(15):
        while True:
            key, limit = keys.get(made.key.key_hash), limits.get(account.account_id)
            if key is not None and key.status == "revoked" and limit is not None:
                break
            await asyncio.sleep(0.02)
        while max(keys.age_s(), limits.age_s()) > 6:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (key.version, key.label, key.account_status) == (2, "app", "active")
    assert limit.requests_per_minute == 42
    await bus.stop()
