"""The parts of Responses answers that whole answers and streams share: items, endings, usage, errors.

Called by the decoders beside it.
"""

from typing import Annotated, Any

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder, encode

from libs.llm.canonical import AnswerPart, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_responses.items import seal_reasoning
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk

NULL = Raw(b"null")
"""A raw member that is absent or null."""

# No answer has more tokens; a larger count is an error of the provider, and would be billed.
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_KNOWN = frozenset({"message", "reasoning", "function_call"})


class Piece(Struct, gc=False):
    """A piece of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(Struct):
    """An output item of a kind that is read here."""

    type: str
    id: str | None = None
    content: list[Piece] | None = None
    summary: list[Piece] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None

    def text(self) -> str:
        """The text of a message; a refusal is text."""
        return "".join(piece.text or piece.refusal or "" for piece in self.content or [])

    def reasoning(self) -> str:
        """The summary of the reasoning, or what servers that hide nothing tell in its place."""
        return "\n\n".join(piece.text for piece in self.summary or self.content or [] if piece.text)

    def signature(self, upstream: str) -> str:
        """The sealed form for later turns, "" when the provider sent none."""
        return seal_reasoning(upstream, self.id, self.encrypted_content) if self.encrypted_content else ""


class _Kind(Struct, gc=False):
    type: str = ""


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class Response(Struct):
    """A response object."""

    status: str | None = None
    output: list[Raw] | None = None
    usage: Raw = NULL
    error: Raw = NULL
    incomplete_details: _Incomplete | None = None


class _InputDetails(Struct, gc=False):
    cached_tokens: _Count | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: _Count | None = None


class _Usage(Struct, gc=False):
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Error(Struct, gc=False):
    code: Any = None
    message: Any = None
    type: Any = None


_decode_kind = Decoder(_Kind).decode
_decode_item = Decoder(Item).decode
_decode_usage = Decoder(_Usage | None).decode
_decode_error = Decoder(_Error).decode


def item_of(raw: Raw) -> Item | None:
    """The item, None for a kind that has no place in an answer; raises ``DecodeError``."""
    return _decode_item(raw) if _decode_kind(raw).type in _KNOWN else None


def part_of(item: Item, upstream: str, place: int) -> AnswerPart | None:
    """The item as a part of the answer, None when it holds nothing. ``place`` names a call without an id."""
    if item.type == "function_call":
        return ToolCall(call_id(item, place), call_name(item), arguments_text(item.arguments) or "{}")
    if item.type == "message":
        text = item.text()
        return TextPart(text) if text else None
    text, signature = item.reasoning(), item.signature(upstream)
    return ReasoningPart(text, signature) if text or signature else None


def call_id(item: Item, place: int) -> str:
    """The id a result will name."""
    return item.call_id or item.id or f"call_{place}"


def call_name(item: Item) -> str:
    """The function's name; raises ``ProviderFailure`` junk without one."""
    if not item.name:
        raise junk("function call without a name")
    return item.name


def arguments_text(arguments: Any) -> str:
    """Arguments as the JSON text clients expect, also from servers that send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else encode(arguments).decode()


def finish_reason(response: Response, status: str, *, called: bool) -> FinishReason:
    """Why a response of that ``status`` ended; raises ``ProviderFailure`` when it did not end well."""
    if status == "completed":
        return FinishReason.TOOL_CALLS if called else FinishReason.STOP
    if status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return FinishReason.CONTENT_FILTER if reason == "content_filter" else FinishReason.LENGTH
    if status == "failed":
        raise failure_of_error(response.error)
    raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="response not completed")


def failure_of_error(error: Raw) -> ProviderFailure:
    """What the error object of a failed response means: its codes are others than those of error statuses."""
    try:
        found = _decode_error(error)
    except DecodeError:
        return failure_in_answer(bytes(error))
    code = found.code if isinstance(found.code, str) else ""
    if code == "invalid_prompt":
        return ProviderFailure(FailureKind.REJECTED, code="content_policy_violation", detail=code)
    if code.startswith("invalid_") or "image" in code:
        return failure_in_answer(encode({"type": "invalid_request_error", "code": code, "message": found.message}))
    return failure_in_answer(bytes(error))


def usage_of(raw: Raw) -> Usage | None:
    """The token counts; None when absent, all zero or unusable, so that the caller estimates instead."""
    try:
        wire = _decode_usage(raw)
    except (DecodeError, RecursionError):
        return None
    if wire is None or wire.input_tokens is None or wire.output_tokens is None:
        return None
    prompt, completion = wire.input_tokens, wire.output_tokens
    if not prompt and not completion:
        return None
    cached = wire.input_tokens_details.cached_tokens if wire.input_tokens_details else None
    reasoning = wire.output_tokens_details.reasoning_tokens if wire.output_tokens_details else None
    return Usage(
        prompt=prompt,
        completion=completion,
        cached=min(cached or 0, prompt),
        reasoning=min(reasoning or 0, completion),
        tells_cached=cached is not None,
    )
