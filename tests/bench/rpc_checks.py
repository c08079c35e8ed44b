"""What one question to a peer costs: a check stream at several numbers in flight, and a unary call beside it.
Run by hand: ``python -m tests.bench.rpc_checks``; ``--profile`` shows where the asking end spends its time.
"""

import argparse
import asyncio
import cProfile
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

import libs  # noqa: F401  # puts the generated code on the path
from libs.core.settings import RpcSettings, TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import Tracing
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer
from tests.service.rpc.conftest import NAME, Peer, Servicer, allow, answer_all, check_client, telemetry, wait_until

SECONDS = 3.0


async def serve() -> None:
    """The answering end, which answers at once; says its port and then waits."""
    from kenari.limiter.v1 import limiter_pb2_grpc

    reporting = telemetry()
    server = RpcServer(RpcSettings(port=0), reporting)
    server.register(limiter_pb2_grpc.add_LimiterServicer_to_server, Servicer(reporting, allow, answer_all), NAME)
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


def cpu_ms_of(pid: int) -> float:
    """CPU time of another process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 10.0


def own_cpu_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1000


async def measure(name: str, one: Callable[[], Awaitable[object]], in_flight: int, server: int) -> None:
    """Keep ``in_flight`` questions going for a while and print what each cost."""
    waits: list[float] = []
    ends = time.perf_counter() + SECONDS

    async def go() -> None:
        while (began := time.perf_counter()) < ends:
            await one()
            waits.append(time.perf_counter() - began)

    asking, answering = own_cpu_ms(), cpu_ms_of(server)
    await asyncio.gather(*(go() for _ in range(in_flight)))
    asking, answering = own_cpu_ms() - asking, cpu_ms_of(server) - answering
    waits.sort()
    count = len(waits)
    print(
        f"{name:7} {in_flight:3} in flight: {count / SECONDS:8,.0f}/s  CPU-ms asking {asking / count:.4f}"
        f" answering {answering / count:.4f} both {(asking + answering) / count:.4f}"
        f"  p50 {waits[count // 2] * 1000:.2f} ms p99 {waits[count * 99 // 100] * 1000:.2f} ms"
    )


async def ask(port: int, pid: int, profile: cProfile.Profile | None) -> None:
    rpc = RpcClient(f"127.0.0.1:{port}", telemetry(), deadline_s=5.0)
    checks = check_client(rpc)
    await checks.start()
    await wait_until(lambda: checks.problem() is None)
    there = Peer(None, rpc, checks)  # type: ignore[arg-type]
    await measure("warm-up", lambda: there.ask(1), 16, pid)
    for in_flight in (1, 16, 64):
        await measure("stream", lambda: there.ask(1), in_flight, pid)
        await measure("unary", lambda: there.admit(1), in_flight, pid)
    if profile is not None:
        profile.enable()
        await measure("profile", lambda: there.ask(1), 64, pid)
        profile.disable()
    await checks.stop()
    await rpc.stop()


def spans() -> None:
    """What a span costs that is not recorded."""
    off = Tracing("bench", TelemetrySettings())
    on = Telemetry("bench", TelemetrySettings(trace_file=Path("/dev/null"))).tracing
    unsampled = f"00-{'a' * 32}-{'b' * 16}-00"
    for name, tracing, parent in (("no exporter", off, ""), ("no parent", on, ""), ("not sampled", on, unsampled)):
        began = time.perf_counter()
        for _ in range(100_000):
            with tracing.span("bench", parent=parent):
                pass
        print(f"span, {name:12} {(time.perf_counter() - began) * 10:.2f} us")
    on.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    spans()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.rpc_checks", "--serve"], stdout=subprocess.PIPE, text=True
    )
    profile = cProfile.Profile() if options.profile else None
    try:
        assert server.stdout is not None
        uvloop.run(ask(int(server.stdout.readline()), server.pid, profile))
    finally:
        server.kill()
        server.communicate()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
