"""The OpenAI-format provider: translation from the modules beside it, bytes from a transport.

Registered in ``libs.llm.providers``; called by the edge's attempt loop.
"""

from collections.abc import AsyncGenerator

from libs.core.clock import Clock, SystemClock
from libs.llm.canonical import Answer, ChatRequest, StreamEvent
from libs.llm.providers.base import Target, Told
from libs.llm.providers.openai_chat.answer import read_answer
from libs.llm.providers.openai_chat.request import provider_body
from libs.llm.providers.openai_chat.stream import StreamDecoder
from libs.llm.providers.replies import call_of, streamed, whole
from libs.llm.transport import Call, Transport

_PATH = "/chat/completions"
_RENAMED_LIMIT = ("://api.openai.com/", ".openai.azure.com/")
"""Where newer models refuse ``max_tokens``; most other servers know only that name."""


class OpenAIChat:
    """``base_url`` of a target ends before ``/chat/completions`` (``https://api.openai.com/v1``)."""

    def __init__(self, transport: Transport, clock: Clock | None = None) -> None:
        self._transport = transport
        self._clock = clock or SystemClock()

    async def complete(self, request: ChatRequest, target: Target, max_tokens: int) -> Answer:
        """One JSON answer."""
        call = _call(request, target, max_tokens, stream=False)
        return await whole(self._transport, call, self._clock, lambda body: read_answer(body, max_tokens))

    def stream(
        self, request: ChatRequest, target: Target, max_tokens: int, told: Told | None = None
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """One stream of chunks."""
        call = _call(request, target, max_tokens, stream=True)
        decoder = StreamDecoder(max_tokens)
        return streamed(self._transport, call, self._clock, decoder, lambda body: read_answer(body, max_tokens), told)


def _call(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> Call:
    renamed = any(mark in target.base_url + "/" for mark in _RENAMED_LIMIT)
    limit_name = "max_completion_tokens" if renamed else "max_tokens"
    headers = {"Authorization": f"Bearer {target.credential}"} if target.credential else {}
    body = provider_body(request, target, limit_name, max_tokens, stream=stream)
    return call_of(target, _PATH, body, headers, stream=stream)
