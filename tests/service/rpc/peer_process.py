"""A limiter-shaped peer as a process of its own, for tests that kill or freeze it.
Run by test_lost_peer.py: ``python -m tests.service.rpc.peer_process PORT DELAY_S``.
"""

import asyncio
import sys

import libs  # noqa: F401  # puts the generated code on the path
from libs.core.settings import RpcSettings
from libs.rpc.checks import Ask
from libs.rpc.server import RpcServer
from tests.service.rpc.conftest import NAME, Servicer, allow, answer_all, telemetry


async def serve(port: int, delay_s: float) -> None:
    from kenari.limiter.v1 import limiter_pb2_grpc

    async def handle(asks: list[Ask]) -> None:
        await asyncio.sleep(delay_s)
        await answer_all(asks)

    reporting = telemetry()
    server = RpcServer(RpcSettings(port=port), reporting)
    server.register(limiter_pb2_grpc.add_LimiterServicer_to_server, Servicer(reporting, allow, handle), NAME)
    await server.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
