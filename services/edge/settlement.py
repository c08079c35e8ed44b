"""Ends the money of a request, whatever became of the task that served it.

Called by the chat endpoint with plain calls that never wait: the question to the ledger and the event go out
from queues of their own, so a cancelled request settles like any other. The call is the fast way, the event
the sure one; the ledger lets the second change nothing.
"""

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec
from kenari.ledger.v1 import ledger_pb2

from libs.core.errors import KenariError
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from services.edge.clients import LedgerClient
from services.edge.reports import Reports, Run
from services.edge.telemetry import SETTLEMENTS

log = logging.getLogger("kenari.edge")

SETTLE_TIMEOUT_S = 2.0
RELEASE_TRIES = 3


class Usage(msgspec.Struct, gc=False, kw_only=True):
    """The data of an ``edge.usage_recorded.v1`` event, field by field as libs.events.edge.UsageRecorded."""

    request_id: str
    line: int = 0
    account_id: str
    key_id: str
    endpoint: str
    model: str
    vendor: str
    price_version: str
    billing_kind: str
    outcome: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool
    descriptor: str
    started_at_ms: int


_OUTCOMES = {
    "completed": ledger_pb2.OUTCOME_COMPLETED,
    "client_closed": ledger_pb2.OUTCOME_CLIENT_CLOSED,
    "interrupted": ledger_pb2.OUTCOME_INTERRUPTED,
}


class Settlement:
    """Settles and releases; keeps the holds of running requests alive."""

    def __init__(
        self, checks: CheckClient, ledger: LedgerClient, reports: Reports, touch_every_s: float, telemetry: Telemetry
    ) -> None:
        self._touch_every_s = touch_every_s
        self._checks = checks
        self._ledger = ledger
        self._reports = reports
        self._holds: set[tuple[str, int]] = set()
        self._pending: set[asyncio.Future[Any]] = set()
        self._toucher: asyncio.Task[None] | None = None
        settled = telemetry.metrics.counter(SETTLEMENTS)
        self._answered = settled.labels("answered")
        self._left_to_event = settled.labels("left_to_event")

    def opened(self, request_id: str, line: int = 0) -> None:
        """A hold was granted; it is kept alive until settled or released."""
        self._holds.add((request_id, line))

    def settle(self, run: Run, usage: Usage) -> None:
        """Charge what was used, now and by event."""
        self._holds.discard((run.request_id, usage.line))
        question = ledger_pb2.SettleRequest(
            request_id=usage.request_id,
            line=usage.line,
            account_id=usage.account_id,
            key_id=usage.key_id,
            endpoint=usage.endpoint,
            model=usage.model,
            vendor=usage.vendor,
            price_version=usage.price_version,
            billing_kind=usage.billing_kind,
            outcome=_OUTCOMES[usage.outcome],
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            estimated=usage.estimated,
            descriptor=usage.descriptor,
            started_at_ms=usage.started_at_ms,
        )
        # After the question is made: figures that fit no column must not become an event either.
        self._reports.usage(run, usage)
        answer = self._checks.begin("settle", question, SETTLE_TIMEOUT_S, run.trace, lazy=True)
        self._pending.add(answer)
        answer.add_done_callback(self._settled)

    def release(
        self, request_id: str, account_id: str, trace: str, reason: str, *, line: int = 0, tries: int = RELEASE_TRIES
    ) -> None:
        """Give a hold back, or one that may have been granted: nothing was delivered.

        If the ledger cannot be told, the hold runs out by itself.
        """
        self._holds.discard((request_id, line))
        question = ledger_pb2.ReleaseRequest(request_id=request_id, line=line, account_id=account_id, reason=reason)
        answer = self._checks.begin("release", question, SETTLE_TIMEOUT_S, trace)
        self._pending.add(answer)

        def released(done: "asyncio.Future[Any]") -> None:
            self._pending.discard(done)
            if not done.cancelled() and done.exception() is not None and tries > 1:
                again = partial(self.release, line=line, tries=tries - 1)
                asyncio.get_running_loop().call_later(0.5, again, request_id, account_id, trace, reason)

        answer.add_done_callback(released)

    def _settled(self, answer: "asyncio.Future[Any]") -> None:
        self._pending.discard(answer)
        if answer.cancelled() or answer.exception() is not None:
            self._left_to_event.inc()
        else:
            self._answered.inc()

    async def start(self) -> None:
        self._toucher = asyncio.create_task(self._touch(), name="holds-touch")

    async def stop(self) -> None:
        """Wait for the settlements under way; the events cover what does not make it."""
        if self._toucher is not None:
            self._toucher.cancel()
            await asyncio.gather(self._toucher, return_exceptions=True)
        if self._pending:
            await asyncio.wait(set(self._pending), timeout=SETTLE_TIMEOUT_S)

    def problem(self) -> str | None:
        return "the keeper of holds has ended" if self._toucher is not None and self._toucher.done() else None

    async def _touch(self) -> None:
        while True:
            await asyncio.sleep(self._touch_every_s)
            if self._holds:
                try:
                    await self._ledger.touch(list(self._holds))
                except KenariError as error:
                    log.warning("holds were not kept alive", extra={"reason": error.reason, "count": len(self._holds)})
