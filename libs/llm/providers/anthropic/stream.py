"""Reads the stream of an Anthropic-format provider: bytes in, the hub's events out.

Called by the adapter, one decoder per stream; pure, and the hot path of every stream.
"""

from typing import Any

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode

from libs.llm.canonical import Finish, StreamEvent, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.anthropic.blocks import CITATION, Block, Blocks, WireBlock, WireDelta
from libs.llm.providers.anthropic.wire import NULL, Tally, ending_of, finish_reason, is_own
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk, settled_reason
from libs.llm.providers.surrogates import SurrogateMender
from libs.llm.providers.template import Template, text_of
from libs.llm.sse import FrameTooLong, SseSplitter

_LESSONS = 4
"""How often one block may teach its template anew; a provider that varies every piece is decoded in full."""


class _Message(Struct, gc=False):
    usage: Raw = NULL


class _Event(Struct, gc=False):
    type: str | None = None
    index: int = 0
    delta: WireDelta | None = None
    content_block: WireBlock | None = None
    message: _Message | None = None
    usage: Raw = NULL
    error: Raw = NULL


class _Kind(Struct, gc=False):
    type: Any = None


class _Outline(Struct, gc=False):
    """An event whose members may be of any type."""

    type: Any = None
    index: Any = None
    delta: _Kind | None = None
    content_block: _Kind | None = None


class _Own(Struct, gc=False):
    """What goes on as it is."""

    content_block: Raw = NULL
    delta: Raw = NULL


_decode_own = Decoder(_Own).decode
_decode_event = Decoder(_Event).decode
_decode_outline = Decoder(_Outline).decode
_decode_kind = Decoder(_Kind).decode

