"""Reads a whole answer of Gemini.

Called by the adapter; pure.
"""

from msgspec import DecodeError
from msgspec.json import Decoder

from libs.llm.canonical import Answer, AnswerPart, ReasoningPart, TextPart, ToolCall
from libs.llm.providers.gemini.contents import seal_call
from libs.llm.providers.gemini.wire import (
    NULL,
    Candidate,
    Part,
    Response,
    call_id,
    call_name,
    finish_reason,
    usage_of,
)
from libs.llm.providers.replies import junk, settled_reason
from libs.llm.providers.template import text_of

_decode = Decoder(Response | list[Response]).decode


def read_answer(body: bytes, upstream: str, max_tokens: int) -> Answer:
    """The answer in a 200's body; raises ``ProviderFailure`` for an error, a blocked prompt and anything else."""
    try:
        found = _decode(body)
        response = found if isinstance(found, Response) else found[0]
        response.check()
        if not response.candidates:
            raise junk("answer without candidates")
        candidate = response.candidates[0]
        parts = _parts(candidate, upstream)
    except (DecodeError, RecursionError, UnicodeDecodeError, IndexError):
        raise junk("body is not an answer") from None
    called = any(isinstance(part, ToolCall) for part in parts)
    reason = finish_reason(candidate.finish_reason or "STOP", called=called)
    usage = usage_of(response.usage_metadata)
    said = any(not isinstance(part, ReasoningPart) for part in parts)
    return Answer(parts=parts, finish_reason=settled_reason(reason, usage, max_tokens, said=said), usage=usage)


def _parts(candidate: Candidate, upstream: str) -> list[AnswerPart]:
    """The parts, neighbouring texts of one kind joined."""
    parts: list[AnswerPart] = []
    for part in candidate.parts:
        if part.function_call is not None:
            _add_proof(parts, part, upstream)
            call = part.function_call
            parts.append(ToolCall(call_id(call), call_name(call), call.arguments()))
        elif part.text != NULL and (text := text_of(part.text)):
            _add_text(parts, text, thought=bool(part.thought))
    return parts


def _add_proof(parts: list[AnswerPart], part: Part, upstream: str) -> None:
    """The proof of a call goes with the reasoning before it."""
    if not part.thought_signature:
        return
    signature = seal_call(upstream, part.thought_signature)
    last = parts[-1] if parts else None
    if isinstance(last, ReasoningPart):
        parts[-1] = ReasoningPart(last.text, signature)
    else:
        parts.append(ReasoningPart("", signature))


def _add_text(parts: list[AnswerPart], text: str, *, thought: bool) -> None:
    last = parts[-1] if parts else None
    if thought:
        if isinstance(last, ReasoningPart):
            parts[-1] = ReasoningPart(last.text + text)
        else:
            parts.append(ReasoningPart(text))
    elif isinstance(last, TextPart):
        parts[-1] = TextPart(last.text + text)
    else:
        parts.append(TextPart(text))
