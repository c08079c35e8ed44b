"""Reads a stream of Gemini: bytes in, the hub's events out.

Called by the adapter, one decoder per stream; pure, and the hot path of every stream.
"""

from msgspec import DecodeError
from msgspec.json import Decoder

from libs.llm.canonical import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.gemini.contents import seal_call
from libs.llm.providers.gemini.wire import NULL, Part, Response, call_id, call_name, finish_reason, usage_of
from libs.llm.providers.replies import junk, settled_reason
from libs.llm.providers.surrogates import SurrogateMender
from libs.llm.providers.template import text_of
from libs.llm.sse import FrameTooLong, SseSplitter

_UNREADABLE = (DecodeError, RecursionError, UnicodeDecodeError)

_decode_chunk = Decoder(Response).decode


class StreamDecoder:
    """State of one stream; ``upstream`` is whose proofs of calls it brings (``Target.upstream``), ``max_tokens``
    the limit in force.

    ``feed`` never raises: a failure waits in ``failure`` until what came before it has been handed on.
    The format has no last event: ``done`` is true, and ``Finish`` given out, when the body ends after a
    chunk with a finish reason. Some models put one into every chunk, so the first says nothing.
    """

    def __init__(self, upstream: str, max_tokens: int) -> None:
        self.failure: ProviderFailure | None = None
        self.done = False
        self._upstream = upstream
        self._max_tokens = max_tokens
        self._said = False
        self._splitter = SseSplitter()
        self._mender = SurrogateMender()
        self._calls = 0
        self._finish_reason: str | None = None
        self._usage = NULL

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        events: list[StreamEvent] = []
        try:
            for name, data in self._splitter.feed(chunk):
                self._read(name, data, events)
        except ProviderFailure as failure:
            self.failure = failure
        except FrameTooLong:
            self.failure = junk("event too long")
        return events

    def end(self) -> list[StreamEvent]:
        """The body is over: a finish reason must have come, its blank line aside."""
        events: list[StreamEvent] = []
        try:
            for name, data in self._splitter.rest():
                # Cut in the middle, a chunk is no junk: the end that is missing tells what happened.
                if _is_whole(data):
                    self._read(name, data, events)
            if self._finish_reason is None:
                raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="stream ended early")
            reason = finish_reason(self._finish_reason, called=self._calls > 0)
            self.done = True
            usage = usage_of(self._usage)
            events.append(Finish(settled_reason(reason, usage, self._max_tokens, said=self._said), usage))
        except ProviderFailure as failure:
            self.failure = failure
        return events

    def reported(self) -> Usage | None:
        """Nothing: this format tells the usage with its end."""
        return None

    def _read(self, name: bytes, data: bytes, events: list[StreamEvent]) -> None:
        if name == b"ping" or not data.strip() or data.strip() == b"[DONE]":
            return
        taken = len(events)
        try:
            self._take(_decode_chunk(data), events)
        except _UNREADABLE:
            del events[taken:]
            # If halves of characters were all that was wrong, the chunk is read once more.
            try:
                self._take(_decode_chunk(self._mender.mend(data)), events)
            except _UNREADABLE:
                raise junk("chunk is not in the format") from None

    def _take(self, chunk: Response, events: list[StreamEvent]) -> None:
        chunk.check()
        if chunk.usage_metadata != NULL:
            self._usage = chunk.usage_metadata
        if not chunk.candidates:
            return
        candidate = chunk.candidates[0]
        calls = self._calls
        for part in candidate.parts:
            if part.function_call is not None:
                self._call(part, calls, events)
                calls += 1
                self._said = True
            elif part.text != NULL and (text := text_of(part.text)):
                if part.thought:
                    events.append(ReasoningDelta(text, bytes(part.text)))
                else:
                    self._said = True
                    events.append(TextDelta(text, bytes(part.text)))
        self._calls = calls
        if candidate.finish_reason is not None:
            self._finish_reason = candidate.finish_reason

    def _call(self, part: Part, index: int, events: list[StreamEvent]) -> None:
        """A call, always whole; its proof goes with the reasoning before it."""
        call = part.function_call
        assert call is not None
        if part.thought_signature:
            events.append(ReasoningEnd(seal_call(self._upstream, part.thought_signature)))
        events.append(ToolCallStart(index, call_id(call), call_name(call)))
        events.append(ToolCallDelta(index, call.arguments()))


def _is_whole(data: bytes) -> bool:
    try:
        _decode_chunk(data)
    except _UNREADABLE:
        return False
    return True
