"""The members a body of the strict dialect may have; any other is refused.

Filled by the body decoder; read by ``request``.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

LONGEST_SESSION = 256


class Turn(Struct, gc=False, forbid_unknown_fields=True):
    """A message. The three kinds of reasoning belong to assistant turns alone."""

    role: str
    content: str
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[Raw] | None = None


class Reasoning(Struct, gc=False, forbid_unknown_fields=True):
    """The ``reasoning`` member."""

    effort: str | None = None
    max_tokens: int | None = None
    enabled: bool | None = None
    exclude: bool | None = None


class Body(Struct, gc=False, forbid_unknown_fields=True):
    """The request table."""

    model: str
    messages: list[Turn]
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Raw] | None = None
    reasoning: Reasoning | None = None
    reasoning_effort: str | None = None
    session_id: Annotated[str, Meta(max_length=LONGEST_SESSION)] | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
