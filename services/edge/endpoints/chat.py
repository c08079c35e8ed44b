"""The chat endpoint, whatever the client's format: parse, admit, answer or stream, settle.

Called by services.edge.http for each hot path, once per dialect (contract: Chat completions, Messages, Responses,
Streaming).
"""

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

from libs.llm.canonical import Answer, Finish, StreamEvent
from libs.llm.failures import ApiError, BadRequest, FailureKind, ProviderFailure
from libs.llm.formats.base import StreamWriter
from libs.llm.identity import Identity
from libs.llm.tokens import estimated_usage
from libs.ops.tracing import Tracing, current_traceparent
from services.edge.admission import Admission
from services.edge.admitted import Asked
from services.edge.attempts import Attempts, OpenStream
from services.edge.believable import Believable, most_output
from services.edge.body import BodyReader, ClientLeftError
from services.edge.callers import Callers
from services.edge.catalog import Catalog
from services.edge.dialects import Dialect
from services.edge.ending import Ending
from services.edge.errors import INTERNAL, PlainRefusedError, RefusedError, refuse
from services.edge.exchange import Exchange, Header
from services.edge.idempotency import HEADER, Claim, Idempotency, repeat
from services.edge.keys import Caller
from services.edge.levels import named
from services.edge.live import Live, LiveRequests
from services.edge.reports import Reports, Run
from services.edge.scope import check_model
from services.edge.sessions import session_of
from services.edge.settlement import Settlement

log = logging.getLogger("kenari.edge")

CLIENT_LEFT = 499


@dataclass(frozen=True)
class ChatParts:
    """What every chat endpoint works with."""

    callers: Callers
    catalog: Catalog
    live: LiveRequests
    bodies: BodyReader
    admission: Admission
    attempts: Attempts
    settlement: Settlement
    idempotency: Idempotency
    believable: Believable
    reports: Reports
    tracing: Tracing


