"""Posts batches to the books: one transaction each, tried again under the same ids while its outcome is unknown.

Called by the queues (shards.py), one Posting per shard.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import asyncpg

from libs.core.retry import backoff
from libs.db.errors import DatabaseAwayError
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import Attributes, current_traceparent
from services.ledger import telemetry as metrics
from services.ledger.batch import Batch, HoldsLostError, Outcome, Result, count
from services.ledger.domain.calls import Release, Reserve, Settle, Settled
from services.ledger.domain.descriptor import Signer
from services.ledger.domain.state import Hold
from services.ledger.job import Job
from services.ledger.settings import LedgerSettings
from services.ledger.store import PostingLine

log = logging.getLogger("kenari.ledger")

_TRIES = 3


class Posting:
    """Turns a list of jobs into one transaction and its outcomes into their answers.

    ``again`` takes a job whose price turned out to be another than it said.
    """

    def __init__(
        self,
        line: PostingLine,
        signer: Signer,
        again: Callable[[Job, str], None],
        settings: LedgerSettings,
        telemetry: Telemetry,
    ) -> None:
        self._line = line
        self._signer = signer
        self._again = again
        self._settings = settings
        self._tracing = telemetry.tracing
        counter, histogram = telemetry.metrics.counter, telemetry.metrics.histogram
        self._reservations = counter(metrics.RESERVATIONS)
        self._settlements = counter(metrics.SETTLEMENTS)
        self._releases = counter(metrics.RELEASES)
        self._charged = counter(metrics.CHARGED)
        self._conflicts = counter(metrics.CONFLICTS)
        self._failed = counter(metrics.FAILED)
        self._retries = counter(metrics.BATCH_RETRIES)
        self._calls = histogram(metrics.BATCH)
        self._seconds = histogram(metrics.BATCH_SECONDS)

    async def post(self, jobs: list[Job]) -> None:
        """Answer every job; raises nothing but cancellation."""
        with ExitStack() as spans:
            for job in jobs:
                if job.trace:
                    name = f"ledger.{type(job.call).__name__.lower()}"
                    attributes: Attributes = {"kenari.request_id": job.call.request_id, "kenari.batch": len(jobs)}
                    opened = self._tracing.span(name, parent=job.trace, kind="server", attributes=attributes)
                    if spans.enter_context(opened) is not None:
                        job.trace = current_traceparent()
            await self._post(jobs)

    async def _post(self, jobs: list[Job]) -> None:
        batch = Batch(jobs, self._signer, self._settings)
        for job, error in batch.unfit:
            log.error("call does not fit", extra={"request_id": job.call.request_id, "reason": str(error)})
            self._fail(job, error.reason)
        if not batch.jobs:
            return
        self._calls.observe(len(batch.jobs))
        try:
            outcomes = await self._commit(batch)
        except DatabaseAwayError as error:
            for job in batch.jobs:
                self._fail(job, "unavailable")
            log.warning("batch not posted", extra={"count": len(batch.jobs), "reason": str(error)})
        except asyncpg.PostgresError as error:
            await self._isolate(batch.jobs, error)
        else:
            self._answer(outcomes)
            self._measure(outcomes)

    async def _commit(self, batch: Batch) -> list[Outcome]:
        waits = backoff(0.01, 0.2)
        left = _TRIES
        lost: Sequence[Hold] = ()
        while True:
            started = time.perf_counter()
            try:
                return await self._line.post(batch.wanted(lost), batch.work)
            except HoldsLostError as error:
                for hold in error.holds:
                    log.warning("hold rebuilt", extra={"request_id": hold.request_id, "account_id": hold.account_id})
                lost = error.holds
                continue
            except (DatabaseAwayError, asyncpg.UniqueViolationError) as error:
                # A key violation means that another process was first with one of these ids: look again.
                reason = error.reason if isinstance(error, DatabaseAwayError) else "raced"
                self._retries.labels(reason).inc()
                left -= 1
                if not left:
                    raise
            finally:
                self._seconds.observe(time.perf_counter() - started)
            await asyncio.sleep(next(waits))

    async def _isolate(self, jobs: list[Job], error: Exception) -> None:
        """The server refused the batch as such: find the call it cannot take, let the others through."""
        if len(jobs) == 1:
            (job,) = jobs
            log.error("call refused by the database", extra={"request_id": job.call.request_id, "reason": str(error)})
            self._fail(job, "invalid")
            return
        half = len(jobs) // 2
        await self._post(jobs[:half])
        await self._post(jobs[half:])

    def _fail(self, job: Job, reason: str) -> None:
        self._failed.labels(reason).inc()
        job.fail(reason)

    def _answer(self, outcomes: Sequence[Outcome]) -> None:
        for one in outcomes:
            if one.answer is not None:
                one.job.done(one.answer)
            elif one.result is Result.OTHER_PRICE:
                self._again(one.job, one.reason)
            else:
                self._fail(one.job, one.reason)
            if one.result is Result.CONFLICT:
                self._conflicts.inc()
                log.error("settlement conflict", extra={"request_id": one.job.call.request_id})

    def _measure(self, outcomes: Sequence[Outcome]) -> None:
        for result, number in count(outcomes, Reserve).items():
            self._reservations.labels(result).inc(number)
        for result, number in count(outcomes, Release).items():
            self._releases.labels(result).inc(number)
        settled: Counter[tuple[str, str]] = Counter()
        for one in outcomes:
            if isinstance(one.job.call, Settle) and isinstance(one.answer, Settled):
                assert isinstance(one.result, Result)
                settled[one.job.call.billing_kind, one.result.value] += 1
                if one.result is Result.DONE:
                    self._charged.inc(one.answer.cost)
        for (kind, result), number in settled.items():
            self._settlements.labels(kind, result).inc(number)
