"""What is read of a Chat completions body, typed; all else of it stays raw.

Filled by the body decoder; read by the modules beside this one.
"""

from typing import Any

from msgspec import Raw, Struct

from libs.llm.formats.body import NULL


class Part(Struct, gc=False):
    """A content part of any type."""

    type: str
    # Untyped, since in a part of a type nobody knows these names may mean anything.
    text: Any = None
    refusal: Any = None
    image_url: Any = None
    file: Any = None


class Turn(Struct, gc=False):
    """A message of any role."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: Raw = NULL
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class ReasoningObject(Struct, gc=False):
    """The ``reasoning`` member (contract: Reasoning, The reasoning object)."""

    effort: str | None = None
    enabled: bool | None = None
    max_tokens: int | None = None
    exclude: bool | None = None


class JsonSchema(Struct, gc=False):
    """``response_format.json_schema``."""

    name: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class ResponseFormat(Struct, gc=False):
    """The ``response_format`` member."""

    type: str
    json_schema: JsonSchema | None = None


class Body(Struct, gc=False):
    """The request table. Required members have defaults too: the message for a missing one is then ours."""

    model: str | None = None
    messages: list[Turn] | None = None
    stream: bool | None = None
    stream_options: dict[str, Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    user: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    reasoning: ReasoningObject | None = None
    prompt_cache_key: Any = None
