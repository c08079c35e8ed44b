"""The limiter as the edge asks it: floods are refused here, a place in flight is waited for, absence has its shares."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from kenari.limiter.v1 import limiter_pb2
from pydantic import SecretStr

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.absent_limiter import AbsentLimiter
from services.edge.limiter import LimitedError, Limiter
from services.edge.refusals import Refusals
from services.edge.settings import EdgeSettings
from tests.unit.edge.peers import Scripted

PAID, FREE, KEY = (
    limiter_pb2.SUBJECT_PAID_CHAT,
    limiter_pb2.SUBJECT_FREE_CHAT,
    limiter_pb2.SUBJECT_KEY_REQUEST,
)
ALLOWED = limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed())


def question(subject: Any = PAID, account: str = "acct_a", **fields: Any) -> limiter_pb2.AdmitRequest:
    return limiter_pb2.AdmitRequest(request_id="r", account_id=account, subject=subject, **fields)


def refusal(code: str = "rate_limit_exceeded", **fields: Any) -> limiter_pb2.Refused:
    return limiter_pb2.Refused(code=code, **fields)


def limiter(*answers: limiter_pb2.AdmitResponse, **settings: Any) -> tuple[Limiter, Scripted]:
    """A limiter that gives these answers in turn, the last one again and again."""
    turns = list(answers)
    peer = Scripted(limiter_pb2.CheckReply, admit=lambda _: turns.pop(0) if len(turns) > 1 else turns[0])
    telemetry = Telemetry("edge", TelemetrySettings())
    return Limiter(cast("CheckClient", peer), _settings(**settings), telemetry), peer


def _settings(**fields: Any) -> EdgeSettings:
    return EdgeSettings(key_hash_secret=SecretStr("s" * 32), **fields)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the monotonic clock by so many seconds."""
    now = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_a_refusal_holds_until_its_limit_resets(clock: Callable[[float], None]) -> None:
    refusals = Refusals(10.0)
    assert refusals.still(question()) is None
    refusals.keep(question(), refusal(again_ms=4_000))
    assert refusals.still(question()) == refusal()
    clock(3.9)
    assert refusals.still(question()) is not None
    clock(0.2)
    assert refusals.still(question()) is None


def test_a_refusal_is_forgotten_early_so_that_a_raised_limit_is_noticed(clock: Callable[[float], None]) -> None:
    refusals = Refusals(2.0)
    refusals.keep(question(FREE), refusal("free_quota_daily", retry_after_s=9_000, again_ms=9_000_000))
    clock(1.9)
    assert refusals.still(question(FREE)) is not None
    clock(0.2)
    assert refusals.still(question(FREE)) is None


def test_retry_after_of_a_remembered_refusal_is_what_is_left(clock: Callable[[float], None]) -> None:
    refusals = Refusals(60.0)
    refusals.keep(question(FREE), refusal("free_quota_rpm", retry_after_s=20, again_ms=19_500))
    for passed, left in ((0.4, 20), (0.7, 19), (18.0, 1)):
        clock(passed)
        still = refusals.still(question(FREE))
        assert still is not None and still.retry_after_s == left


@pytest.mark.parametrize(
    "other",
    [
        question(account="acct_b"),
        question(FREE, model="a:free"),
        question(KEY, key_id="key_a"),
        question(key_id="key_a"),
    ],
    ids=["account", "free", "door", "key"],
)
def test_a_refusal_is_of_one_asker_and_one_matter(other: limiter_pb2.AdmitRequest) -> None:
    refusals = Refusals(10.0)
    refusals.keep(question(), refusal(again_ms=4_000))
    assert refusals.still(other) is None
    assert refusals.still(question(model="any")) is not None, "limits of paid requests are of all models"


def test_what_may_change_at_any_time_is_not_remembered() -> None:
    refusals = Refusals(10.0)
    refusals.keep(question(), refusal(again_ms=0))
    assert refusals.still(question()) is None


async def test_a_flood_reaches_the_limiter_once() -> None:
    asked, peer = limiter(limiter_pb2.AdmitResponse(refused=refusal(again_ms=4_000)))
    for _ in range(5):
        with pytest.raises(LimitedError):
            await asked.ask(question()).answer()
    assert len(peer.asked) == 1


