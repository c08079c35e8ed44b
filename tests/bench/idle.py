"""`python -m tests.bench idle`: what a stream costs in memory whose provider says one word and then nothing.
Called by tests.bench.__main__; prints figures and writes no file.
"""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

from tests.bench import report
from tests.bench.gateway import Gateway, start_gateway
from tests.bench.load import CHAT, MESSAGES, BenchError
from tests.bench.mock_provider import MODEL
from tests.bench.processes import memory_mib
from tests.bench.servers import SilentProvider

RESPONSES = "/v1/responses"
_BODIES = {
    CHAT: {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64},
    MESSAGES: {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64},
    RESPONSES: {"input": "Hello", "max_output_tokens": 64},
}
_AT_ONCE = 50
_WARM_UP = 100
_FIRST_WORD = b"tok0"
_PATIENCE_S = 60

_Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def run(streams: int, work: Path) -> None:
    """Open `streams` streams of each client format, one format after another, and print KiB a stream by process.

    Raises BenchError when a stream does not begin. `work`: directory for the provider's log.
    """
    with ExitStack() as stack:
        provider = stack.enter_context(SilentProvider(work / "silent"))
        gateway = start_gateway(provider.api_url, MODEL)
        stack.callback(gateway.stop)
        grown = asyncio.run(_measure(gateway, streams))
    print(f"\nKiB for each of {streams} idle streams, shared pages shared out")
    print(report.by_process(grown, digits=1))


async def _measure(gateway: Gateway, streams: int) -> dict[str, dict[str, float]]:
    clients: list[_Client] = []
    grown: dict[str, dict[str, float]] = {}
    try:
        for path in _BODIES:
            clients += await _open_all(gateway, path, _WARM_UP)
        for path in _BODIES:
            before = memory_mib(gateway.pids_by_name)
            clients += await _open_all(gateway, path, streams)
            after = memory_mib(gateway.pids_by_name)
            grown[path] = {name: (mib - before[name]) * 1024 / streams for name, mib in after.items()}
    finally:
        for _, writer in clients:
            writer.transport.abort()
    return grown


async def _open_all(gateway: Gateway, path: str, streams: int) -> list[_Client]:
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> _Client:
        async with at_once:
            return await _open(gateway, path, gateway.keys[number % len(gateway.keys)])

    return await asyncio.gather(*(one(number) for number in range(streams)))


async def _open(gateway: Gateway, path: str, key: str) -> _Client:
    """A stream that has brought its first word."""
    host, _, port = gateway.base_url.removeprefix("http://").partition(":")
    body = json.dumps({"model": gateway.paid_model, "stream": True, **_BODIES[path]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await reader.readuntil(_FIRST_WORD)
    except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
        writer.transport.abort()
        raise BenchError(f"a stream of {path} did not begin: {error!r}") from error
    return reader, writer
