"""The parts of OpenAI-format answers that whole answers and chunks share: usage, finish reasons, calls, logprobs.

Called by the decoders beside it.
"""

import secrets
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder, decode, encode

from libs.llm.canonical import FinishReason, Usage

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    # Spellings of servers that are OpenAI's in the rest.
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "function_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
BROKEN_OFF = frozenset({"error", "network_error", "insufficient_system_resource"})
"""Finish reasons that say that the provider failed in the middle of the answer."""

# No answer has more tokens; a larger count is an error of the provider, and would be billed.
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _PromptDetails(Struct, gc=False):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: _Count | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    total_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    # Where DeepSeek and Moonshot have it.
    prompt_cache_hit_tokens: _Count | None = None
    cached_tokens: _Count | None = None


NULL = Raw(b"null")
"""A raw member that is absent or null (``Raw | None`` is no type a decoder takes)."""

_decode_usage = Decoder(_Usage | None).decode


class Function(Struct, gc=False):
    """A called function, or a piece of one."""

    name: str | None = None
    arguments: Any = None


class Custom(Struct, gc=False):
    """A called tool that takes any text, or a piece of one."""

    name: str | None = None
    input: str | None = None


class Call(Struct, gc=False):
    """A tool call, or a piece of one; of a type nobody knows it has neither."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None


def finish_reason(value: str | None, *, called: bool) -> FinishReason:
    """The contract's reason for a provider's own; a call made under ``stop`` still ends in ``tool_calls``."""
    reason = _FINISH_REASONS.get((value or "stop").lower(), FinishReason.STOP)
    return FinishReason.TOOL_CALLS if called and reason is FinishReason.STOP else reason


def usage_of(raw: Raw) -> Usage | None:
    """The token counts; None when absent, all zero or unusable, so that the caller estimates instead.

    One count that is negative, not whole or above 2**31-1 makes them all unusable.
    """
    try:
        wire = _decode_usage(raw)
    except (DecodeError, RecursionError):
        return None
    if wire is None or wire.prompt_tokens is None or wire.completion_tokens is None:
        return None
    prompt, completion = wire.prompt_tokens, wire.completion_tokens
    if not prompt and not completion:
        return None
    details = wire.prompt_tokens_details or _PromptDetails()
    told = (details.cached_tokens, wire.prompt_cache_hit_tokens, wire.cached_tokens)
    cached = min(next((count for count in told if count), 0), prompt)
    reasoning = (wire.completion_tokens_details or _CompletionDetails()).reasoning_tokens or 0
    # Some servers count reasoning beside the completion: then only all three make up the total.
    if reasoning and wire.total_tokens == prompt + completion + reasoning:
        completion += reasoning
    return Usage(
        prompt=prompt,
        completion=completion,
        cached=cached,
        cache_write=min(details.cache_write_tokens or 0, prompt - cached),
        reasoning=min(reasoning, completion),
        tells_cached=any(count is not None for count in told),
        tells_cache_write=details.cache_write_tokens is not None,
    )


def arguments_text(arguments: Any) -> str:
    """Arguments as the JSON text clients expect, also from servers that send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else encode(arguments).decode()


def new_call_id() -> str:
    """An id for a call that came without one; no other call of the conversation has it."""
    return f"call_{secrets.token_hex(12)}"


def logprobs_of(raw: Raw) -> bytes | None:
    """The ``logprobs`` of a choice as JSON of one line, checked through and through; None without any."""
    if raw == NULL:
        return None
    try:
        return encode(decode(raw))
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return None
