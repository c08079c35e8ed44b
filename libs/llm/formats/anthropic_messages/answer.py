"""Renders whole answers in the Messages format, and the members that streams share with them.

Called by the edge with what a provider adapter brought, and by the stream writer; pure.
"""

from typing import Any

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import Answer, AnswerPart, ChatRequest, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.formats.anthropic_messages.calls import is_object
from libs.llm.identity import Identity

STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}
RAW_ARGUMENTS = "raw_arguments"
"""The only member of a ``tool_use`` input whose arguments are no JSON object: what the model wrote, as a string."""


def render_answer(answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
    """The ``message`` object (contract: Messages, Response). ``usage`` is the answer's own or the caller's estimate."""
    return encode(
        {
            "id": identity.id,
            "type": "message",
            "role": "assistant",
            "model": identity.model,
            "content": [_block(part) for part in answer.parts if type(part) is not TextPart or part.text],
            "stop_reason": STOP_REASONS[answer.finish_reason],
            "stop_sequence": None,
            "usage": usage_counts(usage),
        }
    )


def usage_counts(usage: Usage) -> dict[str, int]:
    """Tokens; ``input_tokens`` is what was neither read from nor written to the cache."""
    counts = {
        "input_tokens": max(0, usage.prompt - usage.cached - usage.cache_write),
        "output_tokens": usage.completion,
    }
    if usage.tells_cache_write or usage.cache_write:
        counts["cache_creation_input_tokens"] = usage.cache_write
    if usage.tells_cached or usage.cached:
        counts["cache_read_input_tokens"] = usage.cached
    return counts


def _block(part: AnswerPart) -> dict[str, Any]:
    match part:
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
