"""The local PostgreSQL and Valkey start, answer, and keep their data through stop, kill and restart.
Run by `make test`; the Kafka servers have their own file.
"""

import os
from pathlib import Path

import asyncpg
import pytest
import valkey

from deploy.local import PostgresServer, StartFailed, ValkeyServer
from deploy.local.errors import LocalServerError


async def _rows(dsn: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        rows: list[asyncpg.Record] = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()


async def test_postgres_keeps_committed_rows_through_kill_and_stop(directory: Path) -> None:
    # given a row committed by the role of a service
    server = PostgresServer(directory / "postgres").start()
    try:
        server.create_databases(["ledger"])
        await _rows(server.dsn("ledger"), "CREATE TABLE t AS SELECT 42 AS n")
        # when the server is killed, started again, stopped and started again
        server.kill()
        server.start()
        after_kill = await _rows(server.dsn("ledger"), "SELECT n FROM t")
        server.stop()
        server.start()
        after_stop = await _rows(server.dsn("ledger"), "SELECT n FROM t")
    finally:
        server.stop()
    # then the row is there each time
    assert [row["n"] for row in after_kill] == [row["n"] for row in after_stop] == [42]


async def test_postgres_is_durable_and_closed_between_services(directory: Path) -> None:
    with PostgresServer(directory / "postgres") as server:
        # given two services, their databases made twice
        server.create_databases(["ledger", "accounts"])
        server.create_databases(["ledger", "accounts"])
        # then a commit waits for the disk
        assert server.query("SHOW fsync") == "on"
        assert server.query("SHOW synchronous_commit") == "on"
        # and one role neither enters the other's database nor gets in without the password
        intruder = server.dsn("ledger").replace("/ledger", "/accounts").replace("//accounts", "//ledger")
        assert intruder.startswith("postgresql://ledger:") and intruder.endswith("/accounts")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await _rows(intruder, "SELECT 1")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await _rows(f"postgresql://ledger:wrong@{server.address}/ledger", "SELECT 1")


def test_postgres_does_not_believe_the_pid_file_of_a_killed_run(directory: Path) -> None:
    # given a killed server whose pid file names a process that lives now
    server = PostgresServer(directory / "postgres").start()
    server.kill()
    pid_file = server.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    # when it starts again, then it answers
    try:
        assert server.start().query("SELECT 1") == "1"
    finally:
        server.stop()


def test_postgres_repeats_a_first_start_that_was_interrupted(directory: Path) -> None:
    # given what a kill in the middle of the first start leaves
    unfinished = directory / "postgres" / "data.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    # when it starts, then it answers
    with PostgresServer(directory / "postgres") as server:
        assert server.query("SELECT 1") == "1"


def test_postgres_refuses_data_of_another_version_in_one_line(directory: Path) -> None:
    server = PostgresServer(directory / "postgres")
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(StartFailed, match="written by version 17, this is 18") as refused:
        server.start()
    assert "\n" not in str(refused.value)


def test_postgres_reports_a_refused_statement(directory: Path) -> None:
    with PostgresServer(directory / "postgres") as server, pytest.raises(LocalServerError, match="does not exist"):
        server.query("SELECT * FROM nowhere")


def test_valkey_keeps_written_keys_through_stop_and_kill(directory: Path) -> None:
    server = ValkeyServer(directory / "valkey").start()
    try:
        # given a key before a clean stop
        with valkey.Valkey.from_url(server.url) as client:
            client.set("stopped", "1")
        server.stop()
        server.start()
        # and one that is on the disk before a kill
        with valkey.Valkey.from_url(server.url) as client:
            client.set("killed", "1")
            assert client.waitaof(1, 0, 3000)[0] == 1
        server.kill()
        server.start()
        # then both are there
        with valkey.Valkey.from_url(server.url) as client:
            assert client.mget("stopped", "killed") == [b"1", b"1"]
    finally:
        server.stop()


def test_valkey_paused_answers_nothing_until_resumed(directory: Path) -> None:
    with ValkeyServer(directory / "valkey") as server:
        client = valkey.Valkey.from_url(server.url, socket_timeout=0.2, retry=None)
        client.ping()
        server.pause()
        with pytest.raises(valkey.TimeoutError):
            client.ping()
        server.resume()
        assert valkey.Valkey.from_url(server.url).ping()
