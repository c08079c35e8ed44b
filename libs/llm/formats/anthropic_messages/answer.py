"""Renders whole answers in the Messages format, and the members that streams share with them.

Called by the edge with what a provider adapter brought, and by the stream writer; pure.
"""

from typing import Any

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import (
    RAW_ARGUMENTS,
    Answer,
    AnswerPart,
    ChatRequest,
    FinishReason,
    OpaqueEnding,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)
from libs.llm.formats.anthropic_messages.calls import is_object
from libs.llm.identity import Identity

DIALECT = "anthropic_messages"

_STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}


def render_answer(answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
    """The ``message`` object (contract: Messages, Response). ``usage`` is the answer's own or the caller's estimate."""
    return encode(
        {
            "id": identity.id,
            "type": "message",
            "role": "assistant",
            "model": identity.model,
            "content": [_block(part) for part in answer.parts if _is_shown(part)],
            "stop_reason": stop_reason(answer.finish_reason, answer.ending),
            "stop_sequence": None,
            "usage": usage_counts(usage, answer.ending),
        }
    )


def stop_reason(reason: FinishReason, ending: OpaqueEnding | None) -> str:
    """The contract's five, and ``pause_turn`` beside them.

    That one is an addition for providers' own tools: the client sends the answer back to let them go on.
    """
    own = ending.stop_reason if ending is not None and ending.dialect == DIALECT else ""
    return own or _STOP_REASONS[reason]


def usage_counts(usage: Usage, ending: OpaqueEnding | None = None) -> dict[str, Any]:
    """Tokens; ``input_tokens`` is what was neither read from nor written to the cache."""
    counts: dict[str, Any] = {
        "input_tokens": max(0, usage.prompt - usage.cached - usage.cache_write),
        "output_tokens": usage.completion,
    }
    if usage.tells_cache_write or usage.cache_write:
        counts["cache_creation_input_tokens"] = usage.cache_write
    if usage.tells_cached or usage.cached:
        counts["cache_read_input_tokens"] = usage.cached
    if ending is not None and ending.dialect == DIALECT:
        counts |= ending.usage
    return counts


def _is_shown(part: AnswerPart) -> bool:
    match part:
        case TextPart(text):
            return bool(text)
        case OpaquePart(dialect):
            return dialect == DIALECT
        case _:
            return True


def _block(part: AnswerPart) -> Any:
    match part:
        case OpaquePart(_, json):
            return json
        case TextPart(text, citations) if citations is not None:
            return {"type": "text", "text": text, "citations": citations}
        case TextPart(text):
            return {"type": "text", "text": text}
        case ReasoningPart(_, signature, redacted=True):
            return {"type": "redacted_thinking", "data": signature}
        case ReasoningPart(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": _input(arguments)}


def _input(arguments: str) -> Any:
    return Raw(arguments.encode()) if is_object(arguments) else {RAW_ARGUMENTS: arguments}
