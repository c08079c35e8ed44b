"""A peer that dies or freezes with questions in flight: each question ends in time, and the stream comes back.
Run by pytest; the peer is a process that is killed for real.
"""

import asyncio
import gc
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import pytest

from deploy.local.ports import pick_free_port
from libs.core.errors import Transient
from libs.rpc.checks import Ask, CheckClient, CheckFailedError
from libs.rpc.client import RpcClient
from tests.service.rpc.conftest import Peer, answer_all, check_client, peer, question, telemetry, wait_until
from tests.support.tools import ROOT


class Process:
    """The peer, which can be killed and started again at the same port."""

    def __init__(self) -> None:
        self.port = pick_free_port()
        self._running: subprocess.Popen[str] | None = None

    def start(self, delay_s: float = 0.0) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-m", "tests.service.rpc.peer_process", str(self.port), str(delay_s)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._running.stdout is not None
        assert self._running.stdout.readline() == "ready\n"

    def signal(self, number: signal.Signals) -> None:
        assert self._running is not None
        self._running.send_signal(number)

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.communicate()
            self._running = None


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.kill()


@pytest.fixture
async def rpc(process: Process) -> AsyncIterator[RpcClient]:
    made = RpcClient(f"127.0.0.1:{process.port}", telemetry(), deadline_s=1.0)
    yield made
    await made.stop()


@pytest.fixture
async def checks(rpc: RpcClient) -> AsyncIterator[CheckClient]:
    made = check_client(rpc)
    yield made
    await made.stop()


async def start(process: Process, checks: CheckClient, delay_s: float = 0.0) -> None:
    await asyncio.to_thread(process.start, delay_s)
    await checks.start()
    await wait_until(lambda: checks.problem() is None)


async def outcome(asking: "asyncio.Future[Any]") -> str:
    try:
        await asking
    except CheckFailedError as error:
        return error.reason
    return "answered"


async def test_killing_the_peer_fails_what_waits_within_a_second(
    process: Process, checks: CheckClient, unheard: list[dict[str, Any]]
) -> None:
    await start(process, checks, delay_s=30.0)
    asking = [checks.begin("admit", question(number), 20.0) for number in range(500)]
    await asyncio.sleep(0.3)
    killed_at = time.monotonic()
    process.kill()
    assert {await outcome(future) for future in asking} == {"unavailable"}
    assert time.monotonic() - killed_at < 1
    assert checks._waiting == {}
    assert checks.problem() == "no check stream to limiter"
    del asking
    gc.collect()
    assert unheard == []


async def test_under_load_every_question_ends_and_the_stream_comes_back(process: Process, checks: CheckClient) -> None:
    await start(process, checks, delay_s=0.005)
    ended: Counter[str] = Counter()
    slowest = 0.0
    running = True

    async def load() -> None:
        nonlocal slowest
        while running:
            began = time.monotonic()
            ended[await outcome(checks.begin("admit", question(1), 0.5))] += 1
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.005)

    loads = [asyncio.create_task(load()) for _ in range(32)]
    for _ in range(2):
        await asyncio.sleep(0.3)
        await asyncio.to_thread(process.kill)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(process.start, 0.005)
        back_at = time.monotonic()
        before = ended["answered"]
        await wait_until(lambda before=before: ended["answered"] > before, 5.0)  # type: ignore[misc]
        assert time.monotonic() - back_at < 2.5
    running = False
    await asyncio.gather(*loads)
    assert set(ended) == {"answered", "unavailable"}
    assert slowest < 0.6
    assert checks._waiting == {}


async def test_a_frozen_peer_costs_deadlines_first_and_then_its_connection(
    process: Process, checks: CheckClient
) -> None:
    await start(process, checks)
    process.signal(signal.SIGSTOP)
    frozen_at = time.monotonic()
    asking = [checks.begin("admit", question(number), 0.2) for number in range(100)]
    assert {await outcome(future) for future in asking} == {"deadline"}
    assert time.monotonic() - frozen_at < 0.5
    # From then on nobody waits for it at all.
    await wait_until(lambda: checks.problem() is not None, 15.0)
    began = time.monotonic()
    assert await outcome(checks.begin("admit", question(1), 5.0)) == "unavailable"
    assert time.monotonic() - began < 0.1
    process.signal(signal.SIGCONT)
    await wait_until(lambda: checks.problem() is None, 10.0)
    assert await outcome(checks.begin("admit", question(1), 5.0)) == "answered"


async def test_a_short_freeze_breaks_nothing(process: Process, checks: CheckClient) -> None:
    await start(process, checks)
    process.signal(signal.SIGSTOP)
    late = [checks.begin("admit", question(number), 0.1) for number in range(50)]
    patient = checks.begin("admit", question(7), 10.0)
    assert {await outcome(future) for future in late} == {"deadline"}
    await asyncio.sleep(0.3)
    process.signal(signal.SIGCONT)
    assert (await patient).admit.allowed.remaining == 7
    assert checks.problem() is None


async def test_reconnecting_is_spread_in_time(
    process: Process, checks: CheckClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[float] = []
    method = checks._method

    def counted() -> Any:
        opened.append(time.monotonic())
        return method()

    monkeypatch.setattr(checks, "_method", counted)
    await checks.start()
    await asyncio.sleep(2.5)
    waits = [later - earlier for earlier, later in pairwise(opened)]
    assert 3 <= len(waits) < 20
    assert waits[0] < 0.5
    assert len({round(wait, 4) for wait in waits}) == len(waits)


async def test_unary_calls_to_a_restarted_peer_work_again(process: Process, rpc: RpcClient) -> None:
    there = Peer(None, rpc, None)  # type: ignore[arg-type]
    await asyncio.to_thread(process.start)
    assert (await there.admit(3)).allowed.remaining == 3
    await asyncio.to_thread(process.kill)
    with pytest.raises(Transient):
        await there.admit(3, retry=True)
    await asyncio.to_thread(process.start)

    async def again() -> None:
        while True:
            try:
                await there.admit(3, retry=True)
                return
            except Transient:
                await asyncio.sleep(0.05)

    await asyncio.wait_for(again(), 3.0)


ASKER = """
import asyncio, sys
import libs
from libs.rpc.client import RpcClient
from tests.service.rpc.conftest import check_client, question, telemetry, wait_until

async def main():
    checks = check_client(RpcClient(sys.argv[1], telemetry(), deadline_s=1.0))
    await checks.start()
    await wait_until(lambda: checks.problem() is None)
    waiting = [checks.begin("admit", question(number), 30.0) for number in range(100)]
    await asyncio.gather(*waiting)

asyncio.run(main())
"""


async def test_a_killed_asker_costs_the_server_nothing_but_the_work_under_way(
    caplog: pytest.LogCaptureFixture, unheard: list[dict[str, Any]]
) -> None:
    entered, finished = asyncio.Event(), asyncio.Event()

    async def slow(asks: list[Ask]) -> None:
        if len(asks) > 1:
            entered.set()
            await asyncio.sleep(0.5)
        await answer_all(asks)
        if len(asks) > 1:
            finished.set()

    async with peer(handle=slow) as there:
        address = f"127.0.0.1:{there.server.port}"
        asker = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", ASKER, address], cwd=ROOT)
        await asyncio.wait_for(entered.wait(), 20)
        asker.kill()
        await asyncio.to_thread(asker.wait)
        await asyncio.wait_for(finished.wait(), 5)
        assert await there.ask(1) == 1
    gc.collect()
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
    assert unheard == []
