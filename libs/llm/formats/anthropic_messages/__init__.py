"""Anthropic's Messages as a client format (contract: Messages, Streaming).

Called by the edge: ``FORMAT`` for ``/v1/messages``, ``count_tokens`` for the endpoint below it.
"""

from libs.llm.canonical import Answer, ChatRequest, Usage
from libs.llm.failures import ApiError
from libs.llm.formats.anthropic_messages import answer as _answer
from libs.llm.formats.anthropic_messages import errors as _errors
from libs.llm.formats.anthropic_messages import request as _request
from libs.llm.formats.anthropic_messages.request import count_tokens
from libs.llm.formats.anthropic_messages.stream import EventWriter
from libs.llm.formats.base import ClientFormat, Header
from libs.llm.identity import Identity


class AnthropicMessages:
    """The Messages format; see ``ClientFormat``."""

    def parse(self, body: bytes, header: Header) -> ChatRequest:
        """Read and check a body; raise ``BadRequest``."""
        return _request.parse(body, header)

    def render_answer(self, answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
        """The ``message`` object."""
        return _answer.render_answer(answer, usage, identity, request)

    def writer(self, identity: Identity, request: ChatRequest) -> EventWriter:
        """A writer for one stream."""
        return EventWriter(identity, request)

    def render_error(self, error: ApiError) -> tuple[int, bytes]:
        """The HTTP status and the body."""
        return _errors.render_error(error)


FORMAT: ClientFormat = AnthropicMessages()

__all__ = ["FORMAT", "AnthropicMessages", "EventWriter", "count_tokens"]
