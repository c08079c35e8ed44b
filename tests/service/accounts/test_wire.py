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


async def refused(call: Any) -> str:
    """The reason of a refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    return from_call(refusal.value).reason


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


async def test_per_tool_keys_travel_with_their_refusals(stub: Any) -> None:
    account = await person(stub)
    login = accounts_pb2.CreateKeyRequest(account_id=account.account_id, kind=accounts_pb2.KEY_KIND_LOGIN)
    login_id = (await stub.CreateKey(login, timeout=5)).key.key_id
    wanted = accounts_pb2.CreateToolKeyRequest(login_key_id=login_id, tool="codex", host="laptop", key_id="key_one")
    made = await stub.CreateToolKey(wanted, timeout=5)
    assert (made.key.kind, made.key.parent_key_id) == (accounts_pb2.KEY_KIND_TOOL, login_id)
    assert made.key.prefix == made.secret[:11]
    use = accounts_pb2.KeyUse(key_id="key_one", at_ms=1_790_000_000_000)
    await stub.ReportKeyUse(accounts_pb2.ReportKeyUseRequest(uses=[use]), timeout=5)
    listed = await stub.ListToolKeys(accounts_pb2.ListToolKeysRequest(login_key_id=login_id), timeout=5)
    assert [(key.key_id, key.last_used_at_ms) for key in listed.keys] == [("key_one", use.at_ms)]
    assert await refused(stub.CreateToolKey(wanted, timeout=5)) == "already_exists"
    wanted.tool = "Codex"
    assert await refused(stub.CreateToolKey(wanted, timeout=5)) == "invalid"
    revoke = accounts_pb2.RevokeToolKeyRequest(login_key_id=login_id, key_id="key_one")
    assert (await stub.RevokeToolKey(revoke, timeout=5)).key.status == accounts_pb2.KEY_STATUS_REVOKED
    assert await refused(stub.RevokeToolKey(revoke, timeout=5)) == "not_found"


async def test_members_travel_with_their_refusals(stub: Any) -> None:
    account = await person(stub)
    ann = await stub.CreatePerson(accounts_pb2.CreatePersonRequest(email="Ann@example.com", name="Ann"), timeout=5)
    found = await stub.GetPerson(accounts_pb2.GetPersonRequest(email="ann@example.com"), timeout=5)
    assert found.person == ann.person
    ids = {"account_id": account.account_id, "person_id": ann.person.person_id}
    added = await stub.AddMember(accounts_pb2.AddMemberRequest(**ids, role=accounts_pb2.ROLE_OWNER), timeout=5)
    listed = await stub.ListMembers(accounts_pb2.ListMembersRequest(account_id=account.account_id), timeout=5)
    assert list(listed.members) == [added.member]
    assert await refused(stub.RemoveMember(accounts_pb2.RemoveMemberRequest(**ids), timeout=5)) == "last_owner"
    stranger = accounts_pb2.SetMemberRoleRequest(**ids, role=accounts_pb2.ROLE_MEMBER, actor_person_id="person_x")
    assert await refused(stub.SetMemberRole(stranger, timeout=5)) == "forbidden"
    assert await refused(stub.AddMember(accounts_pb2.AddMemberRequest(**ids), timeout=5)) == "invalid"


async def test_limits_and_shares_travel_with_their_refusals(stub: Any) -> None:
    account = await person(stub)
    made = await new_key(stub, account)
    wanted = accounts_pb2.SetKeyLimitsRequest(
        key_id=made.key.key_id, spend_cap_micro_idr=5, cap_period="month", tokens_per_minute=7,
        allowed_ips=accounts_pb2.AllowedIps(entries=["10.0.0.1/32", "10.0.0.1"]),
    )  # fmt: skip
    key = (await stub.SetKeyLimits(wanted, timeout=5)).key
    assert (key.spend_cap_micro_idr, key.cap_period, key.tokens_per_minute) == (5, "month", 7)
    assert list(key.allowed_ips) == ["10.0.0.1"]
    assert (await stub.SetKeyLimits(accounts_pb2.SetKeyLimitsRequest(key_id=key.key_id), timeout=5)).key == key
    assert (await stub.ResetKeyCaps(accounts_pb2.ResetKeyCapsRequest(key_id=key.key_id), timeout=5)).key.cap_epoch == 1
    for wrong in ({"cap_period": "year"}, {"allowed_ips": accounts_pb2.AllowedIps(entries=["x"])}):
        asked = accounts_pb2.SetKeyLimitsRequest(key_id=key.key_id, **wrong)
        assert await refused(stub.SetKeyLimits(asked, timeout=5)) == "invalid"
    shared = accounts_pb2.CreateKeyRequest(
        account_id=account.account_id, kind=accounts_pb2.KEY_KIND_SHARED, models=["m"], expires_in_days=1, note="hello"
    )
    share = (await stub.CreateKey(shared, timeout=5)).key
    shown = await stub.GetSharedKey(accounts_pb2.GetSharedKeyRequest(link_token=share.link_token), timeout=5)
    assert (shown.note, shown.owner_name, shown.key_id) == ("hello", "Someone", share.key_id)
    fixed = accounts_pb2.SetKeyLimitsRequest(key_id=share.key_id, spend_cap_micro_idr=5)
    assert await refused(stub.SetKeyLimits(fixed, timeout=5)) == "failed_precondition"
    assert await refused(stub.GetSharedKey(accounts_pb2.GetSharedKeyRequest(), timeout=5)) == "not_found"
