"""What whole answers and streams of the Anthropic format share: stop reasons, token counts, inputs of calls.

Called by the decoders beside it.
"""

from typing import Annotated

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder, decode, encode

from libs.llm.canonical import Dialect, FinishReason, OpaqueEnding, Usage
from libs.llm.providers.replies import junk

NULL = Raw(b"null")
"""A raw member that is absent or null (``Raw | None`` is no type a decoder takes)."""

_MOST = 2**31 - 1
# No answer has more tokens; a larger count is an error of the provider, and would be billed.
_Count = Annotated[int, Meta(ge=0, le=_MOST)]

DIALECT: Dialect = "anthropic_messages"
PAUSE = "pause_turn"
_OWN = frozenset({"server_tool_use", "mcp_tool_use", "container_upload"})

_STOP_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
    # The provider's own tools are not done yet: other formats have no word for it but that the answer is cut short.
    PAUSE: FinishReason.LENGTH,
}


class _OutputDetails(Struct, gc=False):
    thinking_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _Usage(Struct, gc=False):
    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    output_tokens_details: _OutputDetails | None = None
    server_tool_use: Raw = NULL


_decode_usage = Decoder(_Usage | None).decode
_decode_text = Decoder(str).decode


def finish_reason(value: str | None, *, called: bool) -> FinishReason:
    """The contract's reason for a provider's own; a call made under ``end_turn`` still ends in ``tool_calls``."""
    reason = _STOP_REASONS.get(value or "end_turn", FinishReason.STOP)
    return FinishReason.TOOL_CALLS if called and reason is FinishReason.STOP else reason


class Tally:
    """The token counts of one answer. Each telling is of the whole answer so far, so they replace one another."""

    def __init__(self) -> None:
        self._usable = True
        self._input = self._output = self._read = self._written = self._thinking = 0
        self._server_tools: Raw | None = None
        self._tells_read = self._tells_written = self._tells_output = False

    def add(self, raw: Raw, *, final: bool) -> None:
        """Take a ``usage`` member. ``final`` false: its output count is only that of a beginning."""
        try:
            told = _decode_usage(raw)
        except (DecodeError, RecursionError):
            self._usable = False
            return
        if told is None:
            return
        # Some servers repeat a member as 0 that they told before: counts of a whole never shrink to nothing.
        self._input = told.input_tokens or self._input
        self._read = told.cache_read_input_tokens or self._read
        self._written = told.cache_creation_input_tokens or self._written
        self._tells_read |= told.cache_read_input_tokens is not None
        self._tells_written |= told.cache_creation_input_tokens is not None
        if final and told.output_tokens is not None:
            self._output, self._tells_output = told.output_tokens, True
        if told.server_tool_use != NULL:
            self._server_tools = own_json(told.server_tool_use) or self._server_tools
        details = told.output_tokens_details
        if details is not None:
            self._thinking = details.thinking_tokens or details.reasoning_tokens or self._thinking

    def further_counts(self) -> dict[str, Raw]:
        """Members of the counts that only clients of the same format know."""
        return {} if self._server_tools is None else {"server_tool_use": self._server_tools}

    def usage(self) -> Usage | None:
        """All counts; None when absent, all zero or unusable, so that the caller estimates instead."""
        prompt = self._input + self._read + self._written
        if not self._usable or not self._tells_output or prompt > _MOST or not (prompt or self._output):
            return None
        return Usage(
            prompt=prompt,
            completion=self._output,
            cached=self._read,
            cache_write=self._written,
            reasoning=min(self._thinking, self._output),
            tells_cached=self._tells_read,
            tells_cache_write=self._tells_written,
        )


def ending_of(stop_reason: str | None, tally: Tally) -> OpaqueEnding | None:
    """What only a Messages client can make use of: a pause, and how often the provider's own tools ran."""
    usage = tally.further_counts()
    if stop_reason != PAUSE and not usage:
        return None
    return OpaqueEnding(DIALECT, PAUSE if stop_reason == PAUSE else "", usage)


def is_own(kind: str | None) -> bool:
    """Whether blocks of that type are made by the provider's own tools; those of a type nobody knows are skipped."""
    return kind in _OWN or (kind or "").endswith("_tool_result")


def own_json(raw: Raw) -> Raw | None:
    """The provider's own JSON on one line, None for what is none: members nobody reads are not checked before."""
    if raw == NULL:
        return None
    try:
        return Raw(encode(decode(raw)))
    except (DecodeError, RecursionError, UnicodeError):
        return None


def arguments_of(given: Raw) -> str:
    """A call's ``input`` as JSON text, also from servers that send the text itself; "" for none.

    Raises ``ProviderFailure`` for what is no text: a call without its arguments must not reach a client.
    """
    text = bytes(given).strip()
    if text == b"null":
        return ""
    try:
        return _decode_text(text) if text[:1] == b'"' else text.decode()
    except (DecodeError, UnicodeDecodeError):
        raise junk("input of a call is not text") from None
