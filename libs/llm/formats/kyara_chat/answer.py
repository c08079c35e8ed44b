"""Renders answers in the strict dialect, whole or as a stream of chunks.

Called by the edge with what a provider adapter brought; pure (contract: Kyara, Response and Streaming).
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
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from libs.llm.failures import ApiError
from libs.llm.formats.kyara_chat.errors import STREAM_FAILURE
from libs.llm.formats.openai_chat.answer import DONE, OPEN_END, chunk_head, wants_logprobs
from libs.llm.identity import Identity

# This dialect calls no functions: a model that does so all the same has just stopped.
_FINISH_REASONS = {
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}


def render_answer(answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
    """The ``chat.completion`` object. ``usage`` is the answer's own or the caller's estimate."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text()}
    reasoning = answer.reasoning()
    if reasoning and not request.reasoning.exclude:
        message["reasoning"] = reasoning
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _reason(answer.finish_reason)}
    if answer.logprobs is not None and wants_logprobs(request):
        choice["logprobs"] = answer.logprobs
    return encode(
        {
            "id": identity.id,
            "object": "chat.completion",
            "created": identity.created,
            "model": identity.model,
            "choices": [choice],
            "usage": _usage(usage),
        }
    )


class ChunkWriter:
    """Turns stream events into the bytes one client receives; see ``StreamWriter``."""

    __slots__ = ("_begin", "_excludes", "_head", "_logprobs", "_started", "_wants_logprobs", "characters")

    def __init__(self, identity: Identity, request: ChatRequest) -> None:
        self._head = chunk_head(identity)
        self._begin = self._head + b'[{"index":0,"delta":{'
        self._excludes = request.reasoning.exclude
        self._wants_logprobs = wants_logprobs(request)
        self._logprobs = b""
        self._started = False
        self.characters = 0

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events`` as one bytes object; after ``Finish`` the stream is complete."""
        out: list[bytes] = []
        if not self._started:
            self._started = True
            out += (self._begin, b'"role":"assistant"', OPEN_END)
        for event in events:
            if type(event) is TextDelta and not self._logprobs:
                self.characters += len(event.text)
                out += (self._begin, b'"content":', event.json, OPEN_END)
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
                self.characters += len(text)
                if not self._excludes:
                    out += (self._begin, b'"reasoning":', json, OPEN_END)
            case ToolCallStart(_, _, name):
                self.characters += len(name)
            case ToolCallDelta(_, arguments):
                self.characters += len(arguments)
            case LogprobsDelta(json) if self._wants_logprobs:
                self._logprobs = json
            case Finish(reason, usage):
                out += (self._begin, b'},"finish_reason":', encode(_reason(reason)), b"}]}\n\n")
                counts = encode(_usage(usage or Usage(0, 0)))
                out += (self._head, b'[],"usage":', counts, b"}\n\n", DONE)

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that broke off: always the same event, and no ``[DONE]``."""
        return b"data: " + STREAM_FAILURE + b"\n\n"


def _reason(reason: FinishReason) -> str:
    return _FINISH_REASONS.get(reason, "stop")


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
