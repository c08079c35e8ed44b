"""Reads the stream of an OpenAI-format provider: bytes in, the hub's events out.

Called by the adapter, one decoder per stream; pure, and the hot path of every stream.
"""

from typing import Any, TypeAlias

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode

from libs.llm.canonical import Finish, LogprobsDelta, ReasoningDelta, StreamEvent, TextDelta, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_chat.calls import CallTracker
from libs.llm.providers.openai_chat.wire import BROKEN_OFF, NULL, Call, Function, finish_reason, logprobs_of, usage_of
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk, settled_reason
from libs.llm.providers.surrogates import SurrogateMender
from libs.llm.providers.template import Template, text_of
from libs.llm.sse import FrameTooLong, SseSplitter

_LESSONS = 4
"""How often one stream may teach its template anew; a provider that varies every chunk is decoded in full."""


class _Delta(Struct, gc=False):
    role: Any = None
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    # Untyped: in servers without reasoning of this kind the names may hold anything.
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class _Choice(Struct, gc=False):
    index: Any = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    logprobs: Raw = NULL


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Raw = NULL
    error: Raw = NULL


_decode_chunk = Decoder(_Chunk).decode

_Piece: TypeAlias = type[TextDelta] | type[ReasoningDelta]


class StreamDecoder:
    """State of one stream; ``max_tokens`` is the limit that was sent.

    ``feed`` never raises: a failure waits in ``failure`` until what came before it has been handed on.
    ``done`` is true once the format's last event came; ``Finish`` is then the last event given out.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self.failure: ProviderFailure | None = None
        self.done = False
        self._splitter = SseSplitter()
        self._template = Template()
        self._piece: _Piece = TextDelta
        self._lessons = _LESSONS
        self._opened = False
        self._calls = CallTracker()
        self._spoke = False
        self._finish_reason: str | None = None
        self._usage = NULL
        self._mender = SurrogateMender()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        events: list[StreamEvent] = []
        template = self._template
        try:
            for name, data in self._splitter.feed(chunk):
                if data.startswith(template.before) and data.endswith(template.after):
                    string = data[template.start : template.end]
                    try:
                        events.append(self._piece(text_of(string), string))
                        continue
                    except DecodeError:
                        pass  # something else stands between the two: the full decode tells
                self._read(name, data, events)
                if self.done:
                    break
        except ProviderFailure as failure:
            self.failure = failure
        except FrameTooLong:
            self.failure = junk("event too long")
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

    def reported(self) -> Usage | None:
        """The usage, once the provider has told it with or after the reason for its end."""
        return usage_of(self._usage) if self._finish_reason is not None and self._usage != NULL else None

    def _read(self, name: bytes, data: bytes, events: list[StreamEvent]) -> None:
        if data[:1] == b"[" and data.strip() == b"[DONE]":
            self._complete(events)
            return
        if name == b"ping" or not data.strip():
            return  # some servers' way to keep a connection open
        try:
            chunk = _decode_chunk(data)
        except (DecodeError, RecursionError, UnicodeDecodeError):
            chunk = self._decode_mended(data)
        if chunk.error != NULL:
            raise failure_in_answer(bytes(chunk.error))
        if name == b"error":
            raise failure_in_answer(data)
        if chunk.usage != NULL:
            self._usage = chunk.usage
        # Only one answer was asked for; what a server makes beside it is not part of it.
        choice = next((one for one in chunk.choices or () if not one.index), None)
        if choice is not None:
            self._read_choice(chunk, choice, data, events)

    def _decode_mended(self, data: bytes) -> _Chunk:
        """The chunk, if halves of characters were all that is wrong with it."""
        try:
            return _decode_chunk(self._mender.mend(data))
        except (DecodeError, RecursionError, UnicodeDecodeError):
            raise junk("chunk is not in the format") from None

    def _read_choice(self, chunk: _Chunk, choice: _Choice, data: bytes, events: list[StreamEvent]) -> None:
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning and isinstance(reasoning, str):
            events.append(ReasoningDelta(reasoning, encode(reasoning)))
        text = delta.content or delta.refusal
        if isinstance(text, list):
            text = "".join(part["text"] for part in text if isinstance(part.get("text"), str))
        if text:
            self._spoke = True
            logprobs = logprobs_of(choice.logprobs)
            if logprobs is not None:
                events.append(LogprobsDelta(logprobs))
            events.append(TextDelta(text, encode(text)))
        if delta.function_call is not None:
            # The older way to call: one function, without an id.
            self._calls.add([Call(index=0, function=delta.function_call)], events)
        if delta.tool_calls:
            self._calls.add(delta.tool_calls, events)
        elif delta.role and not self._opened:
            self._opened = True  # unlike all that follow, as a rule: nothing to learn from
        elif self._lessons:
            self._learn(chunk, data)

    def _learn(self, chunk: _Chunk, data: bytes) -> None:
        found = _only_string(chunk)
        if found is None:
            return
        self._lessons -= 1
        piece, text = found

        def read_back(probe: bytes) -> str | None:
            again = _only_string(_decode_chunk(probe))
            return again[1] if again is not None and again[0] is piece else None

        if self._template.learn(data, encode(text), read_back):
            # Not before: what the pattern of an earlier chunk recognises is still of that chunk's kind.
            self._piece = piece

    def _complete(self, events: list[StreamEvent]) -> None:
        reason = self._finish_reason
        if reason is None:
            raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="no finish reason")
        if reason in BROKEN_OFF:
            raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="finish reason error")
        self.done = True
        self._calls.finish(events)
        usage, called = usage_of(self._usage), self._calls.called
        ending = finish_reason(reason, called=called)
        said = self._spoke or called
        events.append(Finish(settled_reason(ending, usage, self._max_tokens, said=said), usage))


def _only_string(chunk: _Chunk) -> tuple[_Piece, str] | None:
    """The one string a chunk carries, when it says nothing else besides."""
    if not chunk.choices or len(chunk.choices) != 1 or chunk.error != NULL or chunk.usage != NULL:
        return None
    choice = chunk.choices[0]
    delta = choice.delta
    if delta is None or choice.finish_reason or delta.refusal or delta.tool_calls or choice.logprobs != NULL:
        return None
    reasoning = delta.reasoning_content or delta.reasoning
    if delta.content and isinstance(delta.content, str) and not reasoning:
        return TextDelta, delta.content
    if reasoning and isinstance(reasoning, str) and not delta.content:
        # Under both names at once only one of them would be put into the pattern.
        return None if delta.reasoning_content and delta.reasoning else (ReasoningDelta, reasoning)
    return None
