"""The one interface behind which every kind of provider stands.

Implemented by the modules beside this one; called by the edge's attempt loop.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct

from libs.llm.canonical import Answer, ChatRequest, StreamEvent


class Target(Struct, frozen=True, kw_only=True):
    """Where one attempt goes. ``credential`` is secret; the three waits are in seconds.

    ``first_byte_s`` runs from the request being sent to the first byte of the answer's body, ``idle_s``
    between any two later bytes.
    """

    base_url: str
    model: str
    credential: str = ""
    connect_s: float = 5.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0


class ProviderAdapter(Protocol):
    """Translates one provider format. Every failure is a ``ProviderFailure``; cancelling ends the call upstream."""

    async def complete(self, request: ChatRequest, target: Target, max_tokens: int) -> Answer:
        """Ask for a whole answer. ``max_tokens`` is the limit in force, after the model's and the hold's."""
        ...

    def stream(self, request: ChatRequest, target: Target, max_tokens: int) -> AsyncGenerator[list[StreamEvent], None]:
        """Ask for a stream: each item is what one read brought, never empty; the last event is ``Finish``.

        Nothing is yielded before the model's first content, so a failure before the first item can still
        be answered by another attempt. Iterate under ``contextlib.aclosing``: leaving early closes the
        connection.
        """
        ...
