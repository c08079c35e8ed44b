"""Questions on a check stream: coalesced, answered in any order, bounded in time and number.
Run by pytest; servers and clients in this process.
"""

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest
from kenari.limiter.v1 import limiter_pb2

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from libs.rpc.checks import Ask, CheckFailedError
from libs.rpc.checks import client as checks_client
from libs.rpc.client import RpcClient
from tests.service.rpc.conftest import Peer, allowed, answer_all, check_client, peer, question, telemetry, wait_until
from tests.unit.ops.test_tracing import SPAN, TRACE, rows


class Noting:
    """Answers every question, noting the messages they came in."""

    def __init__(self) -> None:
        self.messages: list[list[int]] = []

    async def __call__(self, asks: list[Ask]) -> None:
        self.messages.append([int(ask.question.request_id) for ask in asks])
        await answer_all(asks)


async def reason_of(asking: "asyncio.Future[Any] | asyncio.Task[int]") -> str:
    with pytest.raises(CheckFailedError) as failed:
        await asking
    return failed.value.reason


async def test_questions_of_one_turn_travel_in_one_message() -> None:
    handle = Noting()
    async with peer(handle=handle) as there:
        answers = await asyncio.gather(*(there.ask(number) for number in range(100)))
        assert answers == list(range(100))
        assert handle.messages == [list(range(100))]
        await there.ask(100)
        assert handle.messages[1:] == [[100]]


async def test_very_many_questions_are_split_into_bounded_messages() -> None:
    handle = Noting()
    async with peer(handle=handle) as there:
        answers = await asyncio.gather(*(there.ask(number, 20.0) for number in range(5_000)))
    assert answers == list(range(5_000))
    assert max(len(message) for message in handle.messages) <= 256


async def test_answers_come_in_any_order_and_a_slow_one_holds_up_nobody() -> None:
    order: list[int] = []

    async def backwards(asks: list[Ask]) -> None:
        for ask in reversed(asks):
            number = int(ask.question.request_id)
            if number == 5:
                await asyncio.sleep(0.3)
            ask.answer(allowed(number))

    async with peer(handle=backwards) as there:

        async def one(number: int) -> None:
            assert await there.ask(number) == number
            order.append(number)

        slow = [asyncio.create_task(one(number)) for number in (5, 6)]
        await asyncio.sleep(0.05)
        started = time.monotonic()
        await asyncio.gather(*(one(number) for number in range(10, 20)))
        assert time.monotonic() - started < 0.2
        await asyncio.gather(*slow)
    assert order[0] == 6
    assert order[-1] == 5


async def test_an_answer_may_be_given_after_the_handler_returned() -> None:
    kept: list[Ask] = []

    async def later(asks: list[Ask]) -> None:
        kept.extend(asks)

    async with peer(handle=later) as there:
        asking = asyncio.create_task(there.ask(1))
        await wait_until(lambda: bool(kept))
        kept[0].answer(allowed(41))
        kept[0].answer(allowed(42))
        kept[0].fail("too late")
        assert await asking == 41


async def test_a_question_without_an_answer_fails_at_its_deadline() -> None:
    async def silent(asks: list[Ask]) -> None:
        pass

    async with peer(handle=silent) as there:
        started = time.monotonic()
        assert await reason_of(there.checks.begin("admit", question(1), 0.1)) == "deadline"
        assert 0.1 <= time.monotonic() - started < 0.3
        assert await reason_of(there.checks.begin("admit", question(1), 0.0)) == "deadline"
        assert await reason_of(there.checks.begin("admit", question(1), -1.0)) == "deadline"


async def test_a_short_deadline_is_not_held_up_by_long_ones() -> None:
    async def silent(asks: list[Ask]) -> None:
        pass

    async with peer(handle=silent) as there:
        slow = [there.checks.begin("admit", question(1), 30.0) for _ in range(10)]
        await asyncio.sleep(0.1)
        started = time.monotonic()
        assert await reason_of(there.checks.begin("admit", question(1), 0.05)) == "deadline"
        assert time.monotonic() - started < 0.25
        assert not any(future.done() for future in slow)


async def test_late_answers_are_ignored() -> None:
    kept: list[Ask] = []

    async def keep_first(asks: list[Ask]) -> None:
        if not kept:
            kept.extend(asks)
        else:
            await answer_all(asks)

    async with peer(handle=keep_first) as there:
        assert await reason_of(there.checks.begin("admit", question(1), 0.05)) == "deadline"
        kept[0].answer(allowed(1))
        assert await there.ask(2) == 2
        assert kept[0].expired()


