"""An OpenAI-compatible server reduced to its list of models, for tests of discovery."""

import json
from typing import Self

from aiohttp import web


class ListingProvider:
    """Answers GET /v1/models with ``models``, or with ``status`` and ``body`` when a body is set."""

    def __init__(self) -> None:
        self.models: list[str] = []
        self.status = 200
        self.body: str | None = None
        self.location: str | None = None
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v1/models", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _answer(self, request: web.Request) -> web.Response:
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(request.headers.get("authorization", ""))
        data = [{"id": name, "object": "model", "owned_by": "someone"} for name in self.models]
        body = self.body if self.body is not None else json.dumps({"object": "list", "data": data})
        headers = {"location": self.location} if self.location else {}
        return web.Response(status=self.status, text=body, headers=headers)
