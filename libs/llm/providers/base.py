"""The one interface behind which every kind of provider stands.

Implemented by the modules beside this one; called by the edge's attempt loop.
"""

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from msgspec import Struct

from libs.llm.canonical import Answer, ChatRequest, StreamEvent, Usage
from libs.llm.reasoning import AS_IS, ReasoningControl


class Abilities(Struct, frozen=True, gc=False, kw_only=True):
    """What a provider is known to understand beside plain chat (from the catalogue).

    ``json_format``: its own field for structured output. ``cache_marks``: it caches only what is marked.
    ``adaptive_thinking``: of Anthropic's format, it takes a level of thinking in place of a budget.
    """

    json_format: bool = False
    cache_marks: bool = False
    adaptive_thinking: bool = False


class Target(Struct, frozen=True, kw_only=True):
    """Where one attempt goes. ``credential`` is secret; the four waits are in seconds.

    ``first_byte_s`` runs from the request being sent to the first byte of the answer's body, ``idle_s``
    between any two later bytes, ``content_s`` while bytes come that say nothing (comments, pings, spaces): to the
    first event of an answer, between two, and to the end of a whole one. ``upstream`` names provider and credential:
    what only that credential can read (encrypted reasoning) is handed back to no other. ``reasoning`` is the client's
    wish as this model can have it.
    """

    base_url: str
    model: str
    credential: str = ""
    upstream: str = ""
    connect_s: float = 5.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    content_s: float = 600.0
    abilities: Abilities = Abilities()
    reasoning: ReasoningControl = AS_IS


class Told:
    """What a provider has told of its usage, for whoever leaves its stream before the end."""

    __slots__ = ("usage",)

    def __init__(self) -> None:
        self.usage: Callable[[], Usage | None] = lambda: None


class ProviderAdapter(Protocol):
    """Translates one provider format. Every failure is a ``ProviderFailure``; cancelling ends the call upstream."""

    async def complete(self, request: ChatRequest, target: Target, max_tokens: int) -> Answer:
        """Ask for a whole answer. ``max_tokens`` is the limit in force, after the model's and the hold's."""
        ...

    def stream(
        self, request: ChatRequest, target: Target, max_tokens: int, told: Told | None = None
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """Ask for a stream: each item is what one read brought, never empty; the last event is ``Finish``.

        ``told`` knows the usage from the moment the provider has told all of it, which may be before the end.

        Nothing is yielded before the model's first content, so a failure before the first item can still
        be answered by another attempt. Iterate under ``contextlib.aclosing``: leaving early closes the
        connection.
        """
        ...
