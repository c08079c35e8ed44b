"""What a scripted answer consists of, and how its steps go out on a connection.
Used by ScriptedProvider; tests take the names from ``tests.support.provider``.
"""

import asyncio
import itertools
import json
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Pause:
    """Silence of so many seconds before the next step."""

    seconds: float


@dataclass(frozen=True)
class Endless:
    """The same piece again and again, ``every_s`` seconds apart, as fast as the caller takes it when 0."""

    piece: bytes
    every_s: float = 0.0


class End(Enum):
    """Ends other than the regular one."""

    HANG = auto()  # silence until the caller hangs up
    CUT = auto()  # the connection closes in an orderly way, whatever was promised
    RESET = auto()  # the connection breaks


HANG, CUT, RESET = End.HANG, End.CUT, End.RESET
Step: TypeAlias = bytes | Pause | Endless | End


@dataclass(frozen=True)
class Scripted:
    """One answer. ``head`` false sends the steps bare: no status line, no headers, no framing."""

    steps: tuple[Step, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False
    head: bool = True


@dataclass(frozen=True)
class Received:
    """One request as it came; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer: TypeAlias = Scripted | Callable[[Received], Scripted]
"""One answer, or what makes it of the request it answers."""


async def read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(first.split(" ")[1], headers, body)


async def play(
    answer: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, took: Callable[[int], None]
) -> bool:
    """Send one answer; false when the connection is not to be used again. ``took``: so many bytes are on their way."""
    if answer.head:
        writer.write(_head(answer))
    for step in _repeated(answer.steps):
        match step:
            case bytes():
                writer.write(b"%x\r\n%b\r\n" % (len(step), step) if answer.chunked else step)
                took(len(step))
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case End.HANG:
                await reader.read()
                return False
            case End.CUT:
                return False
            case End.RESET:
                await asyncio.sleep(0.02)  # a reset discards what the caller has not read yet
                _reset(writer)
                return False
        await writer.drain()
        await asyncio.sleep(0)
    if answer.chunked:
        writer.write(b"0\r\n\r\n")
    return answer.head


def _repeated(steps: tuple[Step, ...]) -> Iterator[bytes | Pause | End]:
    for step in steps:
        if isinstance(step, Endless):
            yield from itertools.cycle([step.piece, Pause(step.every_s)] if step.every_s else [step.piece])
        else:
            yield step


def _head(answer: Scripted) -> bytes:
    headers = dict(answer.headers)
    if answer.chunked:
        headers["transfer-encoding"] = "chunked"
    else:
        # An answer that ends otherwise has promised more than comes.
        promised = any(isinstance(step, End | Endless) for step in answer.steps)
        length = sum(len(step) for step in answer.steps if isinstance(step, bytes))
        headers.setdefault("content-length", str(length + promised))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode("latin-1")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