async def test_a_place_in_flight_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = _no_sleep(monkeypatch)
    taken = refusal("free_quota_rpm", retry_after_s=5, limit=limiter_pb2.LIMIT_FREE_IN_FLIGHT)
    asked, peer = limiter(*[limiter_pb2.AdmitResponse(refused=taken)] * 3, ALLOWED)
    assert await asked.ask(question(FREE)).answer(10.0) == limiter_pb2.Allowed()
    assert (len(peer.asked), len(waits)) == (4, 3)


@pytest.mark.parametrize("patience_s", [0.0, 0.1])
async def test_without_patience_the_client_is_told_to_come_back(patience_s: float) -> None:
    taken = refusal("free_quota_rpm", retry_after_s=5, limit=limiter_pb2.LIMIT_FREE_IN_FLIGHT)
    asked, peer = limiter(limiter_pb2.AdmitResponse(refused=taken))
    with pytest.raises(LimitedError) as told:
        await asked.ask(question(FREE)).answer(patience_s)
    assert told.value.headers == ((b"retry-after", b"5"),)
    assert len(peer.asked) == 1


async def test_no_other_refusal_is_waited_for() -> None:
    full = refusal("free_quota_rpm", retry_after_s=5, limit=limiter_pb2.LIMIT_FREE_MINUTE)
    asked, peer = limiter(limiter_pb2.AdmitResponse(refused=full))
    with pytest.raises(LimitedError):
        await asked.ask(question(FREE)).answer(10.0)
    assert len(peer.asked) == 1


async def test_every_limit_has_words_of_its_own_and_an_unknown_one_some() -> None:
    told = set()
    limits = [value for value in limiter_pb2.Limit.values() if value]
    for limit in (*limits, 99):
        error = LimitedError(refusal(limit=limit)).error
        assert (error.status, error.code) == (429, "rate_limit_exceeded")
        assert error.message
        told.add(error.message)
    # The address is refused in plain text; music and passthrough have no endpoint yet.
    assert len(told) >= len(limits) - 2


def absent(**settings: Any) -> AbsentLimiter:
    return AbsentLimiter(_settings(**settings), Telemetry("edge", TelemetrySettings()))


def passed(edge: AbsentLimiter, asked: limiter_pb2.AdmitRequest, times: int) -> int:
    return sum(edge.answer(asked).HasField("allowed") for _ in range(times))


def test_without_a_limiter_paid_requests_pass_and_free_ones_have_a_share(clock: Callable[[float], None]) -> None:
    edge = absent(free_rpm_without_limiter=3)
    assert passed(edge, question(), 100) == 100
    assert passed(edge, question(FREE), 10) == 3
    refused = edge.answer(question(FREE)).refused
    assert (refused.code, refused.retry_after_s) == ("free_quota_rpm", 60)
    assert passed(edge, question(FREE, "acct_b"), 1) == 1
    clock(60.0)
    assert passed(edge, question(FREE), 10) == 3


def test_without_a_limiter_keys_keep_their_limits(clock: Callable[[float], None]) -> None:
    edge = absent(shared_rpm_without_limiter=4)
    one, other = (question(KEY, key_id="key_s", key_shared=True, address=name) for name in ("a", "b"))
    assert passed(edge, one, 3) == 3
    assert passed(edge, other, 3) == 1, "the key as a whole"
    assert edge.answer(other).refused.limit == limiter_pb2.LIMIT_SHARED_KEY
    alone = question(KEY, key_id="key_t", key_shared=True, address="a")
    assert passed(edge, alone, 5) == 4
    assert edge.answer(alone).refused.limit == limiter_pb2.LIMIT_ADDRESS
    assert passed(edge, question(KEY, key_id="key_own", key_rpm=7), 9) == 7


async def test_no_answer_of_the_limiter_is_the_edges_own() -> None:
    class Silent:
        def begin(self, *_: Any) -> "asyncio.Future[Any]":
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(CheckFailedError("no answer", reason="deadline"))
            return future

    telemetry = Telemetry("edge", TelemetrySettings())
    edge = Limiter(cast("CheckClient", Silent()), _settings(free_rpm_without_limiter=1), telemetry)
    assert (await edge.ask(question()).answer()).degraded
    assert (await edge.ask(question(FREE)).answer()).degraded
    with pytest.raises(LimitedError):
        await edge.ask(question(FREE)).answer()


def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("services.edge.limiter.asyncio.sleep", sleep)
    return waits
