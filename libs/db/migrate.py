"""Brings a database's schema up to date: ``python -m libs.db.migrate ledger|all [--dsn postgresql://...]``.

Run by an operator, by the launcher and by tests, never by a starting service. Files are
services/<name>/migrations/NNNN_name.sql, applied once each, in order, each in one transaction.
"""

import argparse
import asyncio
import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from libs.core.errors import ConfigError
from libs.core.retry import backoff

SERVICES = Path(__file__).resolve().parents[2] / "services"
_NAME = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
# Of all advisory locks of a database, the one of its migrations.
_LOCK = 0x6B656E617269
_CONNECT_TRIES = 10


async def migrate(dsn: str, folder: Path) -> list[str]:
    """Apply what is missing of the folder's files; return their names.

    Several runs at once take turns. Raises ConfigError when an applied file has changed or gone, when one does
    not apply, or when the database cannot be reached.
    """
    files = _read(folder)
    conn = await _connect(dsn)
    try:
        await conn.execute("select pg_advisory_lock($1)", _LOCK)
        await conn.execute(
            "create table if not exists schema_migration ("
            "name text primary key, checksum text not null, applied_at timestamptz not null default now())"
        )
        rows = await conn.fetch("select name, checksum from schema_migration")
        applied = {row["name"]: row["checksum"] for row in rows}
        _compare(applied, files)
        missing = [name for name in files if name not in applied]
        for name in missing:
            await _apply(conn, name, files[name])
        return missing
    finally:
        await conn.close()


def _read(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def _compare(applied: dict[str, str], files: dict[str, str]) -> None:
    for name, checksum in applied.items():
        if name not in files:
            raise ConfigError(f"migration {name} was applied to this database but its file is gone")
        if _checksum(files[name]) != checksum:
            raise ConfigError(f"migration {name} was changed after it was applied; write a new one instead")
    newest = max(applied, default="")
    for name in files:
        if name not in applied and name < newest:
            raise ConfigError(f"migration {name} comes before {newest}, which is applied; number it after that")


async def _apply(conn: Any, name: str, text: str) -> None:
    try:
        async with conn.transaction():
            # A change that cannot get its lock soon must not make everybody else queue behind it.
            await conn.execute("set local lock_timeout = '5s'")
            await conn.execute(text)
            await conn.execute("insert into schema_migration (name, checksum) values ($1, $2)", name, _checksum(text))
    except asyncpg.PostgresError as error:
        raise ConfigError(f"migration {name} does not apply: {error}") from error


async def _connect(dsn: str) -> Any:
    waits = backoff(0.1, 2.0)
    for left in range(_CONNECT_TRIES - 1, -1, -1):
        try:
            return await asyncpg.connect(dsn, timeout=5.0, server_settings={"timezone": "UTC"})
        except (OSError, asyncpg.CannotConnectNowError, TimeoutError) as error:
            if not left:
                raise ConfigError(f"the database does not answer: {error}") from error
            await asyncio.sleep(next(waits))
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            raise ConfigError(f"cannot connect to the database: {error}") from error
    raise AssertionError("unreachable")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def folders() -> dict[str, Path]:
    """Services with migrations and where these lie."""
    found = sorted(SERVICES.glob("*/migrations"))
    return {folder.parent.name: folder for folder in found if any(folder.glob("*.sql"))}


def _dsn(service: str, given: str | None) -> str:
    variable = f"{service.upper()}_DATABASE__DSN"
    dsn = given or os.environ.get(variable)
    if not dsn:
        raise ConfigError(f"{variable} is not set (or pass --dsn)")
    return dsn


async def _run(service: str, dsn: str | None) -> None:
    names = list(folders()) if service == "all" else [service]
    for name in names:
        applied = await migrate(_dsn(name, dsn), folders()[name])
        print(f"{name}: {', '.join(applied) if applied else 'up to date'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m libs.db.migrate", description=__doc__)
    parser.add_argument("service", choices=[*folders(), "all"])
    parser.add_argument("--dsn", help="address of the service's database; default <SERVICE>_DATABASE__DSN")
    options = parser.parse_args(arguments)
    if options.service == "all" and options.dsn:
        parser.error("--dsn names one database; with all, set <SERVICE>_DATABASE__DSN for each")
    try:
        asyncio.run(_run(options.service, options.dsn))
    except ConfigError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
