"""One provider format behind one client format over real HTTP, for tests of providers other than Chat's."""

import json
from contextlib import aclosing
from typing import Any

from libs.llm.canonical import StreamEvent
from libs.llm.failures import ProviderFailure
from libs.llm.formats.base import ClientFormat
from libs.llm.identity import Identity
from libs.llm.providers import Providers
from libs.llm.providers.base import Target
from libs.llm.tokens import estimated_usage
from libs.llm.transport import Transport

IDENTITY = Identity(id="0198f0c0a0b07000800000000000abcd", model="fx", created=1_790_000_000)


def no_headers(name: bytes) -> str | None:
    return None


class Relay:
    """A client of ``client`` format and the provider behind it."""

    def __init__(self, transport: Transport, provider_format: str, base_url: str, model: str) -> None:
        self.adapter = Providers(transport).get(provider_format)
        self.target = Target(
            base_url=base_url,
            model=model,
            credential="sk-test",
            upstream="prov:cred_1",
            connect_s=1,
            first_byte_s=1,
            idle_s=1,
        )

    async def complete(self, client: ClientFormat, body: dict[str, Any]) -> Any:
        """The client's JSON."""
        request = client.parse(json.dumps(body).encode(), no_headers)
        answer = await self.adapter.complete(request, self.target, 500)
        usage = answer.usage or estimated_usage(request, answer)
        return json.loads(client.render_answer(answer, usage, IDENTITY, request))

    async def stream(self, client: ClientFormat, body: dict[str, Any]) -> list[Any]:
        """The JSON of the client's frames, a failure after the first event among them."""
        request = client.parse(json.dumps(body | {"stream": True}).encode(), no_headers)
        writer = client.writer(IDENTITY, request)
        out = b""
        async with aclosing(self.adapter.stream(request, self.target, 500)) as batches:
            try:
                async for events in batches:
                    out += writer.write(events)
            except ProviderFailure as failure:
                if not out:
                    raise
                out += writer.fail(failure.api_error(streaming=True))
        lines = [line[6:] for line in out.decode().split("\n") if line.startswith("data: {")]
        return [json.loads(line) for line in lines]

    async def batches(self, client: ClientFormat, body: dict[str, Any]) -> list[list[StreamEvent]]:
        """What each read brought; a failure is raised."""
        request = client.parse(json.dumps(body | {"stream": True}).encode(), no_headers)
        async with aclosing(self.adapter.stream(request, self.target, 500)) as batches:
            return [events async for events in batches]