_EVENTS = frozenset({"message_start", "content_block_stop", "message_delta", "message_stop", "error"})
_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_DELTAS = frozenset({"text_delta", "thinking_delta", "signature_delta", "input_json_delta"})
_STRINGS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class StreamDecoder:
    """State of one stream. ``max_tokens`` is the limit the provider was given."""

    def __init__(self, max_tokens: int) -> None:
        self.failure: ProviderFailure | None = None
        self.done = False
        self._max_tokens = max_tokens
        self._splitter = SseSplitter()
        self._template = Template()
        self._block = Block("skipped")
        self._lessons = _LESSONS
        self._blocks = Blocks()
        self._stop_reason: str | None = None
        self._tally = Tally()
        self._mender = SurrogateMender()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        events: list[StreamEvent] = []
        try:
            for name, data in self._splitter.feed(chunk):
                template = self._template
                if data.startswith(template.before) and (string := _string_in(data, template)):
                    try:
                        text = text_of(string)
                    except DecodeError:
                        pass  # something else stands between the two: the full decode tells
                    else:
                        if text:
                            self._blocks.add(self._block, text, string, events)
                        continue
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
            for name, data in self._splitter.rest():
                self._read(name, data, events)
        except ProviderFailure as failure:
            if failure.kind is not FailureKind.JUNK:  # which half an event looks like
                self.failure = failure
        if not self.done and self.failure is None:
            self.failure = ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="stream ended early")
        return events if self.done else []

    def reported(self) -> Usage | None:
        """The usage, once the provider has told it with the reason for its end."""
        return self._tally.usage() if self._stop_reason is not None else None

    def _read(self, name: bytes, data: bytes, events: list[StreamEvent]) -> None:
        if name == b"ping" or not data.strip() or data.strip() == b"[DONE]":
            return
        try:
            event = _decode_event(data)
        except (DecodeError, RecursionError, UnicodeDecodeError):
            if self._skipped(data, events):
                return
            event = self._decode_mended(data)
        match event.type or name.decode("ascii", "replace"):
            case "content_block_delta" if event.delta is not None:
                self._read_delta(event, event.delta, data, events)
            case "content_block_start" if event.content_block is not None:
                self._lessons = _LESSONS
                self._template = Template()
                if is_own(event.content_block.type):
                    self._blocks.start_opaque(event.index, _own_of(data).content_block, events)
                else:
                    self._blocks.start(event.index, event.content_block, events)
            case "content_block_stop":
                self._blocks.stop(event.index, events)
            case "message_start" if event.message is not None:
                self._tally.add(event.message.usage, final=False)
            case "message_delta":
                self._tally.add(event.usage, final=True)
                if event.delta is not None and event.delta.stop_reason is not None:
                    self._stop_reason = event.delta.stop_reason
            case "message_stop":
                self._complete(events)
            case "error":
                raise failure_in_answer(data if event.error == NULL else bytes(event.error))
            case _ if event.error != NULL:
                raise failure_in_answer(bytes(event.error))

    def _read_delta(self, event: _Event, delta: WireDelta, data: bytes, events: list[StreamEvent]) -> None:
        if delta.type == CITATION or self._blocks.is_opaque(event.index):
            self._blocks.own_piece(event.index, delta.type, _own_of(data).delta, events)
            return
        added = self._blocks.piece(event.index, delta, events)
        if added is None or not self._lessons:
            return
        self._lessons -= 1
        block, text = added
        kind, index = delta.type, event.index

        def read_back(probe: bytes) -> str | None:
            again = _decode_event(probe)
            if again.type != "content_block_delta" or again.index != index or again.delta is None:
                return None
            return _only_string(again.delta, kind)

        if self._template.learn(data, encode(text), read_back):
            # Not before: what the pattern of an earlier piece recognises still belongs to that piece's block.
            self._block = block

    def _decode_mended(self, data: bytes) -> _Event:
        """The event, if halves of characters were all that is wrong with it."""
        try:
            return _decode_event(self._mender.mend(data))
        except (DecodeError, RecursionError, UnicodeDecodeError):
            raise junk("event is not in the format") from None

    def _skipped(self, data: bytes, events: list[StreamEvent]) -> bool:
        """Whether an event that does not decode is of a kind nobody reads here, which may hold anything."""
        try:
            kind = _decode_kind(data).type
            if isinstance(kind, str) and kind not in _EVENTS and not kind.startswith("content_block_"):
                return True
            outline = _decode_outline(data)
        except (DecodeError, RecursionError, UnicodeDecodeError):
            return False
        if outline.type == "content_block_start" and outline.content_block is not None:
            if outline.content_block.type in _BLOCKS or type(outline.index) is not int:
                return False
            self._lessons = _LESSONS
            self._template = Template()
            kind = outline.content_block.type
            own = _own_of(data).content_block if isinstance(kind, str) and is_own(kind) else NULL
            self._blocks.start_opaque(outline.index, own, events)
            return True
        if outline.type == "content_block_delta" and outline.delta is not None:
            return outline.delta.type not in _DELTAS
        return False

    def _complete(self, events: list[StreamEvent]) -> None:
        if self._stop_reason is None:
            raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="no stop reason")
        self.done = True
        blocks = self._blocks
        blocks.stop_all(events)
        usage = self._tally.usage()
        reason = finish_reason(self._stop_reason, called=blocks.calls > 0)
        ending = ending_of(self._stop_reason, self._tally)
        if ending is not None:
            events.append(ending)
        events.append(Finish(settled_reason(reason, usage, self._max_tokens, said=blocks.said), usage))


def _own_of(data: bytes) -> _Own:
    try:
        return _decode_own(data)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return _Own()


def _string_in(data: bytes, template: Template) -> bytes:
    """The varying string of an event that is like the template's, b"" for another.

    Anthropic pads events with blanks before their last brackets, each by another number.
    """
    if data.endswith(template.after):
        return data[template.start : template.end]
    text_end = len(data.rstrip(b"} "))
    if data[text_end:].replace(b" ", b"") != template.after[1:].replace(b" ", b""):
        return b""
    return data[template.start : text_end]


def _only_string(delta: WireDelta, kind: str | None) -> str | None:
    """The one string a piece of that kind carries, when it says nothing else besides."""
    if delta.type != kind:
        return None
    said = {"text": delta.text, "thinking": delta.thinking, "partial_json": delta.partial_json}
    text = said.pop(_STRINGS.get(kind or "", "text"))
    others = (*said.values(), delta.signature, delta.stop_reason)
    return text if all(other is None for other in others) else None
