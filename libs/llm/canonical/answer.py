"""What a model answered, whole or as the events of a stream, in no vendor's words.

Made by provider adapters, rendered by client formats.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Raw, Struct
from msgspec.json import encode

from libs.llm.canonical.conversation import ReasoningPart, TextPart, ToolCall
from libs.llm.canonical.request import Dialect


class FinishReason(StrEnum):
    """Why a model stopped. ``STOP_SEQUENCE`` only where a provider tells it apart from ``STOP``."""

    STOP = "stop"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class Usage(Struct, frozen=True, gc=False):
    """Token counts. ``prompt`` includes ``cached`` and ``cache_write``; ``completion`` includes ``reasoning``.

    ``tells_cached`` and ``tells_cache_write``: the provider named the figure, be it 0 (contract: Messages, Response).
    """

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    tells_cached: bool = False
    tells_cache_write: bool = False


class OpaquePart(Struct, frozen=True, gc=False):
    """A block that only clients of ``dialect`` know, as the provider wrote it (JSON); all others skip it."""

    dialect: Dialect
    json: Raw


AnswerPart: TypeAlias = TextPart | ReasoningPart | ToolCall | OpaquePart


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer, its parts in the model's order. ``usage`` is None when the provider told none.

    ``logprobs`` is the provider's own member of that name (JSON), None when it sent none. ``ending``: what else
    clients of the provider's dialect are told.
    """

    parts: list[AnswerPart]
    finish_reason: FinishReason
    usage: Usage | None
    logprobs: Raw | None = None
    ending: "OpaqueEnding | None" = None

    def text(self) -> str:
        """All text, "" without any."""
        return "".join(part.text for part in self.parts if type(part) is TextPart)

    def reasoning(self) -> str:
        """All reasoning that can be shown, "" without any."""
        return "".join(part.text for part in self.parts if type(part) is ReasoningPart)

    def tool_calls(self) -> list[ToolCall]:
        """The calls, in order."""
        return [part for part in self.parts if type(part) is ToolCall]


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the answer. ``json`` is ``text`` as a JSON string, quotes included.

    Both forms travel because every format is JSON: a provider's own bytes go out again unchanged.
    """

    text: str
    json: bytes


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of the reasoning that comes before the answer; the same two forms."""

    text: str
    json: bytes


class ReasoningEnd(Struct, frozen=True, gc=False):
    """The reasoning so far is one part, proved by ``signature`` (may be empty).

    Providers without such proofs send none.
    """

    signature: str


class RedactedReasoning(Struct, frozen=True, gc=False):
    """Reasoning the provider shows only in its sealed form."""

    data: str


class ToolCallStart(Struct, frozen=True, gc=False):
    """A function call opens. ``index`` counts the calls of the answer from 0.

    Calls may overlap: pieces of an earlier call can follow the start of a later one.
    """

    index: int
    id: str
    name: str
    custom: bool = False


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call with that index; never empty, and every call but a custom one has some."""

    index: int
    arguments: str


class LogprobsDelta(Struct, frozen=True, gc=False):
    """The provider's ``logprobs`` member for the text piece right after it (JSON)."""

    json: bytes


class TextEnd(Struct, frozen=True, gc=False):
    """The provider ended a block of text: text that follows is a block of its own where a format has blocks."""


class CitationDelta(Struct, frozen=True, gc=False):
    """A source of the text around it: the provider's own delta (JSON) for clients of ``dialect``."""

    dialect: Dialect
    json: bytes


class OpaqueStart(Struct, frozen=True, gc=False):
    """A block opens that only clients of ``dialect`` know, as the provider wrote it (JSON)."""

    dialect: Dialect
    json: bytes


class OpaqueDelta(Struct, frozen=True, gc=False):
    """The provider's own delta (JSON) of the opaque block that was opened last."""

    json: bytes


class OpaqueEnding(Struct, frozen=True):
    """What only clients of ``dialect`` are told at the end; in a stream it comes right before ``Finish``.

    ``stop_reason`` replaces that of the finish, "" for none; ``usage`` are further members of the counts (JSON).
    """

    dialect: Dialect
    stop_reason: str
    usage: dict[str, Raw]


class Finish(Struct, frozen=True, gc=False):
    """The answer is complete: the last event of every stream that did not fail."""

    finish_reason: FinishReason
    usage: Usage | None


StreamEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ReasoningEnd
    | RedactedReasoning
    | ToolCallStart
    | ToolCallDelta
    | LogprobsDelta
    | TextEnd
    | CitationDelta
    | OpaqueStart
    | OpaqueDelta
    | OpaqueEnding
    | Finish
)


def text_delta(text: str) -> TextDelta:
    """A text piece that did not come as JSON."""
    return TextDelta(text, encode(text))


def reasoning_delta(text: str) -> ReasoningDelta:
    """A reasoning piece that did not come as JSON."""
    return ReasoningDelta(text, encode(text))
