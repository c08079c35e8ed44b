"""What the edge does with an adapter and a client format, in the smallest form, for the tests beside it."""

import json
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from libs.llm.canonical import Finish, Usage
from libs.llm.failures import ProviderFailure
from libs.llm.formats.openai_chat import FORMAT
from libs.llm.identity import Identity
from libs.llm.providers import Providers
from libs.llm.providers.base import Target
from libs.llm.tokens import estimated_usage
from libs.llm.transport import Transport

IDENTITY = Identity(id="0198f0c0a0b07000800000000000abcd", model="fx-oai", created=1_790_000_000)
HELLO = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hi"}]}


def no_headers(name: bytes) -> str | None:
    """A client that sent no header of its own."""
    return None


@dataclass
class Streamed:
    """One client's view of a stream."""

    raw: bytes = b""
    writes: list[bytes] = field(default_factory=list)
    failure: ProviderFailure | None = None
    usage: Usage | None = None

    @property
    def data(self) -> list[str]:
        """The ``data:`` values in order; every frame must be one such line and one blank line."""
        frames = self.raw.decode().split("\n\n")
        assert frames.pop() == ""
        assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
        return [frame[6:] for frame in frames]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def text(self) -> str:
        return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in self.chunks if "choices" in chunk)


class Upstream:
    """Calls one provider as the edge would."""

    def __init__(self, transport: Transport, base_url: str) -> None:
        self.adapter = Providers(transport).get("openai_chat")
        self.target = Target(
            base_url=base_url,
            model="vendor/real-model",
            credential="sk-test",
            connect_s=1,
            first_byte_s=1,
            idle_s=1,
        )

    async def complete(self, body: dict[str, Any] | None = None, max_tokens: int = 100) -> dict[str, Any]:
        """The client's JSON."""
        request = FORMAT.parse(json.dumps(body or HELLO).encode(), no_headers)
        answer = await self.adapter.complete(request, self.target, max_tokens)
        usage = answer.usage or estimated_usage(request, answer)
        rendered: dict[str, Any] = json.loads(FORMAT.render_answer(answer, usage, IDENTITY, request))
        return rendered

    async def stream(self, body: dict[str, Any] | None = None, max_tokens: int = 100) -> Streamed:
        """The client's stream; a failure before the first event is raised, a later one is in the stream."""
        request = FORMAT.parse(json.dumps((body or HELLO) | {"stream": True}).encode(), no_headers)
        writer = FORMAT.writer(IDENTITY, request)
        seen = Streamed()
        async with aclosing(self.adapter.stream(request, self.target, max_tokens)) as batches:
            try:
                async for events in batches:
                    seen.writes.append(writer.write(events))
                    if isinstance(events[-1], Finish):
                        seen.usage = events[-1].usage
            except ProviderFailure as failure:
                if not seen.writes:
                    raise
                seen.failure = failure
                seen.writes.append(writer.fail(failure.api_error(streaming=True)))
        seen.raw = b"".join(seen.writes)
        return seen
