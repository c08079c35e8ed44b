"""The hub of all chat formats: what a client asked for and what a model answered, in no vendor's words.

Made by the spokes (``formats`` for clients, ``providers`` for upstreams) and read by the edge.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Raw, Struct
from msgspec.json import encode

DEFAULT_MAX_TOKENS = 65_536
"""The output limit of a request that names none (contract: Chat completions, Request)."""


class Role(StrEnum):
    """Who speaks. ``SYSTEM`` covers ``developer`` too: models are told instructions under either name."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(Struct, frozen=True, gc=False):
    """A piece of text, in the order of the message's parts."""

    text: str


Part: TypeAlias = TextPart
"""What a message can hold; a new kind of content joins this union."""


class Message(Struct, frozen=True):
    """One turn of the conversation."""

    role: Role
    parts: list[Part]

    def text(self) -> str:
        """All text of the turn."""
        return "".join(part.text for part in self.parts)


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A validated chat request.

    ``max_tokens`` is the asked limit, None when the client named none. ``input_tokens`` is the estimate
    of rule R26. ``fields`` is the client's own body, member by member and checked, for a provider that
    speaks the client's format: it takes what nobody here interprets from there.
    """

    model: str
    messages: list[Message]
    input_tokens: int
    fields: dict[str, Raw]
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    user: str | None = None


class FinishReason(StrEnum):
    """Why a model stopped (contract: Chat completions, Response)."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class Usage(Struct, frozen=True, gc=False):
    """Token counts. ``prompt`` includes ``cached`` and ``cache_write``; ``completion`` includes ``reasoning``."""

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


class ToolCall(Struct, frozen=True, gc=False):
    """A function the model wants called; ``arguments`` is a JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer. ``usage`` is None when the provider told none (the caller estimates)."""

    text: str | None
    finish_reason: FinishReason
    usage: Usage | None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []


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


class ToolCallStart(Struct, frozen=True, gc=False):
    """A function call opens. ``index`` counts the calls of the answer from 0."""

    index: int
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call with that index."""

    index: int
    arguments: str


class Finish(Struct, frozen=True, gc=False):
    """The answer is complete: the last event of every stream that did not fail."""

    finish_reason: FinishReason
    usage: Usage | None


StreamEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCallStart | ToolCallDelta | Finish


def text_delta(text: str) -> TextDelta:
    """A text piece that did not come as JSON."""
    return TextDelta(text, encode(text))
