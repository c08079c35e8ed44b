"""POST /v1/messages/count_tokens: an estimate that costs nothing (contract: Messages, Count tokens).

Called by services.edge.http. No provider, limiter or ledger is asked.
"""

import asyncio
import logging

from libs.llm.failures import BadRequest
from libs.llm.formats import anthropic_messages
from services.edge.body import BodyReader, ClientLeftError
from services.edge.callers import Callers
from services.edge.errors import INTERNAL, PlainRefusedError, RefusedError
from services.edge.exchange import TEXT, Exchange
from services.edge.live import Live, LiveRequests

log = logging.getLogger("kenari.edge")


class CountTokens:
    """The endpoint."""

    def __init__(self, callers: Callers, live: LiveRequests, bodies: BodyReader) -> None:
        self._callers = callers
        self._live = live
        self._bodies = bodies

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        with Live(self._live, exchange) as live:
            try:
                await self._answer(exchange, live)
            except PlainRefusedError as refused:
                await exchange.respond(refused.status, refused.text.encode(), TEXT)
            except RefusedError as refused:
                await exchange.respond(*anthropic_messages.FORMAT.render_error(refused.error))
            except BadRequest as bad:
                await exchange.respond(*anthropic_messages.FORMAT.render_error(bad.api_error()))
            except ClientLeftError:
                return
            except Exception:
                # The outermost guard of a request: the client learns that it failed, not how.
                log.exception("request failed", extra={"request_id": exchange.request_id})
                await exchange.respond(*anthropic_messages.FORMAT.render_error(INTERNAL))
            except asyncio.CancelledError:
                if not live.absorb_cancel():
                    raise
                if live.ended == "body_stalled":
                    await exchange.respond(408, b"request body timed out", TEXT, ((b"connection", b"close"),))

    async def _answer(self, exchange: Exchange, live: Live) -> None:
        await self._callers.caller(exchange)
        body = await self._bodies.read(exchange, live)
        await exchange.respond(200, anthropic_messages.count_tokens(body))
