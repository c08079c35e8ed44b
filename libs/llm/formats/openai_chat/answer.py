"""Renders answers in the Chat completions format, whole or as a stream of chunks.

Called by the edge with what a provider adapter brought; pure, and the hot path of every stream.
"""

from typing import Any

from msgspec.json import encode

from libs.llm.canonical import (
    Answer,
    ChatRequest,
    Finish,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from libs.llm.failures import ApiError
from libs.llm.formats.openai_chat.errors import render_error
from libs.llm.identity import Identity

DONE = b"data: [DONE]\n\n"
OPEN_END = b'},"finish_reason":null}]}\n\n'
"""Ends a chunk whose delta is open."""


def wants_logprobs(request: ChatRequest) -> bool:
    """Whether the client asked for log probabilities; what a provider sends of them unasked is not for it."""
    asked = request.fields.get("logprobs")
    return asked is not None and bytes(asked) == b"true"


def chunk_head(identity: Identity) -> bytes:
    """The beginning of every chunk's frame, up to the value of ``choices``."""
    head = {
        "id": identity.id,
        "object": "chat.completion.chunk",
        "created": identity.created,
        "model": identity.model,
    }
    return b"data: " + encode(head)[:-1] + b',"choices":'


def render_answer(answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
    """The ``chat.completion`` object. ``usage`` is the answer's own or the caller's estimate."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text() or None}
    reasoning, calls = answer.reasoning(), answer.tool_calls()
    if reasoning and not request.reasoning.exclude:
        message["reasoning"] = message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _reason(answer.finish_reason)}
    if answer.logprobs is not None and wants_logprobs(request):
        choice["logprobs"] = answer.logprobs
    counts = _usage(usage)
    counts["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return encode(
        {
            "id": identity.id,
            "object": "chat.completion",
            "created": identity.created,
            "model": identity.model,
            "choices": [choice],
            "usage": counts,
        }
    )


class ChunkWriter:
    """Turns stream events into the bytes one client receives; see ``StreamWriter``."""

    __slots__ = ("_begin", "_custom", "_excludes", "_logprobs", "_started", "_wants_logprobs", "characters")

    def __init__(self, identity: Identity, request: ChatRequest) -> None:
        self._begin = chunk_head(identity) + b'[{"index":0,"delta":{'
        self._excludes = request.reasoning.exclude
        self._wants_logprobs = wants_logprobs(request)
        self._logprobs = b""
        self._started = False
        self._custom: set[int] = set()
        self.characters = 0

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events`` as one bytes object; after ``Finish`` the stream is complete."""
        begin = self._begin
        out: list[bytes] = []
        if not self._started:
            self._started = True
            out += (begin, b'"role":"assistant","content":""', OPEN_END)
        for event in events:
            if type(event) is TextDelta and not self._logprobs:
                self.characters += len(event.text)
                out += (begin, b'"content":', event.json, OPEN_END)
            else:
                self._write_other(event, out)
        return b"".join(out)

    def _write_other(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case TextDelta(text, json):
                self.characters += len(text)
                out += (self._begin, b'"content":', json, b'},"logprobs":', self._logprobs, OPEN_END[1:])
                self._logprobs = b""
            case ReasoningDelta(text, json):
                # Hidden reasoning was generated all the same, and counts.
                self.characters += len(text)
                if not self._excludes:
                    out += (self._begin, b'"reasoning":', json, b',"reasoning_content":', json, OPEN_END)
            case ToolCallStart(index, id, name, custom):
                opening = {"index": index, **_tool_call(ToolCall(id, name, "", custom))}
                if custom:
                    self._custom.add(index)
                self.characters += len(name)
                out += (self._begin, b'"tool_calls":[', encode(opening), b"]", OPEN_END)
            case ToolCallDelta(index, arguments):
                said = (
                    {"custom": {"input": arguments}}
                    if index in self._custom
                    else {"function": {"arguments": arguments}}
                )
                piece = {"index": index, **said}
                self.characters += len(arguments)
                out += (self._begin, b'"tool_calls":[', encode(piece), b"]", OPEN_END)
            case LogprobsDelta(json) if self._wants_logprobs:
                self._logprobs = json
            case Finish(reason, usage):
                ending = encode(_reason(reason))
                out += (self._begin, b'},"finish_reason":', ending, b"}]", _usage_member(usage), b"}\n\n", DONE)

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that broke off: the error's chunk, then ``[DONE]``."""
        return b"data: " + render_error(error)[1] + b"\n\n" + DONE


def _reason(reason: FinishReason) -> str:
    """A stop sequence is an ordinary stop in this format."""
    return "stop" if reason is FinishReason.STOP_SEQUENCE else reason.value


def _tool_call(call: ToolCall) -> dict[str, Any]:
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    }
    if usage.reasoning:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return counts


def _usage_member(usage: Usage | None) -> bytes:
    """``,"usage":{...}`` of the last chunk; nothing when no tokens were counted."""
    if usage is None or not (usage.prompt or usage.completion):
        return b""
    counts = _usage(usage)
    if usage.cached:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return b',"usage":' + encode(counts)
