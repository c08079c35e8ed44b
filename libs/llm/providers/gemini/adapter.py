"""The Gemini provider: translation from the modules beside it, bytes from a transport.

Registered in ``libs.llm.providers``; called by the edge's attempt loop.
"""

from collections.abc import AsyncGenerator
from urllib.parse import quote

from libs.core.clock import Clock, SystemClock
from libs.llm.canonical import Answer, ChatRequest, StreamEvent
from libs.llm.providers.base import Target, Told
from libs.llm.providers.gemini.answer import read_answer
from libs.llm.providers.gemini.errors import failure_of_reply
from libs.llm.providers.gemini.request import provider_body
from libs.llm.providers.gemini.stream import StreamDecoder
from libs.llm.providers.replies import call_of, streamed, whole
from libs.llm.transport import Call, Transport

_PLAIN = "-._~"
"""All other characters of a model's name are escaped: it stands in the path."""


class Gemini:
    """``base_url`` of a target ends before ``/models`` (``https://generativelanguage.googleapis.com/v1beta``)."""

    def __init__(self, transport: Transport, clock: Clock | None = None) -> None:
        self._transport = transport
        self._clock = clock or SystemClock()

    async def complete(self, request: ChatRequest, target: Target, max_tokens: int) -> Answer:
        """One JSON answer."""
        return await whole(
            self._transport,
            _call(request, target, max_tokens, stream=False),
            self._clock,
            lambda body: read_answer(body, target.upstream, max_tokens),
            failure_of_reply,
        )

    def stream(
        self, request: ChatRequest, target: Target, max_tokens: int, told: Told | None = None
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """One stream of chunks."""
        return streamed(
            self._transport,
            _call(request, target, max_tokens, stream=True),
            self._clock,
            StreamDecoder(target.upstream, max_tokens),
            lambda body: read_answer(body, target.upstream, max_tokens),
            told,
            failure_of_reply,
        )


def _call(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> Call:
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    path = f"/models/{quote(target.model, safe=_PLAIN)}:{verb}"
    headers = {"x-goog-api-key": target.credential} if target.credential else {}
    return call_of(target, path, provider_body(request, target, max_tokens), headers, stream=stream)
