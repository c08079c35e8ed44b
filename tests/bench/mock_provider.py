"""A provider that answers at once: what is left of a request's time and CPU is the gateway's own.
Started as a program by tests.bench.servers; needs nothing of the project, and uvloop.

    python mock_provider.py --port 9901 [--chunks 20] [--delay-ms 0]

Answers `POST */chat/completions` in the OpenAI format: one JSON document, or with `"stream": true` that many
content chunks, a finish chunk with usage, and `[DONE]`. Every chunk is a write of its own in a later turn of the
loop, as real providers' chunks come one by one. All answers are encoded once at start.
"""

import argparse
import asyncio
import json
import socket
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import uvloop

MODEL = "mock-model"
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_USAGE = {"prompt_tokens": 12, "completion_tokens": 20, "total_tokens": 32}


@dataclass(frozen=True, slots=True)
class Answers:
    """Ready bytes: `plain` is one whole HTTP answer, `stream` the writes that make up another."""

    plain: bytes
    stream: list[bytes]


def _http(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _document(kind: str, choice: dict[str, Any], usage: dict[str, int] | None) -> bytes:
    document: dict[str, Any] = {
        "id": "chatcmpl-mock0001",
        "object": kind,
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [{"index": 0, **choice}],
    }
    if usage is not None:
        document["usage"] = usage
    return json.dumps(document, separators=(",", ":")).encode()


def _event(delta: dict[str, str], finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    choice = {"delta": delta, "finish_reason": finish}
    return b"data: " + _document("chat.completion.chunk", choice, usage) + b"\n\n"


def make_answers(chunks: int) -> Answers:
    """Encode the two answers; the stream has `chunks` content chunks `tok0 `, `tok1 `, ..."""
    message = {"role": "assistant", "content": "Hello from the mock provider."}
    plain = _document("chat.completion", {"message": message, "finish_reason": "stop"}, _USAGE)
    events = [_event({"role": "assistant", "content": "tok0 "})]
    events += [_event({"content": f"tok{n} "}) for n in range(1, chunks)]
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    writes = [_chunk(event) for event in events]
    writes.append(_chunk(_event({}, "stop", _USAGE) + b"data: [DONE]\n\n") + b"0\r\n\r\n")
    return Answers(_http(plain), [head + writes[0], *writes[1:]])


class Connection(asyncio.Protocol):
    """One client: keep-alive and pipelining, a request being answered before the next is looked at."""

    __slots__ = ("_buffer", "_streaming", "_transport")

    answers: ClassVar[Answers]
    delay_s: ClassVar[float] = 0.0
    loop: ClassVar[asyncio.AbstractEventLoop]

    _models = _http(b'{"object":"list","data":[{"id":"mock-model","object":"model"}]}')
    _missing = _http(b'{"error":{"message":"no such route"}}', status="404 Not Found")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport: asyncio.Transport | None = cast(asyncio.Transport, transport)
        self._buffer = b""
        self._streaming = False
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._answer_waiting()

    def _answer_waiting(self) -> None:
        while not self._streaming and self._transport is not None:
            request = self._take_request(self._transport)
            if request is None:
                return
            head, body = request
            if not head.startswith(b"POST"):
                self._transport.write(self._models)
            elif b"/chat/completions" not in head[:120]:
                self._transport.write(self._missing)
            elif b'"stream":true' in body or b'"stream": true' in body:
                self._streaming = True
                self._write_chunk(0)
            else:
                self._transport.write(self.answers.plain)

    def _take_request(self, transport: asyncio.Transport) -> tuple[bytes, bytes] | None:
        """Cut the first whole request off the buffer: head and body, or None while it is incomplete."""
        buffer = self._buffer
        end = buffer.find(_END_OF_HEAD)
        if end < 0:
            return None
        head = buffer[:end]
        lower = head.lower()
        start = end + len(_END_OF_HEAD)
        at = lower.find(_LENGTH)
        if at >= 0:
            stop = lower.find(b"\r\n", at + 2)
            total = start + int(lower[at + len(_LENGTH) : stop if stop >= 0 else None])
        elif b"\r\ntransfer-encoding: chunked" in lower:
            stop = buffer.find(b"0\r\n\r\n", end)
            total = stop + 5 if stop >= 0 else len(buffer) + 1
        else:
            total = start
        if len(buffer) < total:
            if b"\r\nexpect: 100-continue" in lower:
                transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        self._buffer = buffer[total:]
        return head, buffer[start:total]

    def _write_chunk(self, number: int) -> None:
        if self._transport is None:
            return
        self._transport.write(self.answers.stream[number])
        number += 1
        if number == len(self.answers.stream):
            self._streaming = False
            self._answer_waiting()
        elif self.delay_s:
            self.loop.call_later(self.delay_s, self._write_chunk, number)
        else:
            self.loop.call_soon(self._write_chunk, number)


async def _serve(port: int, chunks: int, delay_ms: float) -> None:
    Connection.answers = make_answers(chunks)
    Connection.delay_s = delay_ms / 1000
    Connection.loop = asyncio.get_running_loop()
    server = await Connection.loop.create_server(Connection, "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A provider that answers at once")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="pause between chunks")
    options = parser.parse_args()
    uvloop.run(_serve(options.port, options.chunks, options.delay_ms))
