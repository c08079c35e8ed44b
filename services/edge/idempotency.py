"""Idempotency keys: a paid request that names one is run once, and its outcome repeated to whoever asks again.

Called by the chat endpoint for requests with the header; what became of them is kept by the ledger (beyond the
contract).
"""

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, MutableMapping
from typing import Any

from kenari.ledger.v1 import idempotency_pb2

from libs.core.errors import KenariError
from libs.ops.telemetry import Telemetry
from services.edge.admitted import Asked
from services.edge.clients import IdempotencyClient
from services.edge.errors import RefusedError, refuse, unavailable, with_retry_after
from services.edge.exchange import Exchange, Header, Send
from services.edge.keys import Caller
from services.edge.limits import ChatLimits
from services.edge.reports import Run
from services.edge.telemetry import IDEMPOTENCY

log = logging.getLogger("kenari.edge")

HEADER = b"idempotency-key"
REPLAYED: Header = (b"idempotency-replayed", b"true")
MAX_KEPT_BYTES = 1024 * 1024
_MAX_KEY = 255
_REPEATED = frozenset({b"content-type", b"cache-control", b"x-accel-buffering"})
_OURS = b"x-kenari-"
# What they tell is of the moment, or of the request itself.
_NOT_REPEATED = frozenset({b"x-kenari-request-id", b"x-kenari-balance-micro-idr", b"x-kenari-plan-remaining"})


class Claim:
    """One request's hold on its key. Sees what the client is sent; kept is an answer that came to its end."""

    def __init__(
        self, keys: "Idempotency", key: idempotency_pb2.IdempotencyKey, run: Run, fingerprint: bytes, send: Send
    ) -> None:
        self._keys = keys
        self._run = run
        self._send = send
        self._status = 0
        self._headers: list[Header] = []
        self._body = bytearray()
        self._ended: asyncio.Task[None] | None = None
        self.begin = idempotency_pb2.BeginRequest(key=key, request_id=run.request_id, fingerprint=fingerprint)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on what is sent; before the last of it leaves, the outcome is known to whoever asks again."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [header for header in message["headers"] if _worth_repeating(header[0])]
        else:
            self._keep(message.get("body", b""))
            if not message.get("more_body", False):
                # Whatever becomes of this request now, its end stands.
                await asyncio.shield(self._ended or self._end())
        await self._send(message)

    def close(self) -> None:
        """The request's task is at its end."""
        if self._ended is None:
            self._end(whole=False)

    def _keep(self, piece: bytes) -> None:
        if len(self._body) <= MAX_KEPT_BYTES:
            self._body += piece

    def _end(self, *, whole: bool = True) -> "asyncio.Task[None]":
        ends = idempotency_pb2.EndRequest(key=self.begin.key, request_id=self.begin.request_id)
        run = self._run
        if run.error_code is not None or not (whole or _charged(run)):
            ends.freed.SetInParent()
        elif whole and len(self._body) <= MAX_KEPT_BYTES:
            ends.outcome.status = self._status
            ends.outcome.body = bytes(self._body)
            ends.outcome.headers.extend(idempotency_pb2.Header(name=name, value=value) for name, value in self._headers)
        else:
            ends.unkept.SetInParent()
        self._ended = self._keys.end(self, ends)
        return self._ended


