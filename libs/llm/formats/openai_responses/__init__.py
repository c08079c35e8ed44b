"""OpenAI's Responses as a client format, the stateless subset the contract describes (Responses, Streaming).

Called by the edge's chat endpoint.
"""

from libs.llm.canonical import Answer, ChatRequest, Usage
from libs.llm.failures import ApiError
from libs.llm.formats.base import ClientFormat, Header
from libs.llm.formats.openai_chat.errors import render_error
from libs.llm.formats.openai_responses.answer import render_answer
from libs.llm.formats.openai_responses.request import parse
from libs.llm.formats.openai_responses.stream import EventWriter
from libs.llm.identity import Identity

__all__ = ["FORMAT"]


class _OpenAIResponses:
    def parse(self, body: bytes, header: Header) -> ChatRequest:
        return parse(body)

    def render_answer(self, answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
        return render_answer(answer, usage, identity, request)

    def writer(self, identity: Identity, request: ChatRequest) -> EventWriter:
        return EventWriter(identity, request)

    def render_error(self, error: ApiError) -> tuple[int, bytes]:
        return render_error(error)


FORMAT: ClientFormat = _OpenAIResponses()
