"""The limiter as others see it: check stream and unary calls over gRPC, limits told over Kafka."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from kenari.limiter.v1 import limiter_pb2, limiter_pb2_grpc
from pydantic import SecretStr

from libs.core.money import rupiah
from libs.core.settings import KafkaSettings, OpsSettings, RpcSettings, TelemetrySettings
from libs.events.accounts import SettingsChanged
from libs.events.base import EventData, encode, envelope
from libs.events.ledger import AccountState
from libs.events.topics import ACCOUNTS_SETTINGS, LEDGER_STATES, Topic
from libs.kafka.publisher import Outgoing, Publisher
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from libs.rpc.server import RpcServer
from services.limiter.app import build
from services.limiter.rpc import NAME, LimiterRpc
from services.limiter.settings import LimiterSettings, TierSettings, ValkeySettings
from tests.service.limiter.bench import Bench, fast

PAID = limiter_pb2.SUBJECT_PAID_CHAT
FREE = limiter_pb2.SUBJECT_FREE_CHAT


def question(account: str = "acct_a", subject: Any = PAID, **others: Any) -> limiter_pb2.AdmitRequest:
    fields: dict[str, Any] = {"request_id": secrets.token_hex(8), "account_id": account, "model": "m:free"}
    return limiter_pb2.AdmitRequest(subject=subject, **(fields | others))


@asynccontextmanager
async def check_client(target: str) -> AsyncIterator[CheckClient]:
    async with grpc.aio.insecure_channel(target) as channel:
        stub = limiter_pb2_grpc.LimiterStub(channel)
        client = CheckClient(
            "limiter",
            stub.CheckStream,
            limiter_pb2.CheckBatch,
            limiter_pb2.CheckItem,
            Telemetry("edge", TelemetrySettings()),
        )
        await client.start()
        async with asyncio.timeout(5):
            while client.problem():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield client
        await client.stop()


@pytest.fixture
async def target(bench: Bench) -> AsyncIterator[str]:
    """Address of a limiter with small limits."""
    rules = fast(rpm=5, daily=50)
    limiter = bench.limiter(rules, rpm=20)
    telemetry = Telemetry("limiter", TelemetrySettings())
    server = RpcServer(RpcSettings(port=0), telemetry)
    server.register(limiter_pb2_grpc.add_LimiterServicer_to_server, LimiterRpc(limiter, rules.rules(), telemetry), NAME)
    await server.start()
    yield f"127.0.0.1:{server.port}"
    await server.stop()


async def test_questions_of_one_turn_are_answered_together_and_right(target: str) -> None:
    async with check_client(target) as client:
        paid = [client.ask("admit", question(), 1.0) for _ in range(25)]
        free = [client.ask("admit", question(subject=FREE), 1.0) for _ in range(7)]
        answers = await asyncio.gather(*paid, *free)
    outcomes = [answer.WhichOneof("outcome") for answer in answers]
    assert outcomes == ["allowed"] * 20 + ["refused"] * 5 + ["allowed"] * 5 + ["refused"] * 2
    assert (answers[24].refused.code, answers[24].refused.retry_after_s) == ("rate_limit_exceeded", 0)
    assert [(a.allowed.limit, a.allowed.remaining, a.allowed.leased) for a in answers[25:27]] == [
        (5, 4, True),
        (5, 3, True),
    ]
    assert (answers[31].refused.code, answers[31].refused.retry_after_s) == ("free_quota_rpm", 60)


async def test_done_and_admit_are_answered_in_one_message(target: str, bench: Bench) -> None:
    async with check_client(target) as client:
        asked = question(subject=FREE)
        await client.ask("admit", asked, 1.0)
        ended = limiter_pb2.DoneRequest(
            request_id=asked.request_id, account_id=asked.account_id, model=asked.model, success=True
        )
        done, paid = await asyncio.gather(client.ask("done", ended, 1.0), client.ask("admit", question(), 1.0))
        assert isinstance(done, limiter_pb2.DoneResponse)
        assert paid.WhichOneof("outcome") == "allowed"
    assert await bench.client.hget("{acct_a}:free:day:", "successes") == b"1"


async def test_a_malformed_question_fails_alone(target: str) -> None:
    async with check_client(target) as client:
        bad = [
            question(account=""),
            question(subject=limiter_pb2.SUBJECT_UNSPECIFIED),
            question(subject=FREE, request_id=""),
        ]
        answers = await asyncio.gather(
            *(client.ask("admit", one, 1.0) for one in [*bad, question()]), return_exceptions=True
        )
    for answer in answers[:3]:
        assert isinstance(answer, CheckFailedError)
        assert answer.reason == "invalid"
    assert answers[3].WhichOneof("outcome") == "allowed"  # type: ignore[union-attr]


async def test_unary_calls_count_with_the_stream(target: str) -> None:
    async with grpc.aio.insecure_channel(target) as channel, check_client(target) as client:
        stub = limiter_pb2_grpc.LimiterStub(channel)
        for _ in range(10):
            assert (await stub.Admit(question(), timeout=1)).WhichOneof("outcome") == "allowed"
            answer = await client.ask("admit", question(), 1.0)
            assert answer.WhichOneof("outcome") == "allowed"
        assert (await stub.Admit(question(), timeout=1)).refused.code == "rate_limit_exceeded"
        await stub.Done(limiter_pb2.DoneRequest(request_id="r", account_id="acct_a"), timeout=1)
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await stub.Admit(question(account=""), timeout=1)
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_limits_of_keys_and_models_travel_with_the_question_and_the_end(target: str, bench: Bench) -> None:
    async with check_client(target) as client:
        key: dict[str, Any] = {"key_id": "key_a", "key_tpm": 100, "tokens": 60}
        asked = question(**key)
        assert (await client.ask("admit", asked, 1.0)).allowed.leased
        ended = limiter_pb2.DoneRequest(
            request_id=asked.request_id, account_id="acct_a", subject=PAID, key_id="key_a", tokens=100
        )
        await client.ask("done", ended, 1.0)
        refused = (await client.ask("admit", question(**key), 1.0)).refused
        assert (refused.code, refused.limit) == ("rate_limit_exceeded", limiter_pb2.LIMIT_KEY_TOKENS)
        assert 0 < refused.again_ms <= 60_000

        model: dict[str, Any] = {"subject": FREE, "model_token_budget": 50, "tokens": 7}
        asked = question(**model)
        await client.ask("admit", asked, 1.0)
        assert await bench.client.get("{model:m:free}:tokens") == b"7"
        ended = limiter_pb2.DoneRequest(
            request_id=asked.request_id, account_id="acct_a", model="m:free", model_tokens=True, tokens=50, success=True
        )
        await client.ask("done", ended, 1.0)
        refused = (await client.ask("admit", question(**model), 1.0)).refused
        assert refused.limit == limiter_pb2.LIMIT_MODEL_TOKENS
        assert await bench.client.hget("{acct_a}:free:day:", "successes") == b"1"


async def test_keys_and_places_are_asked_about_over_the_wire(target: str) -> None:
    async with check_client(target) as client:
        door: dict[str, Any] = {
            "subject": limiter_pb2.SUBJECT_KEY_REQUEST,
            "key_id": "key_s",
            "key_shared": True,
            "address": "a",
        }
        answers = [(await client.ask("admit", question(**door), 1.0)) for _ in range(31)]
        assert [answer.WhichOneof("outcome") for answer in answers] == ["allowed"] * 30 + ["refused"]
        assert answers[-1].refused.limit == limiter_pb2.LIMIT_ADDRESS
        paced: dict[str, Any] = {"subject": limiter_pb2.SUBJECT_KEY_REQUEST, "key_id": "key_p", "key_rpm": 1}
        await client.ask("admit", question(**paced), 1.0)
        assert (await client.ask("admit", question(**paced), 1.0)).refused.limit == limiter_pb2.LIMIT_KEY_REQUESTS
        for subject, most, code in (
            (limiter_pb2.SUBJECT_MUSIC, 2, "rate_limit_exceeded"),
            (limiter_pb2.SUBJECT_PASSTHROUGH, 100, "passthrough_busy"),
        ):
            taken = [question(subject=subject) for _ in range(most)]
            answers = await asyncio.gather(*(client.ask("admit", one, 1.0) for one in taken))
            assert all(answer.allowed.leased for answer in answers)
            assert (await client.ask("admit", question(subject=subject), 1.0)).refused.code == code
            ended = limiter_pb2.DoneRequest(request_id=taken[0].request_id, account_id="acct_a", subject=subject)
            await client.ask("done", ended, 1.0)
            assert (await client.ask("admit", question(subject=subject), 1.0)).allowed.leased


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": limiter_pb2.SUBJECT_MUSIC, "request_id": ""},
        {"key_tpm": 5, "key_id": "k", "request_id": ""},
        {"key_tpm": 5},
        {"subject": limiter_pb2.SUBJECT_KEY_REQUEST},
    ],
    ids=["place", "tokens", "key-of-tokens", "key"],
)
async def test_a_question_without_what_it_needs_is_invalid(target: str, fields: dict[str, Any]) -> None:
    async with check_client(target) as client:
        with pytest.raises(CheckFailedError) as failed:
            await client.ask("admit", question(**fields), 1.0)
        assert failed.value.reason == "invalid"


@pytest.fixture
async def publisher(kafka: str, tmp_path: Path) -> AsyncIterator[Publisher]:
    publisher = Publisher(KafkaSettings(bootstrap=kafka, spool_dir=tmp_path))
    await publisher.start()
    yield publisher
    await publisher.stop()


async def say(publisher: Publisher, topic: Topic, account: str, data: EventData) -> None:
    event = envelope(data, source=topic.owner, subject=account, now_ms=1_800_000_000_000)
    await publisher.publish(Outgoing(topic.name, account.encode(), encode(event)))


async def test_what_accounts_and_ledger_say_changes_the_limits(
    bench: Bench, kafka: str, publisher: Publisher, tmp_path: Path
) -> None:
    account = f"acct_{secrets.token_hex(4)}"
    free = fast(rpm=2).model_copy(update={"qualified": TierSettings(rpm=9, daily=0)})
    service = build(
        LimiterSettings(
            kafka=KafkaSettings(bootstrap=kafka, spool_dir=tmp_path),
            rpc=RpcSettings(port=0),
            ops=OpsSettings(port=0),
            valkey=ValkeySettings(url=SecretStr(bench.server.url)),
            free=free,
        )
    )
    await service.start()
    async with asyncio.timeout(20):
        while service.problems():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    server = next(part for part in service._parts if isinstance(part, RpcServer))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = limiter_pb2_grpc.LimiterStub(channel)

        async def limit() -> int:
            await bench.client.delete(f"{{{account}}}:free:minute:")
            answer = await stub.Admit(question(account, FREE), timeout=1)
            return int(answer.allowed.limit)

        assert await limit() == 2
        await say(
            publisher, ACCOUNTS_SETTINGS, account, SettingsChanged(account_id=account, version=1, requests_per_minute=3)
        )
        await say(
            publisher, LEDGER_STATES, account,
            AccountState(account_id=account, version=1, paid_in_total_micro_idr=rupiah(50_000)),
        )  # fmt: skip
        async with asyncio.timeout(10):
            while await limit() != 9:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            answers = [await stub.Admit(question(account), timeout=1) for _ in range(4)]
        assert [answer.WhichOneof("outcome") for answer in answers] == ["allowed"] * 3 + ["refused"]
    await service.stop()


@pytest.mark.rule("FREE-025", "FREE-028")
async def test_price_pages_are_told_the_limits_in_force(target: str) -> None:
    async with grpc.aio.insecure_channel(target) as channel:
        stub = limiter_pb2_grpc.LimiterStub(channel)
        told = await stub.GetFreeTiers(limiter_pb2.GetFreeTiersRequest(), timeout=2)
    assert (told.new_account.rpm, told.new_account.daily) == (5, 50)
    assert (told.qualified.daily, told.with_plan.daily, told.threshold_idr) == (500, 1_000, 50_000)
