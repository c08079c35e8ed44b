"""The built-in model: answers from within the process, so that the gateway can be tried without any key.

Reached like every provider; the same request gets the same answer, text, finish reason and usage.
"""

import asyncio
import re
from collections.abc import AsyncGenerator

from libs.llm.canonical import Answer, ChatRequest, Finish, FinishReason, Role, StreamEvent, TextPart, Usage, text_delta
from libs.llm.providers.base import Target, Told
from libs.llm.tokens import CHARACTERS_PER_TOKEN, tokens_of

_ECHOED_CHARACTERS = 2_000
_WORD = re.compile(r"\s*\S+|\s+")


class Simulated:
    """``pace_s`` is the pause before each streamed word: long enough to be seen, short enough to try out."""

    def __init__(self, pace_s: float = 0.02) -> None:
        self._pace_s = pace_s

    async def complete(self, request: ChatRequest, target: Target, max_tokens: int) -> Answer:
        """The whole answer at once."""
        text, reason = _answer(request, target.model, max_tokens)
        return Answer(parts=[TextPart(text)], finish_reason=reason, usage=_usage(request, text))

    async def stream(
        self, request: ChatRequest, target: Target, max_tokens: int, told: Told | None = None
    ) -> AsyncGenerator[list[StreamEvent], None]:
        """The same answer word by word."""
        text, reason = _answer(request, target.model, max_tokens)
        for word in _WORD.findall(text):
            await asyncio.sleep(self._pace_s)
            yield [text_delta(word)]
        yield [Finish(reason, _usage(request, text))]


def _answer(request: ChatRequest, model: str, max_tokens: int) -> tuple[str, FinishReason]:
    text = f"This is {model}, the simulated model of this gateway: no provider was called."
    question = _last_question(request)
    if question:
        text += f" You said: {question}"
    ends = [place for place in map(text.find, request.stop) if place >= 0]
    text = text[: min(ends, default=len(text))]
    room = max_tokens * CHARACTERS_PER_TOKEN
    return (text, FinishReason.STOP) if len(text) <= room else (text[:room], FinishReason.LENGTH)


def _last_question(request: ChatRequest) -> str:
    for message in reversed(request.messages):
        if message.role is Role.USER:
            return message.text()[:_ECHOED_CHARACTERS]
    return ""


def _usage(request: ChatRequest, text: str) -> Usage:
    return Usage(prompt=request.input_tokens, completion=tokens_of(len(text)))
