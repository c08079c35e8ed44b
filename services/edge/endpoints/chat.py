"""The chat endpoint, whatever the client's format: parse, admit, answer or stream, settle.

Called by services.edge.http for each hot path, once per client format (contract: Chat completions, Streaming).
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import ModuleType

from libs.llm.canonical import Answer, ChatRequest, Finish, StreamEvent
from libs.llm.canonical import Usage as Tokens
from libs.llm.failures import ApiError, BadRequest, FailureKind, ProviderFailure
from libs.llm.identity import Identity
from libs.llm.tokens import estimated_usage, tokens_of
from libs.ops.tracing import Tracing, current_traceparent
from services.edge.admission import Admission, Admitted
from services.edge.attempts import Attempts, OpenStream
from services.edge.believable import Believable, most_output
from services.edge.body import BodyReader, ClientLeftError
from services.edge.errors import INTERNAL, PlainRefusedError, RefusedError
from services.edge.exchange import TEXT, Exchange, Header
from services.edge.keys import Caller, KeyDirectory
from services.edge.live import Live, LiveRequests
from services.edge.reports import Reports, Run
from services.edge.settlement import Settlement, Usage

log = logging.getLogger("kenari.edge")

CLIENT_LEFT = 499


@dataclass(frozen=True)
class ChatParts:
    """What every chat endpoint works with."""

    keys: KeyDirectory
    live: LiveRequests
    bodies: BodyReader
    admission: Admission
    attempts: Attempts
    settlement: Settlement
    believable: Believable
    reports: Reports
    tracing: Tracing


class ChatEndpoint:
    """One client format's endpoint. ``format`` is a module of libs.llm.formats."""

    def __init__(self, name: str, format_name: str, format_module: ModuleType, parts: ChatParts) -> None:
        self._name = name
        self._format_name = format_name
        self._format = format_module
        self._parts = parts

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request, in whatever way; nothing is raised but a cancellation from outside."""
        run = Run(exchange.request_id, exchange.started, exchange.started_ms, self._name, self._format_name)
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
            run.error_code = str(refused.status)
            await exchange.respond(refused.status, refused.text.encode(), TEXT, _hanging_up(refused.status))
        except RefusedError as refused:
            await self._fail(exchange, live, run, refused.error, refused)
        except BadRequest as bad:
            await self._fail(exchange, live, run, bad.api_error())
        except ClientLeftError:
            return
        except asyncio.CancelledError:
            if not live.absorb_cancel():
                raise
            if live.ended == "body_stalled":
                run.error_code = "408"
                await exchange.respond(408, b"request body timed out", TEXT, _hanging_up(408))
        except Exception:
            # The outermost guard of a request: the client learns that it failed, not how.
            log.exception("request failed", extra={"request_id": exchange.request_id})
            await self._fail(exchange, live, run, INTERNAL)

    async def _fail(
        self, exchange: Exchange, live: Live, run: Run, error: ApiError, refused: RefusedError | None = None
    ) -> None:
        run.error_code = error.code
        if exchange.status:
            # A keepalive has opened the stream already: the error travels in it.
            await live.write(self._format.ChunkWriter.fail(error))
            await exchange.end()
            return
        live.stream = False
        await exchange.respond(error.status, self._format.render_error(error), extra=refused.headers if refused else ())

    async def _answer(self, exchange: Exchange, live: Live, run: Run) -> None:
        parts = self._parts
        caller = await parts.keys.caller(exchange)
        run.account_id, run.key_id = caller.account_id, caller.key_id
        body = await parts.bodies.read(exchange, live)
        request: ChatRequest = self._format.parse(body)
        run.model, run.stream = request.model, request.stream
        admitted = await parts.admission.admit(run.request_id, caller, request, self._name, run.trace)
        run.billing_kind = admitted.billing_kind
        if admitted.granted is not None:
            parts.settlement.opened(run.request_id)
        parts.reports.admitted(run)
        ending = _Ending(parts, run, caller, request, admitted)
        identity = Identity(id=run.request_id, model=request.model, created=run.started_ms // 1000)
        try:
            if request.stream:
                await self._stream(exchange, live, ending, identity)
            else:
                await self._whole(exchange, ending, identity)
        finally:
            ending.close()

    async def _whole(self, exchange: Exchange, ending: "_Ending", identity: Identity) -> None:
        run, admitted = ending.run, ending.admitted
        with self._parts.tracing.span("provider.complete") as span:
            run.describe(span)
            answer: Answer = await self._parts.attempts.complete(
                run, ending.request, admitted.route, admitted.max_tokens
            )
        usage, estimated = ending.believed(answer.usage, estimated_usage(ending.request, answer))
        ending.settle("completed", usage, estimated=estimated)
        await exchange.respond(200, self._format.render_answer(answer, usage, identity), extra=admitted.headers)

    async def _stream(self, exchange: Exchange, live: Live, ending: "_Ending", identity: Identity) -> None:
        run, admitted = ending.run, ending.admitted
        live.await_stream(admitted.headers)
        with self._parts.tracing.span("provider.stream") as span:
            run.describe(span)
            opened = await self._parts.attempts.open_stream(run, ending.request, admitted.route, admitted.max_tokens)
            writer = self._format.ChunkWriter(identity)
            ending.delivered = lambda: tokens_of(writer.characters)
            try:
                await self._relay(live, opened, writer, ending)
            except ProviderFailure as failure:
                self._parts.reports.attempt(run, failure.kind.value, failure, output_tokens=ending.delivered())
                ending.settle("interrupted", ending.estimate(), estimated=True)
                error = failure.api_error(streaming=True)
                run.error_code = error.code
                await live.write(writer.fail(error))
        live.stream = False
        await exchange.end()

    async def _relay(self, live: Live, opened: OpenStream, writer: "_Writer", ending: "_Ending") -> None:
        async with aclosing(opened.events()) as batches:
            async for events in batches:
                finish = events[-1]
                if type(finish) is Finish:
                    await self._last(live, writer, events, finish, ending)
                    return
                await live.write(writer.write(events))
                if ending.delivered() > most_output(ending.admitted.max_tokens):
                    raise ProviderFailure(FailureKind.JUNK, detail="far more than max_tokens")
                if live.client_left:
                    # Sending to a closed connection is silent: a fast provider would be read to its end.
                    raise ClientLeftError

    async def _last(
        self, live: Live, writer: "_Writer", events: list[StreamEvent], finish: Finish, ending: "_Ending"
    ) -> None:
        out = writer.write(events[:-1])
        usage, estimated = ending.believed(finish.usage, ending.estimate())
        out += writer.write([Finish(finish.finish_reason, usage)])
        # Settled before the last bytes leave: a client that closes now has had the whole answer.
        ending.settle("completed", usage, estimated=estimated)
        self._parts.reports.attempt(ending.run, "completed", output_tokens=usage.completion)
        await live.write(out)


def _hanging_up(status: int) -> tuple[Header, ...]:
    """Where the rest of a body is not wanted, the connection ends with the answer."""
    return ((b"connection", b"close"),) if status in (408, 413, 503) else ()


class _Writer:
    """What a format's chunk writer can do."""

    characters: int
    write: Callable[[list[StreamEvent]], bytes]
    fail: Callable[[ApiError], bytes]


