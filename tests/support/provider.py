"""A provider on a real socket that answers exactly as told: whole, in pieces, late, cut, reset or in junk.

Used by tests of the provider adapters and of the edge. In short::

    async with ScriptedProvider() as provider:
        provider.answers(completion("Hello", usage=(12, 9)), stream(delta("Hi"), finish("stop"), usage(3, 1), DONE))
        ... call provider.base_url ...
        assert provider.requests[0].json["model"] == "m"
        await provider.wait_closed()          # the caller has hung up

Each request takes the next answer, and the last one stays; a function in place of one is called with the request.
The steps of a body are bytes (one write each) and ``Pause``, ``Endless``, ``HANG``, ``CUT``, ``RESET``.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from tests.support.script import (
    CUT,
    HANG,
    RESET,
    Answer,
    End,
    Endless,
    Pause,
    Received,
    Scripted,
    Step,
    play,
    read_request,
)

__all__ = [
    "CUT",
    "DONE",
    "HANG",
    "RESET",
    "Answer",
    "End",
    "Endless",
    "Pause",
    "Received",
    "Scripted",
    "ScriptedProvider",
    "Step",
    "chunk",
    "comment",
    "completion",
    "counts",
    "delta",
    "error",
    "event",
    "finish",
    "in_pieces",
    "json_answer",
    "raw",
    "stream",
    "text_answer",
    "unless",
    "usage",
]

# ---- answers


def json_answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Scripted:
    """Any JSON with its length."""
    return text_answer(json.dumps(body), status, {"content-type": "application/json", **(headers or {})})


def text_answer(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Scripted:
    """Any text with its length; HTML unless ``headers`` say otherwise."""
    return Scripted((text.encode(),), status, {"content-type": "text/html", **(headers or {})})


def error(
    status: int, message: str = "vendor text", headers: Mapping[str, str] | None = None, **members: Any
) -> Scripted:
    """An OpenAI-format error; ``members`` are ``type`` and ``code``."""
    return json_answer({"error": {"message": message, **members}}, status, headers)


def completion(
    text: str | None, finish_reason: str = "stop", usage: tuple[int, int] | None = (10, 2), **message: Any
) -> Scripted:
    """A whole answer, with members clients must not see beside it."""
    body: dict[str, Any] = {
        "id": "vendor-1",
        "object": "chat.completion",
        "created": 1,
        "model": "vendor/real-model",
        "system_fingerprint": "fp_vendor",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": finish_reason,
            }
        ],
    }
    if usage is not None:
        body["usage"] = counts(*usage)
    return json_answer(body)


def unless(wrong: Callable[[Any], bool], refusal: Scripted, otherwise: Answer) -> Answer:
    """Refuse requests whose JSON body is ``wrong``, answer the others."""

    def answer(request: Received) -> Scripted:
        if wrong(request.json):
            return refusal
        return otherwise if isinstance(otherwise, Scripted) else otherwise(request)

    return answer


def stream(*steps: Step, headers: Mapping[str, str] | None = None, status: int = 200) -> Scripted:
    """A stream with one write per step."""
    merged = {"content-type": "text/event-stream", **(headers or {})}
    return Scripted(steps, status, merged, chunked=True)


def raw(*steps: Step) -> Scripted:
    """Bare bytes instead of HTTP."""
    return Scripted(steps, head=False)


# ---- steps of a stream

DONE = b"data: [DONE]\n\n"


def delta(content: str | None = None, *, role: str | None = None, **members: Any) -> bytes:
    """A chunk with one delta."""
    said = {"role": role, "content": content}
    return chunk([{"delta": {k: v for k, v in said.items() if v is not None} | members, "finish_reason": None}])


def finish(reason: str = "stop", **members: Any) -> bytes:
    """The chunk with the finish reason; ``usage=(3, 1)`` puts the usage into it."""
    counted = members.pop("usage", None)
    more = {"usage": counts(*counted)} if counted else {}
    return chunk([{"delta": {}, "finish_reason": reason, **members}], **more)


def usage(prompt: int, completion: int, **details: Any) -> bytes:
    """The usage chunk with empty choices."""
    return chunk([], usage=counts(prompt, completion) | details)


def comment(text: str = "") -> bytes:
    return f": {text}\n\n".encode()


def event(data: object, name: str | None = None) -> bytes:
    """Any JSON as one event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def chunk(choices: list[dict[str, Any]], **members: Any) -> bytes:
    """One ``chat.completion.chunk`` of a vendor that tells more than it should."""
    body = {
        "id": "vendor-2",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "vendor/real-model",
        "choices": [{"index": 0, **choice} for choice in choices],
        "provider": "vendor",
        **members,
    }
    return event(body)


def counts(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def in_pieces(data: bytes, size: int) -> list[bytes]:
    """The same bytes in writes of ``size`` bytes."""
    return [data[place : place + size] for place in range(0, len(data), size)]


# ---- the server


class ScriptedProvider:
    """Listens on a free port of 127.0.0.1; plain HTTP/1.1 with keep-alive."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        """Connections ever accepted."""
        self.sent = 0
        """Bytes of bodies ever sent; a caller that does not read stops their growth."""
        self._script: list[Answer] = [completion("ok")]
        self._open: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def answers(self, *script: Answer) -> None:
        """Replace what is left of the script."""
        self._script = list(script)

    async def wait_requests(self, count: int, timeout_s: float = 5.0) -> None:
        """Return once so many requests have come in all."""
        await self._until(lambda: len(self.requests) >= count, timeout_s)

    async def wait_closed(self, timeout_s: float = 5.0) -> None:
        """Return once no connection is open."""
        await self._until(lambda: not self._open, timeout_s)

    async def refuse(self) -> None:
        """Stop listening and drop every connection: callers are refused from now on."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def listen_again(self) -> None:
        """After ``refuse``: take calls again, at the same address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=2048)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()

    def _took(self, size: int) -> None:
        self.sent += size

    async def _until(self, met: Callable[[], bool], timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            while not met():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                self._changed.set()
                answer = self._script.pop(0) if len(self._script) > 1 else self._script[0]
                scripted = answer if isinstance(answer, Scripted) else answer(request)
                if not await play(scripted, reader, writer, self._took):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            self._changed.set()
            writer.close()