async def test_the_server_sees_the_time_that_is_left() -> None:
    seen: list[bool] = []

    async def look(asks: list[Ask]) -> None:
        seen.append(asks[0].expired())
        await asyncio.sleep(0.1)
        seen.append(asks[0].expired())

    async with peer(handle=look) as there:
        await reason_of(there.checks.begin("admit", question(1), 0.05))
        await asyncio.sleep(0.1)
    assert seen == [False, True]


async def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    handle = Noting()
    async with peer(handle=handle) as there:
        cancelled, expired, wanted = (
            there.checks.begin("admit", question(number), timeout_s)
            for number, timeout_s in ((1, 5.0), (2, 0.0005), (3, 5.0))
        )
        cancelled.cancel()
        time.sleep(0.002)  # noqa: ASYNC251  # the loop is held up past a deadline
        assert (await wanted).admit.allowed.remaining == 3
        assert await reason_of(expired) == "deadline"
    assert handle.messages == [[3]]


async def test_a_cancelled_asker_leaves_nothing_behind() -> None:
    entered = asyncio.Event()

    async def silent(asks: list[Ask]) -> None:
        entered.set()

    async with peer(handle=silent) as there:
        asking = asyncio.create_task(there.ask(1, 0.1))
        await entered.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0.2)
        assert there.checks._waiting == {}


async def test_more_waiting_than_allowed_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_client, "MAX_WAITING", 10)
    release = asyncio.Event()

    async def hold(asks: list[Ask]) -> None:
        await release.wait()
        await answer_all(asks)

    async with peer(handle=hold) as there:
        asking = [there.checks.begin("admit", question(number), 5.0) for number in range(12)]
        assert [await reason_of(future) for future in asking[10:]] == ["overloaded"] * 2
        release.set()
        assert [int((await future).admit.allowed.remaining) for future in asking[:10]] == list(range(10))


async def test_a_question_too_large_for_the_stream_fails_alone() -> None:
    async with peer() as there:
        large = limiter_pb2.AdmitRequest(model="x" * 5 * 1024 * 1024)
        fine = asyncio.create_task(there.ask(1))
        assert await reason_of(there.checks.begin("admit", large, 1.0)) == "too_large"
        assert await fine == 1


async def test_an_exception_fails_only_the_rest_of_its_own_message(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(asks: list[Ask]) -> None:
        for ask in asks:
            if ask.question.request_id == "13":
                raise ZeroDivisionError
            await asyncio.sleep(0.02)
            ask.answer(allowed(int(ask.question.request_id)))

    async with peer(handle=broken) as there:
        first = [asyncio.create_task(there.ask(number)) for number in (12, 13, 14)]
        await asyncio.sleep(0.01)
        second = asyncio.create_task(there.ask(15))
        assert await first[0] == 12
        assert [await reason_of(asking) for asking in first[1:]] == ["internal", "internal"]
        assert await second == 15
        assert await there.ask(16) == 16
    assert "questions failed" in caplog.text


async def test_a_failure_arrives_with_the_reason_the_server_gave() -> None:
    async def refuse(asks: list[Ask]) -> None:
        for ask in asks:
            ask.fail("database_away")

    async with peer(handle=refuse) as there:
        assert await reason_of(there.checks.begin("admit", question(1), 1.0)) == "database_away"


async def test_an_unknown_question_fails_and_the_others_go_on() -> None:
    async with peer() as there:
        unknown: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        there.checks._waiting[999] = checks_client._Waiting(unknown, time.monotonic(), time.monotonic() + 5)
        there.checks._outbox.append(limiter_pb2.CheckItem(id=999, timeout_ms=1000))
        known = asyncio.create_task(there.ask(1))
        there.checks._wake.set()
        assert await reason_of(unknown) == "unknown_question"
        assert await known == 1


async def test_many_questions_with_many_ends_leave_nothing(unheard: list[dict[str, Any]]) -> None:
    async def some(asks: list[Ask]) -> None:
        for ask in asks:
            match int(ask.question.request_id) % 4:
                case 0:
                    ask.fail("refused")
                case 1:
                    pass
                case _:
                    ask.answer(allowed(1))

    async with peer(handle=some) as there:
        for _ in range(10):
            futures = [there.checks.begin("admit", question(number), 0.2) for number in range(500)]
            for future in futures[::7]:
                future.cancel()
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.4)
        assert there.checks._waiting == {}
        assert there.checks._outbox == []
        assert there.checks._sweeping is None
        del futures
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []


