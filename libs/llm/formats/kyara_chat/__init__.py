"""The strict text-only dialect of the chat endpoint as a client format (contract: Kyara, Chat completions)."""

from libs.llm.canonical import Answer, ChatRequest, Usage
from libs.llm.failures import ApiError
from libs.llm.formats.base import ClientFormat, Header, StreamWriter
from libs.llm.formats.kyara_chat.answer import ChunkWriter, render_answer
from libs.llm.formats.kyara_chat.errors import render_error
from libs.llm.formats.kyara_chat.request import parse
from libs.llm.identity import Identity

__all__ = ["FORMAT"]


class _KyaraChat:
    def parse(self, body: bytes, header: Header) -> ChatRequest:
        return parse(body)

    def render_answer(self, answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
        return render_answer(answer, usage, identity, request)

    def writer(self, identity: Identity, request: ChatRequest) -> StreamWriter:
        return ChunkWriter(identity, request)

    def render_error(self, error: ApiError) -> tuple[int, bytes]:
        return render_error(error)


FORMAT: ClientFormat = _KyaraChat()
