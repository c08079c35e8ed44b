"""Reserve and settle as fast as the ledger answers: ``python -m tests.service.ledger.load [--seconds 5]``.

Run by people. Starts its own PostgreSQL (fsync on) and one bare ledger; prints requests per second (a request is
one Reserve and one Settle), latency of Reserve, and CPU per request of the ledger and of PostgreSQL.
"""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
import asyncpg
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from deploy.local import PostgresServer
from libs.core.errors import Transient
from libs.core.ids import uuid7_hex
from libs.core.settings import TelemetrySettings
from libs.db.migrate import folders, migrate
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from libs.rpc.client import RpcClient
from tests.service.ledger.processes import LedgerProcess, connected, cpu_s, family_cpu_s

PRICE = "load-price"
BALANCE = 10**15


async def _prepare(dsn: str, accounts: list[str]) -> None:
    await migrate(dsn, folders()["ledger"])
    conn = await asyncpg.connect(dsn)
    await conn.execute("insert into price_version values ($1, 2000000000, 8000000000, null, null)", PRICE)
    await conn.execute("insert into wallet (account_id, paid) select unnest($1::text[]), $2", accounts, BALANCE)
    await conn.close()


async def _worker(checks: CheckClient, accounts: list[str], until: float, waits: list[float]) -> int:
    done = 0
    while time.monotonic() < until:
        request_id, account = uuid7_hex(), random.choice(accounts)
        started = time.perf_counter()
        try:
            answer = await checks.ask(
                "reserve",
                ledger_pb2.ReserveRequest(
                    request_id=request_id,
                    account_id=account,
                    key_id="key_" + "0" * 32,
                    endpoint="chat",
                    model="sim-1",
                    vendor="Simulated",
                    price_version=PRICE,
                    estimated_input_tokens=100,
                    max_tokens=500,
                ),
                5.0,
            )
            waits.append(time.perf_counter() - started)
            await checks.ask(
                "settle",
                ledger_pb2.SettleRequest(
                    request_id=request_id,
                    account_id=account,
                    key_id="key_" + "0" * 32,
                    endpoint="chat",
                    model="sim-1",
                    vendor="Simulated",
                    price_version=PRICE,
                    billing_kind="payg",
                    outcome=ledger_pb2.OUTCOME_COMPLETED,
                    prompt_tokens=100,
                    completion_tokens=50,
                    descriptor=answer.granted.descriptor,
                    started_at_ms=int(time.time() * 1000),
                ),
                5.0,
            )
        except Transient as error:
            raise SystemExit(f"the ledger did not answer: {error}") from error
        done += 1
    return done


async def _measure(
    ledger: LedgerProcess, postgres: PostgresServer, accounts: list[str], workers: int, seconds: float
) -> str:
    telemetry = Telemetry("load", TelemetrySettings())
    rpc = RpcClient(f"127.0.0.1:{ledger.port}", telemetry, deadline_s=5.0)
    stub = ledger_pb2_grpc.LedgerStub(rpc.channel)
    checks = CheckClient("ledger", stub.CheckStream, ledger_pb2.CheckBatch, ledger_pb2.CheckItem, telemetry)
    await checks.start()
    await connected(checks)
    waits: list[float] = []
    await asyncio.gather(*(_worker(checks, accounts, time.monotonic() + 1.0, []) for _ in range(workers)))
    cpu = cpu_s(ledger.pid), family_cpu_s(postgres.pid)
    started = time.monotonic()
    counts = await asyncio.gather(*(_worker(checks, accounts, started + seconds, waits) for _ in range(workers)))
    took, done = time.monotonic() - started, sum(counts)
    used = cpu_s(ledger.pid) - cpu[0], family_cpu_s(postgres.pid) - cpu[1]
    await checks.stop()
    await rpc.stop()
    waits.sort()
    return (
        f"{len(accounts):>5} accounts {workers:>4} at once: {done / took:>6.0f} requests/s,"
        f" Reserve p50 {waits[len(waits) // 2] * 1e3:.1f} ms p99 {waits[int(len(waits) * 0.99)] * 1e3:.1f} ms,"
        f" CPU ledger {used[0] / done * 1e3:.3f} ms PostgreSQL {used[1] / done * 1e3:.3f} ms"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 16, 64])
    options = parser.parse_args()
    accounts = [f"acct_{number:032x}" for number in range(1_000)]
    with tempfile.TemporaryDirectory() as directory, PostgresServer(Path(directory)) as postgres:
        postgres.create_databases(["ledger"])
        await _prepare(postgres.dsn("ledger"), accounts)
        ledger = LedgerProcess(postgres.dsn("ledger"), shards=options.shards)
        ledger.start()
        try:
            for some in (accounts[:1], accounts):
                for workers in options.workers:
                    print(await _measure(ledger, postgres, some, workers, options.seconds), flush=True)
        finally:
            ledger.stop()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())
