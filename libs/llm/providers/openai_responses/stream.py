"""Reads the stream of a Responses provider: bytes in, the hub's events out.

Called by the adapter, one decoder per stream; pure, and the hot path of every stream.
"""

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import Finish, StreamEvent, TextDelta, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_responses.outputs import Outputs
from libs.llm.providers.openai_responses.wire import (
    NULL,
    Response,
    arguments_text,
    failure_of_error,
    finish_reason,
    item_of,
    usage_of,
)
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk, settled_reason
from libs.llm.providers.surrogates import SurrogateMender
from libs.llm.providers.template import text_of
from libs.llm.sse import FrameTooLong, SseSplitter

_UNREADABLE = (DecodeError, RecursionError, UnicodeDecodeError)
_ENDINGS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}


class _Event(Struct, gc=False):
    type: str = ""
    # Raw: the string goes out to the client as it came.
    delta: Raw = NULL
    output_index: int | None = None
    item_id: str | None = None
    summary_index: int | None = None
    content_index: int | None = None
    arguments: Raw = NULL
    item: Raw = NULL
    response: Raw = NULL
    error: Raw = NULL


_decode_event = Decoder(_Event).decode
_decode_response = Decoder(Response).decode
_decode_arguments = Decoder().decode


class StreamDecoder:
    """State of one stream; ``upstream`` is whose encrypted reasoning it is (``Target.upstream``), ``max_tokens``
    the limit in force.

    ``feed`` never raises: a failure waits in ``failure`` until what came before it has been handed on.
    ``done`` is true once the format's last event came; ``Finish`` is then the last event given out.
    """

    def __init__(self, upstream: str, max_tokens: int) -> None:
        self.failure: ProviderFailure | None = None
        self.done = False
        self._splitter = SseSplitter()
        self._outputs = Outputs(upstream)
        self._max_tokens = max_tokens
        self._mender = SurrogateMender()

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """The events that ``chunk`` completes."""
        events: list[StreamEvent] = []
        try:
            for name, data in self._splitter.feed(chunk):
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
                # Cut in the middle, an event is no junk: the end that is missing tells what happened.
                if _is_whole(data):
                    self._read(name, data, events)
            if not self.done:
                raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="stream ended early")
        except ProviderFailure as failure:
            self.failure = failure
        return events

    def reported(self) -> Usage | None:
        """Nothing: this format tells the usage with its end."""
        return None

    def _read(self, name: bytes, data: bytes, events: list[StreamEvent]) -> None:
        if name == b"ping" or not data.strip() or data.strip() == b"[DONE]":
            return
        try:
            self._take(name, _decode_event(data), data, events)
        except _UNREADABLE:
            # If halves of characters were all that was wrong, nothing of the event was taken yet.
            try:
                mended = self._mender.mend(data)
                self._take(name, _decode_event(mended), mended, events)
            except _UNREADABLE:
                raise junk("event is not in the format") from None

    def _take(self, name: bytes, event: _Event, data: bytes, events: list[StreamEvent]) -> None:
        kind = event.type or name.decode()
        outputs = self._outputs
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                text = text_of(event.delta)
                if text:
                    outputs.at(event.output_index, event.item_id).said = True
                    events.append(TextDelta(text, bytes(event.delta)))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                place = event.content_index if kind == "response.reasoning_text.delta" else event.summary_index
                output = outputs.at(event.output_index, event.item_id)
                output.reason(kind, place or 0, text_of(event.delta), bytes(event.delta), events)
            case "response.function_call_arguments.delta":
                outputs.at(event.output_index, event.item_id).argue(text_of(event.delta), events)
            case "response.function_call_arguments.done":
                arguments = arguments_text(_decode_arguments(event.arguments))
                outputs.at(event.output_index, event.item_id).complete(arguments, events)
            case "response.output_item.added" | "response.output_item.done":
                item = item_of(event.item)
                if item is not None:
                    outputs.take(event.output_index, item, events, whole=kind.endswith("done"))
            case _ if kind in _ENDINGS:
                self._complete(_ENDINGS[kind], event.response, events)
            case "error":
                raise failure_of_error(event.error) if event.error != NULL else failure_in_answer(data)
            case _ if event.error != NULL:
                raise failure_of_error(event.error)

    def _complete(self, status: str, raw: Raw, events: list[StreamEvent]) -> None:
        response = _decode_response(raw) if raw != NULL else Response()
        reason = finish_reason(response, status, called=self._outputs.called)
        self.done = True
        self._outputs.finish(events)
        usage = usage_of(response.usage)
        events.append(Finish(settled_reason(reason, usage, self._max_tokens, said=self._outputs.said), usage))


def _is_whole(data: bytes) -> bool:
    try:
        _decode_event(data)
    except _UNREADABLE:
        return False
    return True
