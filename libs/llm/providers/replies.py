"""What all provider formats do alike around one call: its headers and waits, bad statuses, size limits, the read loop.

Called by the adapters beside this module; what differs between formats comes in as functions and decoders.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol, TypeAlias

from libs.core.clock import Clock
from libs.llm.canonical import Answer, FinishReason, StreamEvent, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.base import Target, Told
from libs.llm.providers.rejections import failure_of
from libs.llm.transport import Call, Reply, Transport

_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 256 * 1024
_NOT_A_STREAM = ("application/json", "text/html")

ReadFailure: TypeAlias = Callable[[int, Mapping[str, str], bytes, Clock], ProviderFailure]
"""Reads an answer with an error status: the status, its headers and its body, which may be anything."""


class Decoder(Protocol):
    """State of one stream. ``feed`` and ``end`` never raise: a failure waits in ``failure`` until what came
    before it has been handed on. ``done``: the format's last event came, and ``Finish`` was given out.
    """

    failure: ProviderFailure | None
    done: bool

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        ...

    def end(self) -> list[StreamEvent]:
        """The body is over."""
        ...

    def reported(self) -> Usage | None:
        """The usage, once the provider has told all of it."""
        ...


def call_of(target: Target, path: str, body: bytes, headers: Mapping[str, str], *, stream: bool) -> Call:
    """A call with the headers every format sends; ``headers`` adds the format's own, its credential among them."""
    common = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if stream else "application/json",
        "Accept-Encoding": "identity",
    }
    return Call(
        base_url=target.base_url,
        path=path,
        body=body,
        headers=common | dict(headers),
        connect_s=target.connect_s,
        first_byte_s=target.first_byte_s,
        idle_s=target.idle_s,
        content_s=target.content_s,
    )


async def whole(
    transport: Transport,
    call: Call,
    clock: Clock,
    read: Callable[[bytes], Answer],
    read_failure: ReadFailure = failure_of,
) -> Answer:
    """Send ``call`` and read its answer with ``read``; every failure is a ``ProviderFailure``."""
    async with transport.send(call) as reply:
        await _check(reply, clock, read_failure)
        return read(await reply.read_all(_MAX_ANSWER_BYTES))


async def streamed(
    transport: Transport,
    call: Call,
    clock: Clock,
    decoder: Decoder,
    read: Callable[[bytes], Answer],
    told: Told | None,
    read_failure: ReadFailure = failure_of,
) -> AsyncGenerator[list[StreamEvent], None]:
    """Send ``call`` and yield what ``decoder`` makes of each read.

    ``read`` is for a provider that sends a whole answer instead: it raises what an error object there means.
    """
    if told is not None:
        told.usage = decoder.reported
    said_nothing = _SaidNothing(call.content_s)
    async with transport.send(call) as reply:
        await _check(reply, clock, read_failure)
        if reply.headers.get("content-type", "").partition(";")[0].strip().lower() in _NOT_A_STREAM:
            read(await reply.read_all(_MAX_ANSWER_BYTES))
            raise ProviderFailure(FailureKind.JUNK, status=reply.status, detail="not a stream")
        while not decoder.done:
            data = await reply.read()
            events = decoder.feed(data) if data else decoder.end()
            if decoder.done:
                reply.ended()
            if events:
                said_nothing.over()
                yield events
            if decoder.failure is not None:
                raise decoder.failure
            if not events:
                said_nothing.goes_on()


class _SaidNothing:
    """The time in which bytes came but no event, before the first one counted from the call's start.

    Later it counts from the first such read: while the client takes its time, nobody looks what comes.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._since: float | None = time.monotonic()
        self._kind = FailureKind.TIMEOUT

    def over(self) -> None:
        """An event came."""
        self._since = None
        self._kind = FailureKind.INTERRUPTED

    def goes_on(self) -> None:
        """A read brought none; raises ``ProviderFailure`` when that has lasted too long."""
        if self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > self._longest_s:
            raise ProviderFailure(self._kind, status=200, detail="bytes without content")


def junk(detail: str) -> ProviderFailure:
    """The failure of a 200 whose content is not in the provider's format."""
    return ProviderFailure(FailureKind.JUNK, status=200, detail=detail)


def settled_reason(reason: FinishReason, usage: Usage | None, max_tokens: int, *, said: bool) -> FinishReason:
    """A stop without a word is a cut-off when thinking used up the limit (contract: Small max_tokens).

    ``said``: the answer holds text or a call.
    """
    if reason is FinishReason.STOP and not said and usage is not None and usage.completion >= max_tokens:
        return FinishReason.LENGTH
    return reason


async def _check(reply: Reply, clock: Clock, read_failure: ReadFailure) -> None:
    """Raise what an answer other than 200 means."""
    if reply.status == 200:
        return
    try:
        body = await reply.read_all(_MAX_ERROR_BYTES)
    except ProviderFailure:
        body = b""  # the status alone must do
    raise read_failure(reply.status, reply.headers, body, clock)
