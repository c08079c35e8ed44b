"""Migrations: each once, in order, never changed afterwards; and the tests that lie beside them."""

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest

from libs.core.errors import ConfigError
from libs.db.migrate import folders, main, migrate
from tests.support.stack import Postgres


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_first.sql").write_text("create table first (id integer);")
    (tmp_path / "0001_first.test.sql").write_text("select 1 / 0;")
    (tmp_path / "0002_second.sql").write_text("alter table first add column more text;")
    (tmp_path / "notes.txt").write_text("not a migration")
    return tmp_path


async def test_each_file_is_applied_once(postgres: Postgres, folder: Path) -> None:
    dsn = await postgres.database()

    assert await migrate(dsn, folder) == ["0001_first.sql", "0002_second.sql"]
    assert await migrate(dsn, folder) == []

    (folder / "0003_third.sql").write_text("drop table first;")
    assert await migrate(dsn, folder) == ["0003_third.sql"]


async def test_runs_at_the_same_time_take_turns(postgres: Postgres, folder: Path) -> None:
    dsn = await postgres.database()

    applied = await asyncio.gather(*(migrate(dsn, folder) for _ in range(4)))

    assert sorted(len(names) for names in applied) == [0, 0, 0, 2]


async def test_a_file_that_fails_leaves_the_schema_as_it_was(postgres: Postgres, folder: Path) -> None:
    dsn = await postgres.database()
    (folder / "0002_second.sql").write_text("create table kept (id integer); select 1 / 0;")

    with pytest.raises(ConfigError, match=r"0002_second.sql does not apply: division by zero"):
        await migrate(dsn, folder)

    conn = await asyncpg.connect(dsn)
    assert await conn.fetchval("select to_regclass('kept')") is None
    assert await conn.fetchval("select count(*) from schema_migration") == 1
    await conn.close()


async def test_an_applied_file_may_not_change_vanish_or_be_preceded(postgres: Postgres, folder: Path) -> None:
    dsn = await postgres.database()
    await migrate(dsn, folder)

    (folder / "0000_before.sql").write_text("select 1;")
    with pytest.raises(ConfigError, match="comes before"):
        await migrate(dsn, folder)
    (folder / "0000_before.sql").unlink()
    text = (folder / "0001_first.sql").read_text()
    (folder / "0001_first.sql").write_text(text + " ")
    with pytest.raises(ConfigError, match="was changed"):
        await migrate(dsn, folder)
    (folder / "0001_first.sql").unlink()
    with pytest.raises(ConfigError, match="is gone"):
        await migrate(dsn, folder)


async def test_the_command_says_what_it_did_or_what_is_missing(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = await postgres.database()
    monkeypatch.delenv("LEDGER_DATABASE__DSN", raising=False)
    assert await asyncio.to_thread(main, ["ledger"]) == 2
    assert "LEDGER_DATABASE__DSN is not set" in capsys.readouterr().err

    assert await asyncio.to_thread(main, ["ledger", "--dsn", dsn]) == 0
    assert "0001_" in capsys.readouterr().out
    monkeypatch.setenv("LEDGER_DATABASE__DSN", dsn)
    assert await asyncio.to_thread(main, ["ledger"]) == 0
    assert capsys.readouterr().out == "ledger: up to date\n"


async def test_a_wrong_password_is_one_clear_line(postgres: Postgres, capsys: pytest.CaptureFixture[str]) -> None:
    dsn = re.sub(r":[^:@]+@", ":wrong@", await postgres.database())

    assert await asyncio.to_thread(main, ["ledger", "--dsn", dsn]) == 2
    assert "password authentication failed" in capsys.readouterr().err


CHECKS = sorted(path for made in folders().values() for path in made.glob("*.test.sql"))


@pytest.mark.parametrize("service", folders())
async def test_the_checks_beside_the_migrations_hold(postgres: Postgres, service: str) -> None:
    dsn = await postgres.database(folders()[service])
    conn = await asyncpg.connect(dsn)
    for path in (path for path in CHECKS if path.parent.parent.name == service):
        transaction = conn.transaction()
        await transaction.start()
        try:
            await conn.execute(path.read_text())
        except asyncpg.PostgresError as error:
            pytest.fail(f"{path.name}: {error}")
        finally:
            await transaction.rollback()
    await conn.close()
