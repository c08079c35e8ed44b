"""The pool: waits for the database at start, says what it does not know, lets the server's refusals through."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from deploy.local.ports import pick_free_port
from libs.core.errors import ConfigError
from libs.core.settings import DatabaseSettings, TelemetrySettings
from libs.db.database import Database
from libs.db.errors import DatabaseAwayError
from libs.ops.telemetry import Telemetry
from tests.support.stack import Postgres


def made(dsn: str, **options: int) -> Database:
    return Database(DatabaseSettings(dsn=SecretStr(dsn)), Telemetry("test", TelemetrySettings()), **options)


@pytest.fixture(scope="module")
def empty_dsn(postgres: Postgres) -> str:
    return asyncio.run(postgres.database())


@pytest.fixture
async def database(empty_dsn: str) -> AsyncIterator[Database]:
    database = made(empty_dsn, statement_ms=500, lock_ms=200)
    await database.start()
    async with database.connection() as conn:
        await conn.execute("drop table if exists thing; create table thing (id integer primary key)")
    yield database
    await database.stop()


async def _end_backends(postgres: Postgres, dsn: str) -> None:
    admin = await asyncpg.connect(postgres.server.dsn())
    await admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", dsn.rsplit("/", 1)[1]
    )
    await admin.close()


async def test_a_block_that_raises_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError):
        async with database.transaction() as conn:
            await conn.execute("insert into thing values (1)")
            raise RuntimeError

    async with database.connection() as conn:
        assert await conn.fetchval("select count(*) from thing") == 0


async def test_a_connection_that_ends_is_an_unknown_outcome_and_the_next_one_works(
    postgres: Postgres, database: Database, empty_dsn: str
) -> None:
    with pytest.raises(DatabaseAwayError) as failed:
        async with database.transaction() as conn:
            await conn.execute("insert into thing values (1)")
            await _end_backends(postgres, empty_dsn)
            await conn.execute("insert into thing values (2)")

    assert failed.value.reason == "database_away"
    async with database.connection() as conn:
        assert await conn.fetchval("select count(*) from thing") == 0


async def test_the_servers_own_refusal_is_passed_on(database: Database) -> None:
    async with database.connection() as conn:
        await conn.execute("insert into thing values (1)")
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.transaction() as conn:
            await conn.execute("insert into thing values (1)")
    with pytest.raises(asyncpg.DataError):
        async with database.connection() as conn:
            await conn.execute("insert into thing values ($1)", 2**40)
    assert database.problem() is None


@pytest.mark.parametrize("slow", ["select pg_sleep(2)", "lock"])
async def test_what_takes_too_long_is_ended_by_the_server(database: Database, slow: str) -> None:
    async with database.transaction() as holder:
        await holder.execute("lock table thing")
        with pytest.raises(DatabaseAwayError) as failed:
            async with database.connection() as conn:
                await conn.execute("select * from thing" if slow == "lock" else slow)

    assert failed.value.reason == "database_busy"


async def test_start_waits_for_a_database_that_comes_late(own_postgres: Postgres) -> None:
    dsn = await own_postgres.database()
    own_postgres.server.kill()
    database = made(dsn)
    starting = asyncio.create_task(database.start())
    await asyncio.sleep(0.5)
    assert not starting.done()
    assert database.problem() is not None

    await asyncio.to_thread(own_postgres.server.start)
    await asyncio.wait_for(starting, 20)

    assert database.problem() is None
    await database.stop()


async def test_a_database_that_goes_is_a_problem_until_it_is_back(own_postgres: Postgres) -> None:
    database = made(await own_postgres.database())
    await database.start()
    await asyncio.to_thread(own_postgres.server.kill)
    async with asyncio.timeout(10):
        while database.problem() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    with pytest.raises(DatabaseAwayError):
        async with database.connection():
            pass

    await asyncio.to_thread(own_postgres.server.start)
    async with asyncio.timeout(20):
        while database.problem() is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await database.stop()


async def test_a_role_that_is_not_let_in_is_a_mistake_in_the_settings(empty_dsn: str) -> None:
    with pytest.raises(ConfigError):
        await made(empty_dsn.replace("//t", "//nobody_")).start()


async def test_before_start_there_is_no_database() -> None:
    database = made(f"postgresql://x@127.0.0.1:{pick_free_port()}/x")
    with pytest.raises(DatabaseAwayError):
        async with database.connection():
            pass


async def _pid(conn: Any) -> int:
    return int(await conn.fetchval("select pg_backend_pid()"))


async def test_a_session_keeps_its_connection_and_replaces_a_broken_one(
    postgres: Postgres, database: Database, empty_dsn: str
) -> None:
    session = database.session()
    pid = await session.transact(_pid)
    assert await session.transact(_pid) == pid
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await session.transact(lambda conn: conn.execute("selec"))
    assert await session.transact(_pid) == pid

    await _end_backends(postgres, empty_dsn)
    with pytest.raises(DatabaseAwayError):
        await session.transact(_pid)

    assert await session.transact(_pid) != pid
    await session.close()


async def test_a_session_undoes_what_its_work_raised_after(database: Database) -> None:
    async def written(conn: Any) -> None:
        await conn.execute("create table undone ()")
        raise LookupError

    session = database.session()
    with pytest.raises(LookupError):
        await session.transact(written)

    assert await session.transact(lambda conn: conn.fetchval("select to_regclass('undone')")) is None
    await session.close()


async def test_a_cancelled_session_starts_afresh(database: Database) -> None:
    session = database.session()
    pid = await session.transact(_pid)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.transact(lambda conn: conn.execute("select pg_sleep(0.4)")), 0.05)

    assert await session.transact(_pid) != pid
    await session.close()
