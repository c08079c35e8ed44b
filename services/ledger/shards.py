"""Queues in front of the database: calls wait here only while a commit is under way, then go together.

Used by service.py. All calls of an account meet in one shard, in order; a shard has one batch under way at a time
and takes everything that has arrived meanwhile. There is no timer: an idle shard starts at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from zlib import crc32

from libs.ops.telemetry import Telemetry
from services.ledger.domain.calls import Reserve
from services.ledger.job import Job
from services.ledger.settings import QueueSettings
from services.ledger.telemetry import FAILED, QUEUE

log = logging.getLogger("kenari.ledger")

Post = Callable[[list[Job]], Awaitable[None]]


class Shard:
    """The queue of some accounts: finishes (settles, releases) before reservations, each in arrival order."""

    def __init__(self, post: Post, settings: QueueSettings, failed: Callable[[str], None]) -> None:
        self._post = post
        self._settings = settings
        self._failed = failed
        self._finishes: deque[Job] = deque()
        # By request, so that a finish can take a reservation out that has not been made yet.
        self._reserves: dict[tuple[str, int], Job] = {}
        self._waiting: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._finishes) + len(self._reserves)

    def put(self, job: Job) -> None:
        """Queue a call; fails it as overloaded when its account has too many waiting."""
        account = job.call.account_id
        waiting = self._waiting.get(account, 0)
        if waiting >= self._settings.per_account:
            self._fail(job, "overloaded")
            return
        # Whoever sends a second call for a request has given up on the reservation that still waits.
        before = self._reserves.pop(job.ident, None)
        if before is not None:
            self._left(before)
            self._fail(before, "superseded")
        self._waiting[account] = self._waiting.get(account, 0) + 1
        if isinstance(job.call, Reserve):
            self._reserves[job.ident] = job
        else:
            self._finishes.append(job)
        self._wake.set()

    def start(self, name: str) -> None:
        self._task = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        """Work off what is queued, then end."""
        if self._task is None:
            return
        self._stopping = True
        self._wake.set()
        await self._task

    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    async def _run(self) -> None:
        while len(self) or not self._stopping:
            await self._wake.wait()
            batch = self._take()
            if not batch:
                self._wake.clear()
                continue
            try:
                await self._post(batch)
            except Exception:
                # The outermost guard of a batch: the queue and the accounts behind it go on.
                log.exception("batch failed", extra={"count": len(batch)})
                for job in batch:
                    self._fail(job, "internal")

    def _take(self) -> list[Job]:
        """The next batch: each request at most once, reservations nobody waits for left out."""
        batch: list[Job] = []
        taken: set[tuple[str, int]] = set()
        later: list[Job] = []
        room = self._settings.max_batch
        while self._finishes and len(batch) < room:
            job = self._finishes.popleft()
            if job.ident in taken:
                later.append(job)
                continue
            taken.add(job.ident)
            self._left(job)
            batch.append(job)
        self._finishes.extendleft(reversed(later))
        again: list[Job] = []
        while self._reserves and len(batch) < room:
            job = self._reserves.pop(next(iter(self._reserves)))
            if job.ident in taken:
                again.append(job)
                continue
            self._left(job)
            # Finishes are done even when nobody waits: the work has to be done anyway.
            if job.expired():
                self._fail(job, "deadline")
            else:
                batch.append(job)
        self._reserves.update((job.ident, job) for job in again)
        return batch

    def _left(self, job: Job) -> None:
        account = job.call.account_id
        left = self._waiting[account] - 1
        if left:
            self._waiting[account] = left
        else:
            del self._waiting[account]

    def _fail(self, job: Job, reason: str) -> None:
        self._failed(reason)
        job.fail(reason)


class Shards:
    """All queues of this process."""

    def __init__(self, posts: list[Post], settings: QueueSettings, telemetry: Telemetry) -> None:
        failed = telemetry.metrics.counter(FAILED)
        length = telemetry.metrics.gauge(QUEUE)
        self._shards = [Shard(post, settings, lambda reason: failed.labels(reason).inc()) for post in posts]
        for number, shard in enumerate(self._shards):
            length.labels(str(number)).set_function(shard.__len__)

    def put(self, job: Job) -> None:
        """Queue a call in its account's shard."""
        self._shards[crc32(job.call.account_id.encode()) % len(self._shards)].put(job)

    async def start(self) -> None:
        for number, shard in enumerate(self._shards):
            shard.start(f"ledger-shard-{number}")

    async def stop(self) -> None:
        await asyncio.gather(*(shard.stop() for shard in self._shards))

    def problem(self) -> str | None:
        return "a queue has ended" if any(shard.ended() for shard in self._shards) else None
