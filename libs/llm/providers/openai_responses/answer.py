"""Reads a whole answer of a Responses provider.

Called by the adapter; pure.
"""

from msgspec import DecodeError
from msgspec.json import Decoder

from libs.llm.canonical import Answer, AnswerPart, ReasoningPart, ToolCall
from libs.llm.providers.openai_responses.wire import (
    NULL,
    Response,
    failure_of_error,
    finish_reason,
    item_of,
    part_of,
    usage_of,
)
from libs.llm.providers.replies import junk, settled_reason

_decode = Decoder(Response).decode


def read_answer(body: bytes, upstream: str, max_tokens: int) -> Answer:
    """The answer in a 200's body; raises ``ProviderFailure`` for a failed response and for anything else."""
    try:
        response = _decode(body)
        items = [item_of(raw) for raw in response.output or []]
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise junk("body is not an answer") from None
    if response.error != NULL:
        raise failure_of_error(response.error)
    if response.output is None:
        raise junk("answer without output")
    parts: list[AnswerPart] = []
    for item in items:
        part = part_of(item, upstream, len(parts)) if item is not None else None
        if part is not None:
            parts.append(part)
    called = any(isinstance(part, ToolCall) for part in parts)
    reason = finish_reason(response, response.status or "completed", called=called)
    usage = usage_of(response.usage)
    said = any(not isinstance(part, ReasoningPart) for part in parts)
    return Answer(parts=parts, finish_reason=settled_reason(reason, usage, max_tokens, said=said), usage=usage)
