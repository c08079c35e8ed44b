"""Posts batches to the books: one statement each, tried again under the same ids while its outcome is unknown.

Called by the queues (shards.py), one Posting per shard.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol

import asyncpg

from libs.core.money import Micros, ceil_rupiah, floor_rupiah
from libs.core.retry import backoff
from libs.db.errors import DatabaseAwayError
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import Attributes, current_traceparent
from services.ledger import telemetry as metrics
from services.ledger.batch import Batch, Finished, Reserved
from services.ledger.domain.calls import Denied, Granted, Released, Reserve, Settle, Settled
from services.ledger.domain.descriptor import Descriptor, Signer
from services.ledger.job import Job
from services.ledger.settings import LedgerSettings

log = logging.getLogger("kenari.ledger")

_TRIES = 3


class Books(Protocol):
    """Where a batch is posted (store.py)."""

    async def post(self, columns: tuple[Any, ...]) -> Any: ...


class Posting:
    """Turns a list of jobs into one transaction and its result into their answers.

    ``again`` takes a job whose price or hold turned out to be another than it said.
    """

    def __init__(
        self,
        books: Books,
        signer: Signer,
        again: Callable[[Job, str], None],
        settings: LedgerSettings,
        telemetry: Telemetry,
    ) -> None:
        self._books = books
        self._signer = signer
        self._again = again
        self._settings = settings
        self._ttl_ms = int(settings.hold_ttl_s * 1000)
        self._id_window_ms = int(settings.id_window_s * 1000)
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
        batch = Batch(jobs, charge_interrupted=self._settings.charge_interrupted)
        for job, error in batch.unfit:
            log.error("call does not fit", extra={"request_id": job.call.request_id, "reason": str(error)})
            self._fail(job, error.reason)
        posted = [*batch.finishes, *batch.reserves]
        if not posted:
            return
        self._calls.observe(len(posted))
        try:
            result = await self._commit(batch.columns(self._ttl_ms, self._id_window_ms))
        except DatabaseAwayError as error:
            for job in posted:
                self._fail(job, "unavailable")
            log.warning("batch not posted", extra={"count": len(posted), "reason": str(error)})
        except asyncpg.PostgresError as error:
            await self._isolate(posted, error)
        else:
            self._finished(batch, result)
            self._reserved(batch, result)

    async def _commit(self, columns: tuple[Any, ...]) -> Any:
        waits = backoff(0.01, 0.2)
        for left in range(_TRIES - 1, -1, -1):
            started = time.perf_counter()
            try:
                return await self._books.post(columns)
            except (DatabaseAwayError, asyncpg.UniqueViolationError) as error:
                # A key violation means that another process was first with one of these ids: look again.
                reason = error.reason if isinstance(error, DatabaseAwayError) else "raced"
                self._retries.labels(reason).inc()
                if not left:
                    raise
            finally:
                self._seconds.observe(time.perf_counter() - started)
            await asyncio.sleep(next(waits))
        raise AssertionError("unreachable")

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

    def _finished(self, batch: Batch, result: Any) -> None:
        if not batch.finishes:
            return
        settled: Counter[tuple[str, int]] = Counter()
        released: Counter[int] = Counter()
        conflicts = charged = 0
        costs, catalogs = result["out_f_cost"], result["out_f_catalog"]
        availables, prices = result["out_f_available"], result["out_f_price"]
        for i, (job, status) in enumerate(zip(batch.finishes, result["out_f_status"], strict=True)):
            call = job.call
            if status == Finished.OTHER_ACCOUNT:
                self._fail(job, "other_account")
            elif not isinstance(call, Settle):
                job.done(Released(status in (Finished.DONE, Finished.BEFORE)))
                released[status] += 1
            elif status == Finished.NO_HOLD:
                self._rebuild(job, call)
            elif status == Finished.OTHER_PRICE:
                self._again(job, prices[i])
            else:
                if status == Finished.CONFLICT:
                    conflicts += 1
                    log.error("settlement conflict", extra={"request_id": call.request_id})
                if status == Finished.DONE:
                    charged += costs[i]
                job.done(
                    Settled(
                        costs[i], catalogs[i], availables[i], status == Finished.BEFORE, status == Finished.CONFLICT
                    )
                )
                settled[call.billing_kind, status] += 1
        for (kind, status), count in settled.items():
            self._settlements.labels(kind, Finished(status).name.lower()).inc(count)
        for status, count in released.items():
            self._releases.labels(Finished(status).name.lower()).inc(count)
        self._charged.inc(charged)
        self._conflicts.inc(conflicts)

    def _rebuild(self, job: Job, call: Settle) -> None:
        """The hold is not there: charge all the same if we once granted it."""
        granted = self._signer.read(call.descriptor)
        ours = granted is not None and (granted.request_id, granted.line, granted.account_id, granted.billing_kind) == (
            call.request_id,
            call.line,
            call.account_id,
            call.billing_kind,
        )
        if granted is None or not ours or job.create:
            self._fail(job, "unknown_hold")
            return
        log.warning("hold rebuilt", extra={"request_id": call.request_id, "account_id": call.account_id})
        job.create = True
        self._again(job, granted.price_version)

    def _reserved(self, batch: Batch, result: Any) -> None:
        if not batch.reserves:
            return
        tokens, amounts, availables = result["out_r_tokens"], result["out_r_amount"], result["out_r_available"]
        for i, (job, status) in enumerate(zip(batch.reserves, result["out_r_status"], strict=True)):
            call = job.call
            assert isinstance(call, Reserve)
            if status in (Reserved.GRANTED, Reserved.BEFORE):
                granted = Descriptor(call.request_id, call.line, call.account_id, "payg", call.price_version)
                lowered = tokens[i] < call.max_tokens
                descriptor = self._signer.sign(granted)
                job.done(Granted("payg", tokens[i], lowered, amounts[i], self._ttl_ms, descriptor, availables[i]))
            elif status in (Reserved.NO_FUNDS, Reserved.PAYG_LIMIT):
                job.done(self._denied(status, availables[i], batch.worst[i].full))
            else:
                reasons = {
                    Reserved.FINISHED: "already_finished",
                    Reserved.OTHER_CONTENT: "other_content",
                    Reserved.ID_TIME: "request_id_time",
                }
                self._fail(job, reasons[status])
        for status, count in Counter(result["out_r_status"]).items():
            self._reservations.labels(Reserved(status).name.lower()).inc(count)

    def _denied(self, status: int, available: int, worst: Micros) -> Denied:
        if status == Reserved.PAYG_LIMIT:
            message = (
                "PAYG balance limit reached: spending from the balance is paused until enough of it is older than "
                "the limit's window. Raise or remove the limit on the Plan page to go on now"
            )
            return Denied(402, "payg_limit_reached", message, available, worst)
        message = (
            f"insufficient balance: {floor_rupiah(Micros(available))} is available and this request can cost up to "
            f"{ceil_rupiah(worst)} (the estimated input and all of max_tokens). "
            f"Shorten the prompt, lower max_tokens or top up at {self._settings.top_up_url}"
        )
        return Denied(402, "insufficient_balance", message, available, worst)
