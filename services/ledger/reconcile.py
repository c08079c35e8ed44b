"""Checks the whole books on the live database, reading only: ``python -m services.ledger.reconcile``.

Run by operators (also as ``make reconcile``) and by tests. Exits 1 when an invariant is broken, 2 when the
database cannot be read.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from pydantic import SecretStr

from libs.core.errors import ConfigError, KenariError
from libs.core.settings import DatabaseSettings, TelemetrySettings
from libs.db.database import Database
from libs.ops.telemetry import Telemetry
from services.ledger.invariants import check

_DSN = "LEDGER_DATABASE__DSN"


async def reconcile(dsn: str) -> bool:
    """Print each invariant with OK or the rows that break it; return whether all hold."""
    database = Database(
        DatabaseSettings(dsn=SecretStr(dsn), pool_max=1), Telemetry("ledger-reconcile", TelemetrySettings())
    )
    await database.start()
    sound = True
    try:
        async for invariant, rows in check(database, quick=False):
            print(f"{'BROKEN' if rows else 'OK':<7} {invariant.name:<20} {invariant.rule}")
            for row in rows:
                print("        " + ", ".join(f"{name}={value}" for name, value in row.items()))
            sound = sound and not rows
    finally:
        await database.stop()
    return sound


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m services.ledger.reconcile", description=__doc__)
    parser.add_argument("--dsn", default=os.environ.get(_DSN), help=f"the ledger's database; default {_DSN}")
    options = parser.parse_args(arguments)
    try:
        if not options.dsn:
            raise ConfigError(f"{_DSN} is not set (or pass --dsn)")
        return 0 if asyncio.run(reconcile(options.dsn)) else 1
    except KenariError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
