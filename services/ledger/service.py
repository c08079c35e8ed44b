"""The ledger's use cases. One call of money is one job in a queue; the rest goes to the books directly.

Called by rpc.py and consumers.py.
"""

import asyncio
import logging
from collections.abc import Sequence

from libs.db.database import Database
from libs.db.errors import DatabaseAwayError
from libs.ops.telemetry import Telemetry
from services.ledger.domain.calls import Credit, InvalidCallError, NotDoneError, Release, Settle, Settled
from services.ledger.domain.descriptor import Signer
from services.ledger.job import Answer, AwaitedJob, Call, Job
from services.ledger.posting import Posting
from services.ledger.prices import Prices
from services.ledger.settings import LedgerSettings
from services.ledger.shards import Shards
from services.ledger.store import CreditedOutcome, PostingLine, Ref, Store
from services.ledger.telemetry import CREDITED, FAILED

log = logging.getLogger("kenari.ledger")


class Ledger:
    """Reserve, settle, release, touch, credit."""

    def __init__(
        self, database: Database, store: Store, prices: Prices, settings: LedgerSettings, telemetry: Telemetry
    ) -> None:
        self._store = store
        self._prices = prices
        self._ttl_ms = int(settings.hold_ttl_s * 1000)
        signer = Signer(settings.descriptor_secret.get_secret_value().encode())
        self._lines = [PostingLine(database.session()) for _ in range(settings.queue.shards)]
        postings = [Posting(line, signer, self._again, settings, telemetry) for line in self._lines]
        self._shards = Shards([posting.post for posting in postings], settings.queue, telemetry)
        self._pricing: set[asyncio.Task[None]] = set()
        self._failed = telemetry.metrics.counter(FAILED)
        self._credited = telemetry.metrics.counter(CREDITED)

    def submit(self, job: Job) -> None:
        """Take a call in; its job hears the answer. Never waits and never raises for what is wrong with the call."""
        call = job.call
        try:
            call.check()
        except InvalidCallError as error:
            self._fail(job, error.reason)
            return
        if not isinstance(call, Release):
            job.price = self._prices.known(call.price_version)
            if job.price is None:
                self._again(job, call.price_version)
                return
        self._shards.put(job)

    async def run(self, call: Call, trace: str = "") -> Answer:
        """One call from queue to answer; raise NotDoneError or RefusedError."""
        job = AwaitedJob(call, trace)
        self.submit(job)
        return await job.answer

    async def settle_all(self, calls: Sequence[tuple[Settle, str]]) -> tuple[int, int]:
        """Settle what is not settled yet (each with its trace); return how many were new and how many known.

        Raises NotDoneError when one was not done, else the first RefusedError: all others are done by then.
        """
        traces = dict(calls)
        jobs = [AwaitedJob(call, traces[call]) for call in await self._store.unsettled(list(traces))]
        for job in jobs:
            self.submit(job)
        answers = await asyncio.gather(*(job.answer for job in jobs), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in sorted(failures, key=lambda error: not isinstance(error, NotDoneError)):
            raise failure
        new = sum(isinstance(answer, Settled) and not answer.duplicate for answer in answers)
        return new, len(calls) - new

    async def touch(self, holds: Sequence[Ref]) -> list[Ref]:
        """Keep holds alive; return those that are not open any more."""
        return await self._store.touch(holds, self._ttl_ms)

    async def credit(self, call: Credit) -> CreditedOutcome:
        """Put money into a wallet once; raise InvalidCallError, RefusedError or DatabaseAwayError."""
        call.check()
        outcome = await self._store.credit(call)
        if not outcome.duplicate:
            self._credited.labels(call.kind).inc(call.amount)
        return outcome

    async def start(self) -> None:
        await self._shards.start()

    async def stop(self) -> None:
        """Answer what is queued, then let the connections go."""
        if self._pricing:
            await asyncio.wait(set(self._pricing), timeout=1.0)
        await self._shards.stop()
        for line in self._lines:
            await line.close()

    def problem(self) -> str | None:
        return self._shards.problem()

    def _again(self, job: Job, price_version: str) -> None:
        """Queue a job once its price is at hand."""
        task = asyncio.create_task(self._priced(job, price_version))
        self._pricing.add(task)
        task.add_done_callback(self._pricing.discard)

    async def _priced(self, job: Job, price_version: str) -> None:
        try:
            job.price = await self._prices.load(price_version)
        except NotDoneError as error:
            self._fail(job, error.reason)
        except DatabaseAwayError:
            self._fail(job, "unavailable")
        else:
            self._shards.put(job)

    def _fail(self, job: Job, reason: str) -> None:
        self._failed.labels(reason).inc()
        job.fail(reason)
