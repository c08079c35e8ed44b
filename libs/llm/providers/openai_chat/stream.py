"""Reads the stream of an OpenAI-format provider: bytes in, the hub's events out.

Called by the adapter, one decoder per stream; pure, and the hot path of every stream.
"""

from typing import Any, TypeAlias

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode

from libs.llm.canonical import Finish, ReasoningDelta, StreamEvent, TextDelta
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_chat.calls import CallTracker
from libs.llm.providers.openai_chat.surrogates import SurrogateMender
from libs.llm.providers.openai_chat.template import Template, text_of
from libs.llm.providers.openai_chat.wire import BROKEN_OFF, Call, finish_reason, usage_of
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.sse import FrameTooLong, SseSplitter

_LESSONS = 8
"""How often one stream may teach its template anew; a provider that varies every chunk is decoded in full."""


class _Delta(Struct, gc=False):
    content: Raw | None = None
    reasoning_content: Raw | None = None
    reasoning: Raw | None = None
    refusal: Raw | None = None
    tool_calls: list[Call] | None = None


class _Choice(Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Raw | None = None
    error: Raw | None = None


_decode_chunk = Decoder(_Chunk).decode
_decode_content = Decoder(str | list[dict[str, Any]] | None).decode

_Piece: TypeAlias = type[TextDelta] | type[ReasoningDelta]


class StreamDecoder:
    """State of one stream.

    ``feed`` never raises: a failure waits in ``failure`` until what came before it has been handed on.
    ``done`` is true once the format's last event came; ``Finish`` is then the last event given out.
    """

    def __init__(self) -> None:
        self.failure: ProviderFailure | None = None
        self.done = False
        self._splitter = SseSplitter()
        self._template = Template()
        self._piece: _Piece = TextDelta
        self._lessons = _LESSONS
        self._calls = CallTracker()
        self._finish_reason: str | None = None
        self._usage: Raw | None = None
        self._mender = SurrogateMender()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        events: list[StreamEvent] = []
        try:
            for name, data in self._splitter.feed(chunk):
                string = self._template.match(data)
                if string is not None:
                    try:
                        events.append(self._piece(text_of(string), string))
                        continue
                    except DecodeError:
                        pass  # a string of another kind stands there, or none: the full decode tells
                self._read(name, data, events)
                if self.done:
                    break
        except ProviderFailure as failure:
            self.failure = failure
        except FrameTooLong:
            self.failure = _junk("event too long")
        return events

    def end(self) -> list[StreamEvent]:
        """The body is over: the last event must have come, its blank line aside."""
        events: list[StreamEvent] = []
        try:
            if any(data.strip() == b"[DONE]" for _, data in self._splitter.rest()):
                self._complete(events)
            else:
                raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="stream ended early")
        except ProviderFailure as failure:
            self.failure = failure
        return events

    def _read(self, name: bytes, data: bytes, events: list[StreamEvent]) -> None:
        if data[:1] == b"[" and data.strip() == b"[DONE]":
            self._complete(events)
            return
        if name == b"ping":
            return
        chunk, data = self._decode(data)
        if chunk.error is not None and bytes(chunk.error) != b"null":
            raise failure_in_answer(bytes(chunk.error))
        if name == b"error":
            raise failure_in_answer(data)
        if chunk.usage is not None and bytes(chunk.usage) != b"null":
            self._usage = chunk.usage
        if chunk.choices:
            self._read_choice(chunk, chunk.choices[0], data, events)

    def _read_choice(self, chunk: _Chunk, choice: _Choice, data: bytes, events: list[StreamEvent]) -> None:
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning is not None:
            _add(ReasoningDelta, reasoning, events)
        for content in (delta.content, delta.refusal):
            if content is not None:
                _add(TextDelta, content, events)
        if delta.tool_calls:
            self._calls.add(delta.tool_calls, events)
        elif self._lessons:
            self._learn(chunk, data)

    def _learn(self, chunk: _Chunk, data: bytes) -> None:
        found = _only_string(chunk)
        if found is None:
            return
        piece, string = found
        self._lessons -= 1

        def read_back(probe: bytes) -> str | None:
            again = _only_string(_decode_chunk(probe))
            return text_of(again[1]) if again is not None and again[0] is piece else None

        self._piece = piece
        self._template.learn(data, string, read_back)

    def _decode(self, data: bytes) -> tuple[_Chunk, bytes]:
        """The chunk, and its bytes as they can be passed on."""
        try:
            chunk = _decode_chunk(data)
            if b"\\ud" not in data and b"\\uD" not in data:
                return chunk, data
            # Raw members are not looked into, and halves of characters hide there.
            data = self._mender.mend(data)
            return _decode_chunk(data), data
        except (DecodeError, RecursionError, UnicodeDecodeError):
            raise _junk("chunk is not in the format") from None

    def _complete(self, events: list[StreamEvent]) -> None:
        reason = self._finish_reason
        if reason is None:
            raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="no finish reason")
        if reason in BROKEN_OFF:
            raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="finish reason error")
        self.done = True
        self._calls.finish(events)
        events.append(Finish(finish_reason(reason, called=self._calls.called), usage_of(self._usage)))


def _add(piece: _Piece, raw: Raw, events: list[StreamEvent]) -> None:
    """Add a delta's string, unless it is empty; also the parts form some servers use."""
    json = bytes(raw)
    try:
        content = _decode_content(json)
    except DecodeError:
        raise _junk("delta is not text") from None
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
        json = encode(content)
    if content:
        events.append(piece(content, json))


def _only_string(chunk: _Chunk) -> tuple[_Piece, bytes] | None:
    """The one string a chunk carries, when it says nothing else besides."""
    if chunk.error is not None or not chunk.choices or len(chunk.choices) != 1:
        return None
    if chunk.usage is not None and bytes(chunk.usage) != b"null":
        return None
    delta = chunk.choices[0].delta
    if delta is None or delta.refusal is not None or delta.tool_calls or chunk.choices[0].finish_reason:
        return None
    strings = [
        (piece, bytes(raw))
        for piece, raw in (
            (TextDelta, delta.content),
            (ReasoningDelta, delta.reasoning_content),
            (ReasoningDelta, delta.reasoning),
        )
        if raw is not None and bytes(raw) != b"null"
    ]
    if len(strings) != 1 or strings[0][1][:1] != b'"':
        return None
    return strings[0]


def _junk(detail: str) -> ProviderFailure:
    return ProviderFailure(FailureKind.JUNK, status=200, detail=detail)