class _Ending:
    """How an admitted request ends: exactly one settlement or release, and Done for a free one."""

    def __init__(self, parts: ChatParts, run: Run, caller: Caller, request: ChatRequest, admitted: Admitted) -> None:
        self._parts = parts
        self._caller = caller
        self._ended = False
        self._success = False
        self.run = run
        self.request = request
        self.admitted = admitted
        self.delivered: Callable[[], int] = lambda: 0

    def estimate(self) -> Tokens:
        """What was delivered, as far as the edge can tell."""
        completion = self.delivered()
        return Tokens(prompt=self.request.input_tokens, completion=completion)

    def believed(self, told: Tokens | None, own: Tokens) -> tuple[Tokens, bool]:
        """The usage to settle, and whether it is our own count."""
        admitted = self.admitted
        return self._parts.believable.settled(told, own, self.request, admitted.route.model, admitted.max_tokens)

    def settle(self, outcome: str, tokens: Tokens, *, estimated: bool) -> None:
        """Charge what was used; a second call changes nothing."""
        if self._ended:
            return
        self._ended = True
        self._success = outcome == "completed" and tokens.completion > 0
        run, model = self.run, self.admitted.route.model
        run.prompt_tokens, run.completion_tokens = tokens.prompt, tokens.completion
        granted = self.admitted.granted
        usage = Usage(
            request_id=run.request_id,
            account_id=run.account_id,
            key_id=run.key_id,
            endpoint=run.endpoint,
            model=model.id,
            vendor=model.vendor,
            price_version=model.price.version,
            billing_kind=self.admitted.billing_kind,
            outcome=outcome,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            cache_write_tokens=tokens.cache_write,
            estimated=estimated,
            descriptor=granted.descriptor if granted is not None else "",
            started_at_ms=run.started_ms,
        )
        self._parts.settlement.settle(run, usage)

    def close(self) -> None:
        """The request's task is at its end, by whatever way: what is not settled yet is settled or given back."""
        if not self._ended:
            self._end_unsettled()
        if self.admitted.leased:
            self._parts.admission.done(
                self.run.request_id, self._caller, self.request, self.run.trace, success=self._success
            )

    def _end_unsettled(self) -> None:
        if self.delivered():
            # The client left in the middle: what it has received is charged.
            self._parts.reports.attempt(self.run, "client_closed", output_tokens=self.delivered())
            self.settle("client_closed", self.estimate(), estimated=True)
            return
        self._ended = True
        if self.admitted.granted is not None:
            run = self.run
            self._parts.settlement.release(run.request_id, run.account_id, run.trace, "nothing delivered")
