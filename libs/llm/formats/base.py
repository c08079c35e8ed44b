"""The one interface behind which every client format stands.

Implemented by the packages beside this one; called by the edge's chat endpoint.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from libs.llm.canonical import Answer, ChatRequest, StreamEvent, Usage
from libs.llm.failures import ApiError
from libs.llm.identity import Identity

Header: TypeAlias = Callable[[bytes], str | None]
"""Looks up a header of the request by its lower-case name; None when it was not sent."""


class StreamWriter(Protocol):
    """Turns stream events into the bytes one client receives; one writer per stream.

    ``characters`` counts what was written of the answer (text, reasoning, names and arguments of calls): the
    ground of an estimate when the stream breaks off.
    """

    characters: int

    def write(self, events: list[StreamEvent]) -> bytes:
        """The frames of ``events``, perhaps none (b""); after ``Finish``, whose usage is then set, nothing follows."""
        ...

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that broke off, be it before the first event."""
        ...


class ClientFormat(Protocol):
    """One format clients speak. Pure: no IO, no clock."""

    def parse(self, body: bytes, header: Header) -> ChatRequest:
        """Read and check a body; raise ``BadRequest`` for anything that breaks a rule."""
        ...

    def render_answer(self, answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
        """A whole answer. ``usage`` is the answer's own or the caller's estimate."""
        ...

    def writer(self, identity: Identity, request: ChatRequest) -> StreamWriter:
        """A writer for one stream."""
        ...

    def render_error(self, error: ApiError) -> tuple[int, bytes]:
        """The HTTP status and JSON body of an error, in the format's envelope."""
        ...
