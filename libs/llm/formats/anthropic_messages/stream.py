"""Writes answers as a stream of Messages events (contract: Streaming, Messages stream).

Made by the edge once per stream; the hot path of every stream of this format.
"""

from collections import deque
from enum import Enum
from typing import Any, TypeAlias

from msgspec.json import encode

from libs.llm.canonical import (
    ChatRequest,
    CitationDelta,
    Finish,
    LogprobsDelta,
    OpaqueDelta,
    OpaqueEnding,
    OpaqueStart,
    ReasoningDelta,
    ReasoningEnd,
    RedactedReasoning,
    StreamEvent,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallStart,
)
from libs.llm.failures import ApiError
from libs.llm.formats.anthropic_messages.answer import DIALECT, stop_reason, usage_counts
from libs.llm.formats.anthropic_messages.calls import CallInStream
from libs.llm.formats.anthropic_messages.errors import render_stream_error
from libs.llm.identity import Identity

_END = b"}\n\n"
_PIECE_END = b"}}\n\n"
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class _Block(Enum):
    TEXT = b'{"type":"text","text":""}'
    THINKING = b'{"type":"thinking","thinking":"","signature":""}'
    OPAQUE = b""


_Plain: TypeAlias = (
    TextDelta | ReasoningDelta | ReasoningEnd | RedactedReasoning | TextEnd | CitationDelta | OpaqueStart | OpaqueDelta
)


