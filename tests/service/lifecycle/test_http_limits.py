"""What a client may do to a connection: headers without end, half a request, trailers, and plain keep-alive.
Run by pytest; raw sockets against a server in the same loop.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from libs.service.http import HttpServer

GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
LIMIT_S = 0.5


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the size of the body."""
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        size += len(message["body"])
        if not message["more_body"]:
            break
    text = b"%d" % size
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    server = HttpServer(echo, "127.0.0.1", 0, **options)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await server.stop()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes; a closing with bytes unread is a reset, which may swallow the answer."""
    got = b""
    try:
        async with asyncio.timeout(10):
            while piece := await reader.read(65536):
                got += piece
    except ConnectionError:
        pass
    return got


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The body of one answer."""
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return await reader.readexactly(length)


async def pour(writer: asyncio.StreamWriter, piece: bytes, most: int) -> int:
    """Send ``piece`` again and again; the bytes it took until the server closed, at most ``most``."""
    sent = 0
    try:
        while sent < most and not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize("piece", [b"a" * 60_000, b"a: b\r\n" * 10_000], ids=["one", "many"])
async def test_headers_without_end_close_the_connection(piece: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(GET + b"x: ")
        assert await pour(writer, piece, 64 * 2**20) < 32 * 2**20
        assert (await all_of(reader))[:12] in (b"", b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "head",
    [GET + b"x: " + b"a" * 70_000, GET + b"a: b\r\n" * 10_000, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x"],
    ids=["long header", "many headers", "long path"],
)
async def test_a_complete_head_above_the_limits_gets_400(head: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(head.rstrip() + b"\r\n\r\n")
        got = await all_of(reader)
        assert got.startswith(b"HTTP/1.1 400") and b"connection: close" in got


async def test_headers_within_the_limits_are_served() -> None:
    async with connected() as (reader, writer):
        writer.write(GET + b"x: " + b"a" * 60_000 + b"\r\n\r\n")
        assert await answer(reader) == b"0"
        writer.write(GET + b"".join(b"x%d: a\r\n" % n for n in range(200)) + b"\r\n")
        assert await answer(reader) == b"0"


@pytest.mark.parametrize("piece", [b"a" * 60_000, b"a: b\r\n" * 10_000], ids=["one", "many"])
async def test_trailers_without_end_close_the_connection(piece: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(POST + b"1\r\na\r\n0\r\nx: ")
        assert await pour(writer, piece, 64 * 2**20) < 32 * 2**20
        assert b"HTTP/1.1 200" not in await all_of(reader)


async def test_bodies_are_not_headers() -> None:
    async with connected() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n")
        for _ in range(30):
            writer.write(b"a" * 100_000)
            await writer.drain()
        assert await answer(reader) == b"3000000"
        writer.write(POST)
        for _ in range(2_000):
            writer.write(b"64\r\n" + b"a" * 100 + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        assert await answer(reader) == b"200000"
        # The next head in two pieces, right behind a body larger than a head may be.
        writer.write(GET[:-5])
        await asyncio.sleep(0.05)
        writer.write(GET[-5:] + b"\r\n")
        assert await answer(reader) == b"0"


@pytest.mark.parametrize("opening", [b"", b"GET / HT", GET + b"x: "], ids=["nothing", "half a line", "half a header"])
async def test_a_head_not_complete_in_time_closes_the_connection(opening: bytes) -> None:
    async with connected(head_s=LIMIT_S) as (reader, writer):
        writer.write(opening)
        started = time.monotonic()
        assert await all_of(reader) == b""
        assert LIMIT_S <= time.monotonic() - started < 8


async def test_dripping_does_not_buy_time() -> None:
    async with connected(head_s=LIMIT_S) as (reader, writer):
        writer.write(GET + b"\r\n")
        assert await answer(reader) == b"0"
        writer.write(GET)

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b"a: b\r\n")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert await all_of(reader) == b""
        dripping.cancel()


async def test_empty_lines_between_requests_do_not_keep_a_connection_open() -> None:
    async with connected(head_s=LIMIT_S) as (reader, writer):
        writer.write(GET + b"\r\n")
        assert await answer(reader) == b"0"
        writer.write(b"\r\n")
        assert await all_of(reader) == b""


async def test_idle_connections_and_slow_bodies_outlive_the_time_of_a_head() -> None:
    async with connected(head_s=LIMIT_S, timeout_keep_alive=75) as (reader, writer):
        writer.write(GET + b"\r\n")
        assert await answer(reader) == b"0"
        await asyncio.sleep(2.5)
        writer.write(POST + b"1\r\na\r\n")
        await asyncio.sleep(2.5)
        writer.write(b"1\r\nb\r\n0\r\n\r\n")
        assert await answer(reader) == b"2"
        writer.write(GET + b"\r\n" + GET + b"\r\n")
        assert [await answer(reader), await answer(reader)] == [b"0", b"0"]
