"""A validated chat request, in no vendor's words.

Made by client formats, read by the edge and by provider adapters.
"""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from libs.llm.canonical.conversation import Message, Role, ToolCall

DEFAULT_MAX_TOKENS = 65_536
"""The output limit of a request that names none (contract: Chat completions, Request)."""

Dialect: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic_messages"]
"""In whose words a body is. The strict Kyara dialect is a subset of ``openai_chat`` and counts as it."""


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
