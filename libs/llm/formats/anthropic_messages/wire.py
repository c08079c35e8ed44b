"""The shapes of a Messages body, as far as they are interpreted (contract: Messages, Request).

Decoded by the reader of requests; what a block, tool or source of unknown type holds stays untouched.
"""

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from libs.llm.formats.body import NULL


class Block(Struct, gc=False):
    """A content block. All but its type is untyped: in a block of a type nobody knows the names may mean anything."""

    type: str
    text: Any = None
    source: Raw = NULL
    title: Any = None
    id: Any = None
    name: Any = None
    input: Raw = NULL
    tool_use_id: Any = None
    content: Raw = NULL
    is_error: Any = None
    thinking: Any = None
    signature: Any = None
    data: Any = None


class Source(Struct, gc=False):
    """Where the content of an image or document is."""

    type: str
    media_type: Any = None
    data: Any = None
    url: Any = None


class Turn(Struct, gc=False):
    """One element of ``messages``."""

    role: str
    content: str | list[Block]


class Tool(Struct, gc=False):
    """One element of ``tools``: a function, or what only its type tells."""

    type: str | None = None
    name: Any = None
    description: Any = None
    input_schema: Raw = NULL
    strict: Any = None


class Choice(Struct, gc=False):
    """``tool_choice``."""

    type: str
    name: Any = None


class Thinking(Struct, gc=False):
    """``thinking``."""

    type: str
    budget_tokens: int | None = None


class Format(Struct, gc=False):
    """``output_config.format``, and its older spelling ``output_format``."""

    type: str
    schema: Raw = NULL


class OutputConfig(Struct, gc=False):
    """``output_config``."""

    effort: str | None = None
    format: Format | None = None


class Body(Struct, gc=False):
    """The body. ``model`` and ``messages`` are required, but with a default: a missing one is refused in our words."""

    model: str | None = None
    messages: list[Turn] | None = None
    system: str | list[Block] | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None
    metadata: Raw = NULL


decode_content = Decoder(str | list[Block]).decode
"""What a ``tool_result`` block holds."""

decode_source = Decoder(Source).decode
"""The ``source`` of an image or document."""


def is_object(raw: Raw) -> bool:
    """Whether a raw member is a JSON object."""
    return memoryview(raw)[0] == ord("{")
