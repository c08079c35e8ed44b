"""What a consumer leaves behind when its process ends: killed, told to stop, or one of several that share the work."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from libs.kafka import INBOX_SQL, Received
from tests.kafka.conftest import Corner, Happened, Started, event, until
from tests.support.stack import Postgres

ROOT = Path(__file__).resolve().parents[2]

Spawn = Callable[[], Awaitable[Process]]


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[asyncpg.Connection]:
    dsn = await postgres.database()
    conn = await asyncpg.connect(dsn)
    await conn.execute(INBOX_SQL + "create table naive (number int); create table effect (number int);")
    yield conn
    await conn.close()


@pytest.fixture
async def spawn(corner: Corner, postgres: Postgres, database: asyncpg.Connection) -> AsyncIterator[Spawn]:
    """Start a worker process."""
    name = await database.fetchval("select current_database()")
    running: list[Process] = []

    async def start() -> Process:
        command = [
            sys.executable,
            "-m",
            "tests.kafka.worker",
            corner.bootstrap,
            corner.service,
            postgres.server.dsn(name),
        ]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, cwd=ROOT)
        running.append(process)
        return process

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: Process, line: str) -> None:
    """Read the worker's output up to a line."""
    assert process.stdout is not None
    async with asyncio.timeout(20):
        while (await process.stdout.readline()).decode().strip() != line:
            assert process.returncode is None


async def numbers(database: asyncpg.Connection, table: str) -> list[int]:
    return [row[0] for row in await database.fetch(f"select number from {table} order by number")]


async def test_killed_between_effect_and_commit_the_record_comes_again_and_counts_once(
    corner: Corner, spawn: Spawn, database: asyncpg.Connection
) -> None:
    first = await spawn()
    await corner.send(event(3), partition=0)
    await said(first, "effect 3")
    first.kill()
    second = await spawn()
    await said(second, "end 3")
    assert await numbers(database, "naive") == [3, 3]
    assert await numbers(database, "effect") == [3]


async def test_told_to_stop_it_finishes_the_record_commits_and_ends_well(
    corner: Corner, spawn: Spawn, database: asyncpg.Connection
) -> None:
    worker = await spawn()
    await corner.send_many([event(20), event(0)])
    await said(worker, "effect 20")
    worker.terminate()
    await said(worker, "end 20")
    await said(worker, "stopped")
    assert await worker.wait() == 0
    assert await corner.committed() == 1
    assert await numbers(database, "naive") == [20]


async def test_a_second_process_shares_the_partitions_and_takes_over_those_of_the_first(
    corner: Corner, started: Started
) -> None:
    seen: dict[str, list[int]] = {"one": [], "two": []}

    def reader(name: str) -> Callable[[Received], Awaitable[None]]:
        async def handler(received: Received) -> None:
            seen[name].append(received.data(Happened).number)

        return handler

    one, two = corner.bus(), corner.bus()
    one.each(corner.topic, reader("one"))
    two.each(corner.topic, reader("two"))
    await started(one)
    await started(two)

    async def send(start: int) -> None:
        for partition in range(3):
            await corner.send_many([event(start + partition * 10 + n) for n in range(5)], partition=partition)

    await until(lambda: len(two._subscriptions[0]._progress.lags()) > 0)
    await send(0)
    await until(lambda: len(seen["one"]) + len(seen["two"]) == 15)
    assert seen["one"]
    assert seen["two"]
    await one.stop()
    await send(100)
    await until(lambda: len([number for number in seen["two"] if number >= 100]) == 15)
    everything = sorted(set(seen["one"] + seen["two"]))
    assert everything == sorted(start + p * 10 + n for start in (0, 100) for p in range(3) for n in range(5))


async def test_a_handler_that_outlives_the_poll_interval_hands_its_record_to_another_and_counts_once(
    corner: Corner, started: Started
) -> None:
    """No long work in handlers: the group takes the partition away, the commit is refused, it is done twice."""
    corner.retry = replace(corner.retry, longest_s=3)
    began: list[int] = []
    slow = True

    async def handler(received: Received) -> None:
        nonlocal slow
        began.append(received.data(Happened).number)
        if slow:
            slow = False
            await asyncio.sleep(6)

    bus = corner.bus()
    bus.each(corner.topic, handler)
    await started(bus)
    other = corner.bus()
    await corner.send(event(1), partition=0)
    await until(lambda: began == [1])
    other.each(corner.topic, handler)
    await other.start()
    await until(lambda: began == [1, 1], 20)
    await other.stop()
