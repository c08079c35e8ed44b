"""The bounds of a check stream: in time, in number, in size, and what is left behind at the end (nothing).
Run by pytest; servers and clients in this process.
"""

import asyncio
import gc
import time
from typing import Any

import pytest
from kenari.limiter.v1 import limiter_pb2

from libs.rpc.checks import Ask
from libs.rpc.checks import client as checks_client
from libs.rpc.client import RpcClient
from tests.service.rpc.conftest import Noting, allowed, answer_all, check_client, peer, question, reason_of, telemetry


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
        # The server counts from the moment it heard of the question.
        await asyncio.sleep(0.06)
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
