"""Renders answers in the Chat completions format, whole or as a stream of chunks.

Called by the edge with what a provider adapter brought; pure, and the hot path of every stream.
"""

from typing import Any

from msgspec.json import encode

from libs.llm.canonical import (
    Answer,
    Finish,
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
_OPEN_END = b'},"finish_reason":null}]}\n\n'


def render_answer(answer: Answer, usage: Usage, identity: Identity) -> bytes:
    """The ``chat.completion`` object. ``usage`` is the answer's own or the caller's estimate."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text() or None}
    reasoning, calls = answer.reasoning(), answer.tool_calls()
    if reasoning:
        message["reasoning"] = message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    counts = _usage(usage)
    counts["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    return encode(
        {
            "id": identity.id,
            "object": "chat.completion",
            "created": identity.created,
            "model": identity.model,
            "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason.value}],
            "usage": counts,
        }
    )


class ChunkWriter:
    """Turns stream events into the bytes one client receives; one writer per stream.

    ``characters`` counts what was written of the answer (text, reasoning, names and arguments of calls): the
    ground of an estimate when the stream breaks off. ``answered`` is true once text or a call was among it.
    """

    __slots__ = ("_begin", "_started", "answered", "characters")

    def __init__(self, identity: Identity) -> None:
        head = {
            "id": identity.id,
            "object": "chat.completion.chunk",
            "created": identity.created,
            "model": identity.model,
        }
        self._begin = b"data: " + encode(head)[:-1] + b',"choices":[{"index":0,"delta":{'
        self._started = False
        self.characters = 0
        self.answered = False

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events`` as one bytes object; after ``Finish`` the stream is complete."""
        begin = self._begin
        out: list[bytes] = []
        if not self._started:
            self._started = True
            out += (begin, b'"role":"assistant","content":""', _OPEN_END)
        for event in events:
            if type(event) is TextDelta:
                self.characters += len(event.text)
                self.answered = True
                out += (begin, b'"content":', event.json, _OPEN_END)
            else:
                self._write_other(event, out)
        return b"".join(out)

    def _write_other(self, event: StreamEvent, out: list[bytes]) -> None:
        match event:
            case ReasoningDelta(text, json):
                self.characters += len(text)
                out += (self._begin, b'"reasoning":', json, b',"reasoning_content":', json, _OPEN_END)
            case ToolCallStart(index, id, name):
                opening = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
                self.characters += len(name)
                self.answered = True
                out += (self._begin, b'"tool_calls":[', encode(opening), b"]", _OPEN_END)
            case ToolCallDelta(index, arguments):
                piece = {"index": index, "function": {"arguments": arguments}}
                self.characters += len(arguments)
                out += (self._begin, b'"tool_calls":[', encode(piece), b"]", _OPEN_END)
            case Finish(reason, usage):
                out += (self._begin, b'},"finish_reason":', encode(reason), b"}]", _usage_member(usage), b"}\n\n", DONE)

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that broke off: the error's chunk, then ``[DONE]``."""
        return b"data: " + render_error(error)[1] + b"\n\n" + DONE


def _tool_call(call: ToolCall) -> dict[str, Any]:
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
