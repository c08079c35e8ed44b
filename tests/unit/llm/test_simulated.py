"""The built-in model answers like a real one: same text both ways, limits, stops, usage, prompt cancelling."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from libs.llm.canonical import Answer, ChatRequest, Finish, FinishReason, TextDelta, Usage
from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Target
from libs.llm.providers.simulated import Simulated

TARGET = Target(base_url="simulated://", model="sim-1")


def request(text: str = "Hello there", **members: Any) -> ChatRequest:
    body = {"model": "sim-1:free", "messages": [{"role": "user", "content": text}], **members}
    return parse(json.dumps(body).encode())


async def streamed(asked: ChatRequest, max_tokens: int = 1_000) -> tuple[list[str], Finish]:
    words: list[str] = []
    async with aclosing(Simulated(pace_s=0).stream(asked, TARGET, max_tokens)) as batches:
        async for events in batches:
            if isinstance(events[-1], Finish):
                return words, events[-1]
            words += [event.text for event in events if isinstance(event, TextDelta)]
    raise AssertionError("no finish")


async def whole(asked: ChatRequest, max_tokens: int = 1_000) -> Answer:
    return await Simulated().complete(asked, TARGET, max_tokens)


async def test_the_stream_says_what_the_whole_answer_says() -> None:
    asked = request("  Hello\n there  ")
    answer = await whole(asked)
    words, finish = await streamed(asked)
    assert "Hello\n there" in answer.text()
    assert "".join(words) == answer.text() and len(words) > 10
    assert finish == Finish(answer.finish_reason, answer.usage)
    assert answer == await whole(asked)


async def test_usage_is_counted_as_everywhere() -> None:
    answer = await whole(request("a" * 40))
    assert answer.usage == Usage(prompt=10, completion=-(-len(answer.text()) // 4))


@pytest.mark.rule("CHAT-047")
async def test_the_output_limit_ends_it_with_length() -> None:
    answer = await whole(request(), max_tokens=3)
    assert answer.finish_reason is FinishReason.LENGTH
    assert answer.usage is not None and answer.usage.completion == 3


async def test_a_stop_text_ends_it_before_that_text() -> None:
    answer = await whole(request(stop=["Hello", " the simulated"]))
    assert answer.text() == "This is sim-1," and answer.finish_reason is FinishReason.STOP


async def test_a_cancelled_stream_ends_at_once() -> None:
    async def read() -> None:
        async with aclosing(Simulated(pace_s=60).stream(request(), TARGET, 100)) as batches:
            async for _ in batches:
                pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(1):
            await task
