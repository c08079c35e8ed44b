"""The hub of all chat formats: what a client asked for and what a model answered, in no vendor's words.

Made by the spokes (``formats`` for clients, ``providers`` for upstreams) and read by the edge.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Raw, Struct
from msgspec.json import encode

DEFAULT_MAX_TOKENS = 65_536
"""The output limit of a request that names none (contract: Chat completions, Request)."""

Dialect: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic_messages"]
"""In whose words a body is. The strict Kyara dialect is a subset of ``openai_chat`` and counts as it."""

SEALED = "kn1."
"""Begins the signatures that only the provider adapter which made them can read; none is sent on as it stands."""


class Role(StrEnum):
    """Who speaks. ``SYSTEM`` covers ``developer`` too: models are told instructions under either name."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(Struct, frozen=True, gc=False):
    """A piece of text, in the order of the message's parts."""

    text: str


class ImagePart(Struct, frozen=True, gc=False, kw_only=True):
    """A picture: either inline (``media_type`` and base64 ``data``) or at ``url``, which only a provider may fetch."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str | None = None


class DocumentPart(Struct, frozen=True, gc=False, kw_only=True):
    """A document as the client attached it: inline (``media_type`` and base64 ``data``) or at ``url``."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str | None = None


class ReasoningPart(Struct, frozen=True, gc=False):
    """Earlier reasoning of the model, handed back.

    ``signature`` is the provider's proof of it, opaque and possibly empty. With ``redacted`` the text is empty
    and ``signature`` holds the provider's sealed form.
    """

    text: str
    signature: str = ""
    redacted: bool = False


class ToolCall(Struct, frozen=True, gc=False):
    """A function the model called or wants called; ``arguments`` is a JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class ToolResultPart(Struct, frozen=True, gc=False):
    """What a called function gave back: text and pictures. ``failed`` marks an error the client reports."""

    call_id: str
    parts: "list[TextPart | ImagePart]"
    failed: bool = False

    def text(self) -> str:
        """All text of the result, pieces on lines of their own."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


Part: TypeAlias = TextPart | ImagePart | DocumentPart | ReasoningPart | ToolCall | ToolResultPart
"""What a message can hold. User: text, images, documents; assistant: reasoning, text, calls; tool: one result."""


class Message(Struct, frozen=True):
    """One turn of the conversation.

    A ``TOOL`` message holds exactly one ``ToolResultPart``; what a user says beside results is a message of its
    own after them, whatever the client's format.
    """

    role: Role
    parts: list[Part]

    def text(self) -> str:
        """All text of the turn."""
        return "".join(part.text for part in self.parts if type(part) is TextPart)


class FunctionTool(Struct, frozen=True, gc=False, kw_only=True):
    """A function the model may call. ``parameters`` is its JSON schema as the client wrote it, None without one."""

    name: str
    description: str | None = None
    parameters: Raw | None = None
    strict: bool | None = None


class ToolChoice(Struct, frozen=True, gc=False):
    """Whether the model must call: as it likes, never, any function, or the one named ``name``."""

    mode: Literal["auto", "none", "required", "function"]
    name: str = ""


class Effort(StrEnum):
    """Reasoning levels, weakest first (contract: Reasoning)."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class ReasoningWish(Struct, frozen=True, gc=False, kw_only=True):
    """What the client asked about reasoning, precedence between its fields settled.

    ``enabled`` None: not said. ``off_softly``: the client's way of turning it off means "as the provider likes" on
    providers other than Anthropic's format (Messages ``thinking: disabled``). ``exclude``: reason, but do not show it.
    """

    effort: Effort | None = None
    budget: int | None = None
    enabled: bool | None = None
    off_softly: bool = False
    exclude: bool = False


NO_WISH = ReasoningWish()


class OutputFormat(Struct, frozen=True, gc=False, kw_only=True):
    """JSON is wanted, perhaps of a schema (as the client wrote it)."""

    kind: Literal["json_object", "json_schema"]
    name: str | None = None
    schema: Raw | None = None
    strict: bool | None = None


class ChatRequest(Struct, frozen=True, kw_only=True):
    """A validated chat request.

    ``system`` is the merged system prompt (leading system turns; "" without one) and is not repeated in
    ``messages``; later system turns stay there. ``max_tokens`` is the asked limit, None when the client named none.
    ``input_tokens`` is the estimate of rule R26. ``fields`` is the client's own body, member by member and checked,
    for a provider that speaks ``dialect``: it takes what nobody here interprets from there. ``tools_elsewhere`` are
    tools that only such a provider knows, as sent. ``images`` and ``remote_images`` count pictures, the latter
    those at an address.
    """

    dialect: Dialect
    model: str
    messages: list[Message]
    input_tokens: int
    fields: dict[str, Raw]
    system: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    user: str | None = None
    tools: list[FunctionTool] = []
    tools_elsewhere: list[Raw] = []
    tool_choice: ToolChoice | None = None
    reasoning: ReasoningWish = NO_WISH
    output_format: OutputFormat | None = None
    cache_key: str | None = None
    betas: str = ""
    images: int = 0
    remote_images: int = 0

    @property
    def uses_tools(self) -> bool:
        """Whether a provider must understand tools: they are declared, or earlier calls are in the history."""
        if self.tools or self.tools_elsewhere:
            return True
        return any(
            message.role is Role.TOOL or any(type(part) is ToolCall for part in message.parts)
            for message in self.messages
        )


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


AnswerPart: TypeAlias = TextPart | ReasoningPart | ToolCall


class Answer(Struct, frozen=True, kw_only=True):
    """A whole answer, its parts in the model's order. ``usage`` is None when the provider told none.

    ``logprobs`` is the provider's own member of that name (JSON), None when it sent none.
    """

    parts: list[AnswerPart]
    finish_reason: FinishReason
    usage: Usage | None
    logprobs: Raw | None = None

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


class ToolCallDelta(Struct, frozen=True, gc=False):
    """A piece of the arguments of the call with that index; never empty, and every call gets at least one."""

    index: int
    arguments: str


class LogprobsDelta(Struct, frozen=True, gc=False):
    """The provider's ``logprobs`` member for the text piece right after it (JSON)."""

    json: bytes


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
    | Finish
)


def text_delta(text: str) -> TextDelta:
    """A text piece that did not come as JSON."""
    return TextDelta(text, encode(text))


def reasoning_delta(text: str) -> ReasoningDelta:
    """A reasoning piece that did not come as JSON."""
    return ReasoningDelta(text, encode(text))
