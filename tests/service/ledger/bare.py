"""The ledger without Kafka and router, in a process of its own: what load and kill tests run against.

Started by processes.py as ``python -m tests.service.ledger.bare DSN PORT [--ttl S]``; prints its port when ready.
"""

import argparse
import asyncio
import signal
from typing import Any

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from kenari.ledger.v1 import ledger_pb2_grpc
from pydantic import SecretStr

from libs.core.clock import SystemClock
from libs.core.pricing import Price
from libs.core.settings import DatabaseSettings, OpsSettings, RpcSettings
from libs.db.database import Database
from libs.ops.telemetry import Telemetry
from libs.rpc.server import RpcServer
from libs.service.component import Periodic
from libs.service.service import Service
from services.ledger.jobs import Jobs
from services.ledger.prices import Prices
from services.ledger.reads import Reads
from services.ledger.rpc import NAME, LedgerRpc
from services.ledger.service import Ledger
from services.ledger.settings import LedgerSettings, QueueSettings
from services.ledger.store import Store

SECRET = "descriptors of the tests"


class NoRouter:
    """A router that has never heard of any price."""

    async def price(self, version: str) -> Price | None:
        return None


def settings(dsn: str, port: int = 0, **values: Any) -> LedgerSettings:
    """Settings of a ledger on loopback."""
    return LedgerSettings(
        database=DatabaseSettings(dsn=SecretStr(dsn)),
        rpc=RpcSettings(port=port),
        ops=OpsSettings(port=0),
        descriptor_secret=SecretStr(SECRET),
        **values,
    )


async def run(dsn: str, port: int, ttl_s: float, shards: int) -> None:
    chosen = settings(dsn, port, hold_ttl_s=ttl_s, queue=QueueSettings(shards=shards))
    telemetry = Telemetry("ledger", chosen.telemetry)
    service = Service("ledger", chosen, chosen.ops, telemetry)
    database = service.add(Database(chosen.database, telemetry, statement_ms=2_000, lock_ms=500))
    store = Store(database, SystemClock())
    ledger = service.add(Ledger(database, store, Prices(store, NoRouter(), telemetry), chosen, telemetry))
    jobs = Jobs(store, database, chosen.keep, SystemClock(), telemetry)
    service.add(Periodic("sweep", 0.5, jobs.sweep, telemetry))
    server = service.add(RpcServer(chosen.rpc, telemetry))
    server.register(
        ledger_pb2_grpc.add_LedgerServicer_to_server,
        LedgerRpc(ledger, Reads(database), telemetry),
        NAME,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await service.start()
    print(server.port, flush=True)
    await stop.wait()
    await service.stop()


if __name__ == "__main__":
    import uvloop

    parser = argparse.ArgumentParser()
    parser.add_argument("dsn")
    parser.add_argument("port", type=int)
    parser.add_argument("--ttl", type=float, default=120.0)
    parser.add_argument("--shards", type=int, default=2)
    options = parser.parse_args()
    uvloop.run(run(options.dsn, options.port, options.ttl, options.shards))
