"""Reads a whole answer of an Anthropic-format provider.

Called by the adapter; pure.
"""

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import Answer, AnswerPart, OpaquePart, ReasoningPart, TextPart, ToolCall
from libs.llm.providers.anthropic.wire import (
    DIALECT,
    NULL,
    Tally,
    arguments_of,
    ending_of,
    finish_reason,
    is_own,
    own_json,
)
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk, settled_reason


class _Message(Struct):
    type: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    usage: Raw = NULL
    error: Raw = NULL


class _Kind(Struct, gc=False):
    type: str


class _Text(Struct, gc=False):
    text: str
    citations: Raw = NULL


class _Thinking(Struct, gc=False):
    thinking: str = ""
    signature: str | None = None


class _Redacted(Struct, gc=False):
    data: str


class _ToolUse(Struct, gc=False):
    name: str
    id: str | None = None
    input: Raw = NULL


_decode = Decoder(_Message).decode
_decode_kind = Decoder(_Kind).decode
_decode_text = Decoder(_Text).decode
_decode_thinking = Decoder(_Thinking).decode
_decode_redacted = Decoder(_Redacted).decode
_decode_tool_use = Decoder(_ToolUse).decode


def read_answer(body: bytes, max_tokens: int) -> Answer:
    """The answer in a 200's body; raises ``ProviderFailure`` for an error object and for anything else."""
    try:
        wire = _decode(body)
        if wire.error != NULL:
            raise failure_in_answer(bytes(wire.error))
        if wire.content is None:
            raise junk("answer without content")
        parts = [part for place, block in enumerate(wire.content) if (part := _part(block, place)) is not None]
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise junk("body is not an answer") from None
    tally = Tally()
    tally.add(wire.usage, final=True)
    usage = tally.usage()
    called = any(type(part) is ToolCall for part in parts)
    said = called or any(type(part) is TextPart for part in parts)
    reason = settled_reason(finish_reason(wire.stop_reason, called=called), usage, max_tokens, said=said)
    return Answer(parts=parts, finish_reason=reason, usage=usage, ending=ending_of(wire.stop_reason, tally))


def _part(block: Raw, place: int) -> AnswerPart | None:
    """A block as a part of the answer; None for an empty one."""
    match _decode_kind(block).type:
        case "text":
            said = _decode_text(block)
            citations = None if said.citations == NULL else own_json(said.citations)
            return TextPart(said.text, citations) if said.text else None
        case "thinking":
            thinking = _decode_thinking(block)
            signature = thinking.signature or ""
            return ReasoningPart(thinking.thinking, signature) if thinking.thinking or signature else None
        case "redacted_thinking":
            return ReasoningPart("", _decode_redacted(block).data, redacted=True)
        case "tool_use":
            call = _decode_tool_use(block)
            if not call.name:
                raise junk("tool call without a name")
            return ToolCall(call.id or f"call_{place}", call.name, arguments_of(call.input) or "{}")
        case kind if is_own(kind):
            own = own_json(block)
            return None if own is None else OpaquePart(DIALECT, own)
        case _:
            return None