class ChatEndpoint:
    """The endpoint of one dialect."""

    def __init__(self, dialect: Dialect, parts: ChatParts) -> None:
        self._dialect = dialect
        self._format = dialect.format
        self._parts = parts

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request, in whatever way; nothing is raised but a cancellation from outside."""
        dialect = self._dialect
        run = Run(exchange.request_id, exchange.started, exchange.started_ms, dialect.endpoint, dialect.name)
        opened = self._parts.tracing.serve(f"POST {exchange.scope['path']}", exchange.header(b"traceparent"))
        with opened as span, Live(self._parts.live, exchange) as live:
            run.trace = current_traceparent() if span is not None else ""
            try:
                await self._serve(exchange, live, run)
            finally:
                exchange.describe(span)
                self._parts.reports.finished(run, exchange.status or CLIENT_LEFT)

    async def _serve(self, exchange: Exchange, live: Live, run: Run) -> None:
        try:
            await self._answer(exchange, live, run)
        except PlainRefusedError as refused:
            await self._refuse(exchange, run, refused)
        except RefusedError as refused:
            await self._fail(live, run, refused.error, refused.headers)
        except BadRequest as bad:
            await self._fail(live, run, bad.api_error())
        except ClientLeftError:
            return
        except asyncio.CancelledError:
            if not live.absorb_cancel():
                raise
            if live.ended == "body_stalled":
                await self._refuse(exchange, run, PlainRefusedError(408, "request body timed out"))
        except Exception:
            # The outermost guard of a request: the client learns that it failed, not how.
            log.exception("request failed", extra={"request_id": exchange.request_id})
            await self._fail(live, run, INTERNAL)

    async def _refuse(self, exchange: Exchange, run: Run, refused: PlainRefusedError) -> None:
        run.error_code = str(refused.status)
        status, body, kind = self._dialect.plain(refused)
        # Where the rest of a body is not wanted, the connection ends with the answer.
        extra: tuple[Header, ...] = ((b"connection", b"close"),) if status in (408, 413, 503) else ()
        await exchange.respond(status, body, kind, extra)

    async def _fail(self, live: Live, run: Run, error: ApiError, headers: tuple[Header, ...] = ()) -> None:
        """No content is out; spaces or comments may be."""
        run.error_code = error.code
        if live.broken is not None and live.exchange.status:
            await self._break_off(live, live.broken(error))
            return
        status, body = self._format.render_error(error)
        await live.finish(status, body, headers)

    async def _answer(self, exchange: Exchange, live: Live, run: Run) -> None:
        parts = self._parts
        caller = await parts.callers.caller(exchange)
        run.account_id, run.key_id = caller.account_id, caller.key_id
        body = await parts.bodies.read(exchange, live, self._dialect.most_bytes)
        asked = self._read(exchange, body, caller, run)
        key = exchange.header(HEADER)
        if key is None or asked.free or asked.on_free_route:
            await self._run(exchange, live, run, asked)
            return
        claim = await parts.idempotency.claim(key, exchange, run, asked, body)
        if not isinstance(claim, Claim):
            await repeat(exchange, claim)
            return
        try:
            await self._run(exchange, live, run, asked)
        finally:
            claim.close()

    async def _run(self, exchange: Exchange, live: Live, run: Run, asked: Asked) -> None:
        parts = self._parts
        admitted = await parts.admission.admit(asked)
        run.billing_kind = admitted.billing_kind
        if admitted.others is None:
            # A retired model's successor answers under its own name, a route under the route's.
            run.model = admitted.route.model.id
        if admitted.granted is not None and admitted.granted.descriptor:
            parts.settlement.opened(run.request_id, admitted.line)
        parts.reports.admitted(run)
        ending = Ending(parts.admission, parts.settlement, parts.believable, parts.reports, run, asked, admitted)
        identity = self._dialect.identity(run.request_id, run.model, run.started_ms // 1000)
        try:
            if run.stream:
                await self._stream(exchange, live, ending, identity)
            else:
                await self._whole(live, ending, identity)
        finally:
            ending.close()

    def _read(self, exchange: Exchange, body: bytes, caller: Caller, run: Run) -> Asked:
        parsed = self._dialect.completed(self._format.parse(body, exchange.header), caller)
        request, level = named(parsed, self._parts.catalog)
        run.model, run.stream = request.model, request.stream
        check_model(caller, request.model)
        if self._dialect.needs_tool_calls and (request.tools or request.tools_elsewhere):
            self._check_tool_calls(request.model)
        session = session_of(request, derived=self._dialect.derives_sessions)
        return Asked(run.request_id, caller, request, level, run.endpoint, session, run.trace)

    def _check_tool_calls(self, model_id: str) -> None:
        """Contract: Claude Code. A model that merely does not say whether it calls is given the tools."""
        model = self._parts.catalog.get(model_id)
        if model is not None and model.tool_call is False:
            raise refuse(400, "bad_request", f"{model_id} does not call tools; pick a model with tool_call true")

    async def _whole(self, live: Live, ending: Ending, identity: Identity) -> None:
        run, admitted = ending.run, ending.admitted
        live.await_whole(admitted.headers)
        with self._parts.tracing.span("provider.complete") as span:
            run.describe(span)
            answer: Answer = await self._parts.attempts.complete(run, ending.request, admitted)
        usage, estimated = ending.believed(answer.usage, estimated_usage(ending.request, answer))
        ending.settle("completed", usage, estimated=estimated)
        headers = (*admitted.headers, ending.cost_header(usage))
        await live.finish(200, self._format.render_answer(answer, usage, identity, ending.request), headers)

    async def _stream(self, exchange: Exchange, live: Live, ending: Ending, identity: Identity) -> None:
        run, admitted = ending.run, ending.admitted
        writer = self._format.writer(identity, ending.request)
        live.await_stream(admitted.headers, writer.fail)
        ending.delivered = lambda: writer.characters
        with self._parts.tracing.span("provider.stream") as span:
            run.describe(span)
            try:
                opened = await self._parts.attempts.open_stream(run, ending.request, admitted)
                ending.told = opened.told
                if admitted.others is not None:
                    # Another model than the first may have answered: its headers go out, unless comments already have.
                    live.await_stream(admitted.headers, writer.fail)
                await self._relay(live, opened, writer, ending)
            except ProviderFailure as failure:
                self._parts.reports.attempt(run, failure.kind.value, failure, output_tokens=ending.delivered_tokens())
                ending.settle("interrupted", ending.estimate(), estimated=True)
                error = failure.api_error(streaming=True)
                run.error_code = error.code
                await self._break_off(live, writer.fail(error))
                return
        live.filler_due = 0.0
        await exchange.end()

    async def _break_off(self, live: Live, last: bytes) -> None:
        await live.write(last)
        live.filler_due = 0.0
        await live.exchange.end()

    async def _relay(self, live: Live, opened: OpenStream, writer: StreamWriter, ending: Ending) -> None:
        most_characters = 4 * most_output(ending.admitted.max_tokens)
        async with aclosing(opened.events()) as batches:
            async for events in batches:
                finish = events[-1]
                if type(finish) is Finish:
                    await self._last(live, writer, events, finish, ending)
                    return
                out = writer.write(events)
                if out:
                    await live.write(out)
                if writer.characters > most_characters:
                    raise ProviderFailure(FailureKind.JUNK, detail="far more than max_tokens")
                if live.client_left:
                    # Sending to a closed connection is silent: a fast provider would be read to its end.
                    raise ClientLeftError

    async def _last(
        self, live: Live, writer: StreamWriter, events: list[StreamEvent], finish: Finish, ending: Ending
    ) -> None:
        out = writer.write(events[:-1])
        usage, estimated = ending.believed(finish.usage, ending.estimate())
        out += writer.write([Finish(finish.finish_reason, usage)])
        # Settled before the last bytes leave: a client that closes now has had the whole answer.
        ending.settle("completed", usage, estimated=estimated)
        self._parts.reports.attempt(ending.run, "completed", output_tokens=usage.completion)
        await live.write(out)