class Idempotency:
    """Claims keys, keeps the claims of running requests alive, ends them."""

    def __init__(self, client: IdempotencyClient, limits: ChatLimits, telemetry: Telemetry) -> None:
        self._client = client
        self._limits = limits
        self._claims: set[Claim] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._counted = telemetry.metrics.counter(IDEMPOTENCY)

    async def claim(
        self, told: str, exchange: Exchange, run: Run, asked: Asked, body: bytes
    ) -> Claim | idempotency_pb2.KeptAnswer:
        """Claim the key for this request, or return the outcome of the one that had it before.

        Another body, or another endpoint, is another request. Raise RefusedError: 400 for what is no key, 409 while
        that request runs or when its outcome is not there to be repeated, 422 for a key that stands for something
        else, 503 when nobody can tell, 429 when even repeats are too many.
        """
        key = _key(told, asked.caller)
        # A flood of repeats is not for the ledger to hold out.
        self._limits.check(asked)
        fingerprint = hashlib.sha256(run.client_format.encode() + b"\0" + body).digest()
        claim = Claim(self, key, run, fingerprint, exchange.sender)
        try:
            begun = await self._client.begin(claim.begin)
        except asyncio.CancelledError:
            # It may have been claimed all the same, for nobody.
            claim.close()
            raise
        except KenariError as error:
            claim.close()
            self._counted.labels("away").inc()
            raise unavailable("the memory of idempotency keys") from error
        state = str(begun.WhichOneof("state"))
        self._counted.labels(state).inc()
        if state != "claimed":
            await self._limits.count_repeat(asked)
            if state == "outcome":
                return begun.outcome
            raise _refusal(state, getattr(begun, state).request_id)
        self._claims.add(claim)
        exchange.sender = claim.send
        return claim

    async def keep_alive(self) -> None:
        """Tell that the claims of running requests are still theirs; raise Transient."""
        for claim in tuple(self._claims):
            await self._client.begin(claim.begin)

    def end(self, claim: Claim, ends: idempotency_pb2.EndRequest) -> "asyncio.Task[None]":
        """End a claim, in a task that nobody cancels."""
        self._claims.discard(claim)
        return self._start(self._tell(ends))

    async def _tell(self, ends: idempotency_pb2.EndRequest) -> None:
        try:
            await self._client.end(ends)
        except KenariError as error:
            # It ends by itself, and what was charged is not run again.
            log.warning("idempotency key not ended", extra={"request_id": ends.request_id, "reason": error.reason})

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def start(self) -> None:
        """Nothing to start."""

    async def stop(self) -> None:
        await asyncio.gather(*self._ending, return_exceptions=True)

    def problem(self) -> str | None:
        return None


async def repeat(exchange: Exchange, kept: idempotency_pb2.KeptAnswer) -> None:
    """Answer with the outcome of an earlier request, and that request's id."""
    headers = [(header.name, header.value) for header in kept.headers]
    kind = next(header for header in headers if header[0] == b"content-type")
    rest = tuple(header for header in headers if header is not kind)
    exchange.answers_for(kept.request_id)
    await exchange.respond(kept.status, kept.body, kind, (*rest, REPLAYED))


def _key(told: str, caller: Caller) -> idempotency_pb2.IdempotencyKey:
    told = told.strip()
    if not (0 < len(told) <= _MAX_KEY and told.isascii() and told.isprintable()):
        raise refuse(400, "bad_request", f"`Idempotency-Key` takes 1 to {_MAX_KEY} printable ASCII characters")
    # Holders of shared keys know nothing of each other, nor of what the account asks.
    own = caller.key_id if caller.shared else ""
    return idempotency_pb2.IdempotencyKey(account_id=caller.account_id, key_id=own, key=told)


def _worth_repeating(name: bytes) -> bool:
    return name in _REPEATED or (name.startswith(_OURS) and name not in _NOT_REPEATED)


def _charged(run: Run) -> bool:
    return bool(run.prompt_tokens or run.completion_tokens) and run.billing_kind != "free"


def _refusal(state: str, request_id: str) -> RefusedError:
    match state:
        case "running":
            message = f"request {request_id} with this idempotency key is still running; ask again when it has ended"
            return with_retry_after(refuse(409, "idempotency_in_progress", message), 1)
        case "reused":
            message = f"this idempotency key stands for another body or endpoint (request {request_id}); use a new key"
            return refuse(422, "idempotency_key_reused", message)
    message = (
        f"request {request_id} with this idempotency key was served and charged, but its answer was not kept, because"
        " it is too long or did not reach its end; use a new key to run it again"
    )
    error = refuse(409, "idempotency_outcome_not_kept", message)
    error.headers = ((b"x-should-retry", b"false"),)
    return error
