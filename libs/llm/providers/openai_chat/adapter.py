"""The OpenAI-format provider: translation from the modules beside it, bytes from a transport.

Registered in ``libs.llm.providers``; called by the edge's attempt loop.
"""

from collections.abc import AsyncGenerator

from libs.core.clock import Clock, SystemClock
from libs.llm.canonical import Answer, ChatRequest, StreamEvent
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.answer import read_answer
from libs.llm.providers.openai_chat.request import provider_body
from libs.llm.providers.openai_chat.stream import StreamDecoder
from libs.llm.providers.rejections import failure_of
from libs.llm.transport import Call, Reply, Transport

_PATH = "/chat/completions"
_MAX_ANSWER_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 256 * 1024
_NOT_A_STREAM = ("application/json", "text/html")
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
        async with self._transport.send(call) as reply:
            await self._check(reply)
            return read_answer(await reply.read_all(_MAX_ANSWER_BYTES))

    async def stream(
        self, request: ChatRequest, target: Target, max_tokens: int
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """One stream of chunks."""
        call = _call(request, target, max_tokens, stream=True)
        async with self._transport.send(call) as reply:
            await self._check(reply)
            if reply.headers.get("content-type", "").partition(";")[0].strip().lower() in _NOT_A_STREAM:
                read_answer(await reply.read_all(_MAX_ANSWER_BYTES))
                raise ProviderFailure(FailureKind.JUNK, status=reply.status, detail="not a stream")
            decoder = StreamDecoder()
            while not decoder.done:
                data = await reply.read()
                events = decoder.feed(data) if data else decoder.end()
                if decoder.done:
                    reply.ended()
                if events:
                    yield events
                if decoder.failure is not None:
                    raise decoder.failure

    async def _check(self, reply: Reply) -> None:
        """Raise what an answer other than 200 means."""
        if reply.status == 200:
            return
        try:
            body = await reply.read_all(_MAX_ERROR_BYTES)
        except ProviderFailure:
            body = b""  # the status alone must do
        raise failure_of(reply.status, reply.headers, body, self._clock)


def _call(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> Call:
    renamed = any(mark in target.base_url + "/" for mark in _RENAMED_LIMIT)
    limit_name = "max_completion_tokens" if renamed else "max_tokens"
    headers = {
        "Content-Type": "application/json",
        "Accept": "text/event-stream" if stream else "application/json",
        "Accept-Encoding": "identity",
    }
    if target.credential:
        headers["Authorization"] = f"Bearer {target.credential}"
    return Call(
        base_url=target.base_url,
        path=_PATH,
        body=provider_body(request, target, limit_name, max_tokens, stream=stream),
        headers=headers,
        connect_s=target.connect_s,
        first_byte_s=target.first_byte_s,
        idle_s=target.idle_s,
    )