async def test_reading_pauses_when_too_many_messages_are_being_handled() -> None:
    release = asyncio.Event()
    handling = most = 0

    async def hold(asks: list[Ask]) -> None:
        nonlocal handling, most
        handling += 1
        most = max(most, handling)
        await release.wait()
        handling -= 1
        await answer_all(asks)

    async with peer(handle=hold, max_in_flight=4) as there:
        asking = []
        for number in range(50):
            asking.append(asyncio.create_task(there.ask(number)))
            await asyncio.sleep(0.002)
        assert most == 4
        release.set()
        assert await asyncio.gather(*asking) == list(range(50))


async def test_a_peer_that_takes_nothing_is_asked_no_more_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_client, "MAX_WAITING", 2_000)
    in_time: list[Ask] = []
    hold = asyncio.Event()

    async def slow(asks: list[Ask]) -> None:
        in_time.extend(ask for ask in asks if not ask.expired())
        await hold.wait()
        await answer_all(asks)

    async with peer(handle=slow, max_in_flight=1) as there:
        # Padded, so that a connection nobody reads from takes only some of them.
        padded = limiter_pb2.AdmitRequest(request_id="1", model="x" * 4_000)
        waiting = []
        for _ in range(100):
            waiting += [there.checks.begin("admit", padded, 0.05) for _ in range(100)]
            await asyncio.sleep(0.005)
        assert {await reason_of(future) for future in waiting} <= {"deadline", "overloaded"}
        assert there.checks._outbox == []
        assert there.checks._waiting == {}
        hold.set()
        assert await there.ask(7) == 7
    assert len(in_time) < 1_000


async def test_without_a_connection_questions_fail_at_once(unheard: list[dict[str, Any]]) -> None:
    rpc = RpcClient("127.0.0.1:1", telemetry(), deadline_s=1.0)
    checks = check_client(rpc)
    assert await reason_of(checks.begin("admit", question(1), 1.0)) == "unavailable"
    await checks.start()
    await asyncio.sleep(0.2)
    assert checks.problem() == "no check stream to limiter"
    checks.begin("admit", question(2), 1.0)
    await checks.stop()
    await rpc.stop()
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []


async def test_stopping_the_client_fails_what_waits() -> None:
    async def silent(asks: list[Ask]) -> None:
        pass

    async with peer(handle=silent) as there:
        asking = [there.checks.begin("admit", question(number), 5.0) for number in range(3)]
        await asyncio.sleep(0.05)
        await there.checks.stop()
        assert [await reason_of(future) for future in asking] == ["unavailable"] * 3
        assert await reason_of(there.checks.begin("admit", question(9), 1.0)) == "unavailable"


async def test_one_trace_runs_through_the_check_stream(tmp_path: Path) -> None:
    spans = tmp_path / "spans"
    asking = Telemetry("edge", TelemetrySettings(trace_file=spans))
    answering = Telemetry("limiter", TelemetrySettings(trace_file=spans))

    async def traced(asks: list[Ask]) -> None:
        for ask in asks:
            with answering.tracing.span("limiter.admit", parent=ask.traceparent, kind="server"):
                ask.answer(allowed(1))

    async with peer(handle=traced, asking=asking, answering=answering) as there:

        async def request(there: Peer, name: str, parent: str) -> None:
            with asking.tracing.span(name, parent=parent):
                await there.checks.ask("admit", question(1), 1.0, current_traceparent())

        other = f"00-{'a' * 32}-{'b' * 16}-01"
        await asyncio.gather(
            request(there, "one", f"00-{TRACE}-{SPAN}-01"), request(there, "two", other), request(there, "none", "")
        )
    asking.shutdown()
    answering.shutdown()
    found = rows(spans)
    assert len(found) == 4
    for name, trace in (("one", TRACE), ("two", "a" * 32)):
        mine = {row["name"]: row for row in found if row["trace_id"] == trace}
        assert mine["limiter.admit"]["parent_id"] == mine[name]["span_id"]
        assert mine["limiter.admit"]["service"] == "limiter"


async def test_the_stream_is_measured() -> None:
    asking, answering = telemetry("edge"), telemetry("limiter")
    async with peer(asking=asking, answering=answering) as there:
        await asyncio.gather(*(there.ask(number) for number in range(8)))
        text = asking.scrape().decode()
        assert 'kenari_rpc_check_seconds_count{outcome="answered",peer="limiter"} 8.0' in text
        assert 'kenari_rpc_check_connected{peer="limiter"} 1.0' in text
        assert 'kenari_rpc_check_waiting{peer="limiter"} 0.0' in text
        text = answering.scrape().decode()
        assert 'kenari_rpc_check_served_total{kind="admit"} 8.0' in text
        assert 'kenari_rpc_check_batch_bucket{le="8.0"} 1.0' in text