class EventWriter:
    """Turns stream events into frames; blocks follow each other, whatever order the model's calls come in.

    A call is open until its arguments are whole; what else comes meanwhile waits. ``characters`` counts what was
    written of the answer.
    """

    __slots__ = ("_calls", "_ending", "_head", "_identity", "_index", "_open", "_request", "_waiting", "characters")

    def __init__(self, identity: Identity, request: ChatRequest) -> None:
        self._identity = identity
        self._request: ChatRequest | None = request  # None once the stream has begun
        self._index = -1
        self._open: _Block | CallInStream | None = None
        self._ending: OpaqueEnding | None = None
        self._head = b""  # of a delta frame of the open block, up to the JSON string
        self._waiting: deque[CallInStream | _Plain] = deque()
        self._calls: dict[int, CallInStream] = {}  # those that wait
        self.characters = 0

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events`` as one bytes object; after ``Finish`` the stream is complete."""
        out: list[bytes] = []
        if self._request is not None:
            self._begin(self._request, out)
        for event in events:
            if type(event) is TextDelta and self._open is _Block.TEXT:
                self.characters += len(event.text)
                out += (self._head, event.json, _PIECE_END)
            else:
                self._take(event, out)
        return b"".join(out)

    def fail(self, error: ApiError) -> bytes:
        """The error event, after which nothing follows."""
        return b"event: error\ndata: " + render_stream_error(error) + b"\n\n"

    def _begin(self, request: ChatRequest, out: list[bytes]) -> None:
        self._request = None
        message: dict[str, Any] = {
            "id": self._identity.id,
            "type": "message",
            "role": "assistant",
            "model": self._identity.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": request.input_tokens, "output_tokens": 0},
        }
        out += (b'event: message_start\ndata: {"type":"message_start","message":', encode(message), _END)

    def _take(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case ToolCallStart(index, id, name):
                call = CallInStream(index, id, name)
                self._calls[index] = call
                self._queue(call, out)
            case ToolCallDelta(index, arguments):
                self._add_arguments(index, arguments, out)
            case OpaqueEnding():
                self._ending = event
            case Finish():
                self._finish(event, out)
            case LogprobsDelta():  # which have no place in this format
                pass
            case _:
                self._queue(event, out)

    def _queue(self, entry: CallInStream | _Plain, out: list[bytes]) -> None:
        self._waiting.append(entry)
        self._release(out)

    def _release(self, out: list[bytes], *, at_end: bool = False) -> None:
        """Write what waits, up to a call that is not yet whole."""
        while self._waiting:
            if not at_end and isinstance(self._open, CallInStream) and not self._open.is_whole():
                return
            entry = self._waiting.popleft()
            if isinstance(entry, CallInStream):
                self._open_call(entry, out)
            else:
                self._write_plain(entry, out)

    def _add_arguments(self, index: int, arguments: str, out: list[bytes]) -> None:
        call = self._open
        if isinstance(call, CallInStream) and call.index == index:
            call.add(arguments)
            self._write_arguments(arguments, out)
            self._release(out)
        elif index in self._calls:
            self._calls[index].add(arguments)
        # Else the call's block is closed: its arguments were whole, only white space can follow.

    def _open_call(self, call: CallInStream, out: list[bytes]) -> None:
        self._calls.pop(call.index, None)
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        self._open_block(call, encode(block), b'"input_json_delta","partial_json":', out)
        self.characters += len(call.name)
        arguments = call.arguments()
        if arguments:
            self._write_arguments(arguments, out)

    def _write_arguments(self, arguments: str, out: list[bytes]) -> None:
        self.characters += len(arguments)
        out += (self._head, encode(arguments), _PIECE_END)

    def _write_plain(self, event: _Plain, out: list[bytes]) -> None:
        match event:
            case TextDelta(text, json):
                if text:
                    self._write_text(text, json, out)
            case ReasoningDelta(text, json):
                if text:
                    self._open_thinking(out)
                    self.characters += len(text)
                    out += (self._head, json, _PIECE_END)
            case ReasoningEnd(signature):
                # A provider may show no more of its reasoning than the proof.
                if signature:
                    self._open_thinking(out)
                self._close(out, signature)
            case RedactedReasoning(data):
                self._open_block(None, encode({"type": "redacted_thinking", "data": data}), b"", out)
                self._write_stop(out)
            case TextEnd() if self._open is _Block.TEXT:
                self._close(out)
            case CitationDelta() | OpaqueStart() | OpaqueDelta():
                self._write_own(event, out)

    def _write_own(self, event: CitationDelta | OpaqueStart | OpaqueDelta, out: list[bytes]) -> None:
        """What the provider wrote in this format's words goes out as it is."""
        match event:
            case OpaqueStart(dialect, json):
                if dialect == DIALECT:
                    self._open_block(_Block.OPAQUE, json, b"", out)
                else:
                    self._close(out)  # so that its pieces find no block
            case OpaqueDelta(json) if self._open is _Block.OPAQUE:
                self._write_delta(json, out)
            case CitationDelta(dialect, json) if dialect == DIALECT:
                if self._open is not _Block.TEXT:
                    self._open_block(_Block.TEXT, _Block.TEXT.value, b'"text_delta","text":', out)
                self._write_delta(json, out)

    def _write_delta(self, json: bytes, out: list[bytes]) -> None:
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":' % self._index
        out += (head, json, _END)

    def _write_text(self, text: str, json: bytes, out: list[bytes]) -> None:
        if self._open is not _Block.TEXT:
            self._open_block(_Block.TEXT, _Block.TEXT.value, b'"text_delta","text":', out)
        self.characters += len(text)
        out += (self._head, json, _PIECE_END)

    def _open_thinking(self, out: list[bytes]) -> None:
        if self._open is not _Block.THINKING:
            self._open_block(_Block.THINKING, _Block.THINKING.value, b'"thinking_delta","thinking":', out)

    def _open_block(self, block: _Block | CallInStream | None, start: bytes, piece: bytes, out: list[bytes]) -> None:
        self._close(out)
        self._open = block
        self._index += 1
        number = b"%d" % self._index
        self._head = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%b,"delta":{"type":' % number
        ) + piece
        out += (
            b'event: content_block_start\ndata: {"type":"content_block_start","index":',
            number,
            b',"content_block":',
            start,
            _END,
        )

    def _close(self, out: list[bytes], signature: str = "") -> None:
        """Close the open block, if there is one; a thinking block always tells its signature, be it empty."""
        if self._open is None:
            return
        if self._open is _Block.THINKING:
            out += (
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,' % self._index,
                b'"delta":{"type":"signature_delta","signature":',
                encode(signature),
                _PIECE_END,
            )
        self._open = None
        self._write_stop(out)

    def _write_stop(self, out: list[bytes]) -> None:
        out.append(b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index)

    def _finish(self, event: Finish, out: list[bytes]) -> None:
        assert event.usage is not None  # the edge has put its estimate where a provider told none
        self._release(out, at_end=True)
        self._close(out)
        delta = {"stop_reason": stop_reason(event.finish_reason, self._ending), "stop_sequence": None}
        data = {"type": "message_delta", "delta": delta, "usage": usage_counts(event.usage, self._ending)}
        out += (b"event: message_delta\ndata: ", encode(data), b"\n\n", _MESSAGE_STOP)
