"""The parts of Gemini's answers that whole answers and streams share: chunks, endings, usage.

Called by the decoders beside it.
"""

from typing import Annotated
from uuid import uuid4

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder
from msgspec.json import format as compact

from libs.llm.canonical import FinishReason, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.gemini.errors import failure_of_object
from libs.llm.providers.replies import junk

NULL = Raw(b"null")
"""A raw member that is absent or null."""

_FINISH_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "SAFETY": FinishReason.CONTENT_FILTER,
    "RECITATION": FinishReason.CONTENT_FILTER,
    "LANGUAGE": FinishReason.CONTENT_FILTER,
    "BLOCKLIST": FinishReason.CONTENT_FILTER,
    "PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "SPII": FinishReason.CONTENT_FILTER,
    "MODEL_ARMOR": FinishReason.CONTENT_FILTER,
    "IMAGE_SAFETY": FinishReason.CONTENT_FILTER,
    "IMAGE_PROHIBITED_CONTENT": FinishReason.CONTENT_FILTER,
    "IMAGE_RECITATION": FinishReason.CONTENT_FILTER,
}
_BROKEN_OFF = frozenset(
    {
        "OTHER",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    }
)
"""Finish reasons of answers that another attempt may bring to an end."""

# No answer has more tokens; a larger count is an error of the provider, and would be billed.
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class FunctionCall(Struct, gc=False):
    """A called function; only newer models give it an id."""

    id: str | None = None
    name: str = ""
    args: Raw = NULL

    def arguments(self) -> str:
        """The arguments as a JSON text; raises ``DecodeError``."""
        return compact(bytes(self.args), indent=-1).decode() if self.args != NULL else "{}"


class Part(Struct, gc=False, rename="camel"):
    """A piece of the answer."""

    # Raw: the string goes out to the client as it came.
    text: Raw = NULL
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class _Content(Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(Struct, gc=False, rename="camel"):
    """One answer, or what a chunk adds to it."""

    content: _Content | None = None
    finish_reason: str | None = None

    @property
    def parts(self) -> list[Part]:
        return (self.content.parts if self.content else None) or []


class _Feedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None


class Response(Struct, gc=False, rename="camel"):
    """A whole answer or a chunk of one."""

    candidates: list[Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: Raw = NULL
    error: Raw = NULL

    def check(self) -> None:
        """Raise what it means when it holds an error, or when the prompt itself was blocked."""
        if self.error != NULL:
            raise failure_of_object(bytes(self.error))
        if self.prompt_feedback is not None and self.prompt_feedback.block_reason:
            raise ProviderFailure(
                FailureKind.REJECTED, status=200, code="content_policy_violation", detail="prompt blocked"
            )


class _Usage(Struct, gc=False, rename="camel"):
    prompt_token_count: _Count | None = None
    tool_use_prompt_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None
    candidates_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None


_decode_usage = Decoder(_Usage | None).decode


def call_id(call: FunctionCall) -> str:
    """The id a result will name; one that no other call has where the service gave none."""
    return call.id or f"call_{uuid4().hex[:24]}"


def call_name(call: FunctionCall) -> str:
    """The function's name; raises ``ProviderFailure`` junk without one."""
    if not call.name:
        raise junk("function call without a name")
    return call.name


def finish_reason(value: str, *, called: bool) -> FinishReason:
    """The contract's reason for Gemini's; raises ``ProviderFailure`` when the answer broke off."""
    if value in _BROKEN_OFF:
        raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail=f"finish reason {value}")
    reason = _FINISH_REASONS.get(value, FinishReason.STOP)
    return FinishReason.TOOL_CALLS if called and reason is FinishReason.STOP else reason


def usage_of(raw: Raw) -> Usage | None:
    """The token counts; None when absent, all zero or unusable, so that the caller estimates instead.

    A count of nothing is left out by the service; without any of the output there is none to bill by.
    """
    try:
        wire = _decode_usage(raw)
    except (DecodeError, RecursionError):
        return None
    if wire is None or wire.prompt_token_count is None:
        return None
    if wire.candidates_token_count is None and wire.thoughts_token_count is None:
        return None
    prompt = wire.prompt_token_count + (wire.tool_use_prompt_token_count or 0)
    reasoning = wire.thoughts_token_count or 0
    completion = (wire.candidates_token_count or 0) + reasoning
    if not prompt and not completion:
        return None
    cached = wire.cached_content_token_count
    return Usage(
        prompt=prompt,
        completion=completion,
        cached=min(cached or 0, prompt),
        reasoning=reasoning,
        tells_cached=cached is not None,
    )
