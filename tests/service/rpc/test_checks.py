"""Questions on a check stream: coalesced, answered in any order, bounded in time and number.
Run by pytest; servers and clients in this process.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from kenari.limiter.v1 import limiter_pb2

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from libs.rpc.checks import Ask
from libs.rpc.checks import client as checks_client
from tests.service.rpc.conftest import (
    Noting,
    Peer,
    allowed,
    peer,
    question,
    reason_of,
    telemetry,
    wait_until,
)
from tests.unit.ops.test_tracing import SPAN, TRACE, rows


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
