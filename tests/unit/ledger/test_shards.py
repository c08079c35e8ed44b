"""The queues: who goes first, who is shed, and that nobody waits for a timer."""

import asyncio

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.ledger.domain.calls import Release, Reserve
from services.ledger.job import Job
from services.ledger.settings import QueueSettings
from services.ledger.shards import Shards
from tests.unit.ledger.calls import Heard, reserve, settle


class Posts:
    """Batches as they arrive; each takes until ``go`` lets it."""

    def __init__(self) -> None:
        self.batches: list[list[Job]] = []
        self.go = asyncio.Semaphore(0)

    async def __call__(self, jobs: list[Job]) -> None:
        self.batches.append(jobs)
        await self.go.acquire()


async def _started(posts: Posts, **settings: int) -> Shards:
    shards = Shards([posts], QueueSettings(shards=1, **settings), Telemetry("t", TelemetrySettings()))
    await shards.start()
    return shards


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_idle_queue_starts_at_once_and_a_busy_one_collects() -> None:
    posts = Posts()
    shards = await _started(posts)
    first, second, third = (Heard(reserve()) for _ in range(3))

    shards.put(first)
    await _turns()
    shards.put(second)
    shards.put(third)
    await _turns()
    assert posts.batches == [[first]]
    posts.go.release()
    await _turns()

    assert posts.batches == [[first], [second, third]]
    posts.go.release()
    await shards.stop()


async def test_finishes_go_before_reservations_each_in_order() -> None:
    posts = Posts()
    shards = await _started(posts)
    shards.put(Heard(reserve()))
    await _turns()
    reserves = [Heard(reserve()) for _ in range(2)]
    finishes = [Heard(settle()), Heard(settle())]
    for job in (reserves[0], finishes[0], reserves[1], finishes[1]):
        shards.put(job)

    posts.go.release()
    await _turns()

    assert posts.batches[1] == [*finishes, *reserves]
    posts.go.release()
    await shards.stop()


async def test_a_batch_has_an_end_and_a_request_once() -> None:
    posts = Posts()
    shards = await _started(posts, max_batch=3)
    shards.put(Heard(reserve()))
    await _turns()
    call = settle()
    jobs = [Heard(call), Heard(call), *(Heard(settle()) for _ in range(3))]
    for job in jobs:
        shards.put(job)

    for _ in range(3):
        posts.go.release()
        await _turns()

    assert posts.batches[1:] == [[jobs[0], jobs[2], jobs[3]], [jobs[1], jobs[4]]]
    posts.go.release()
    await shards.stop()


async def test_a_reservation_behind_its_own_release_waits_for_the_next_batch() -> None:
    posts = Posts()
    shards = await _started(posts)
    shards.put(Heard(reserve()))
    await _turns()
    call = reserve()
    release, again = Heard(Release(call.request_id, call.line, call.account_id)), Heard(call)
    shards.put(release)
    shards.put(again)

    posts.go.release()
    await _turns()
    posts.go.release()
    await _turns()

    assert posts.batches[1:] == [[release], [again]]
    posts.go.release()
    await shards.stop()


async def test_late_reservations_are_dropped_but_late_finishes_are_done() -> None:
    posts = Posts()
    shards = await _started(posts)
    shards.put(Heard(reserve()))
    await _turns()
    late_reserve, late_settle = Heard(reserve(), late=True), Heard(settle(), late=True)
    shards.put(late_reserve)
    shards.put(late_settle)

    posts.go.release()
    await _turns()

    assert posts.batches[1] == [late_settle]
    assert late_reserve.reasons == ["deadline"]
    posts.go.release()
    await shards.stop()


async def test_only_the_account_with_too_many_waiting_is_shed() -> None:
    posts = Posts()
    shards = await _started(posts, per_account=2)
    shards.put(Heard(reserve()))
    await _turns()
    crowd = [Heard(reserve()) for _ in range(3)]
    other = Heard(reserve(account_id="acct_2"))
    for job in (*crowd, other):
        shards.put(job)

    assert [job.reasons for job in (*crowd, other)] == [[], [], ["overloaded"], []]
    posts.go.release()
    await _turns()
    shards.put(again := Heard(reserve()))
    assert again.reasons == []
    for _ in range(2):
        posts.go.release()
    await shards.stop()


async def test_stopping_answers_what_is_queued() -> None:
    posts = Posts()
    shards = await _started(posts)
    for _ in range(3):
        shards.put(Heard(reserve()))
        await _turns()
    for _ in range(3):
        posts.go.release()

    await shards.stop()

    assert sum(len(batch) for batch in posts.batches) == 3
    assert all(isinstance(job.call, Reserve) for batch in posts.batches for job in batch)


async def test_a_batch_that_breaks_fails_its_calls_and_the_queue_goes_on() -> None:
    posted: list[list[Job]] = []

    async def breaks(jobs: list[Job]) -> None:
        posted.append(jobs)
        if len(posted) == 1:
            raise RuntimeError("a fault of ours")

    shards = Shards([breaks], QueueSettings(shards=1), Telemetry("t", TelemetrySettings()))
    await shards.start()
    first, second = Heard(reserve()), Heard(reserve())
    shards.put(first)
    await _turns()
    shards.put(second)
    await _turns()

    assert first.reasons == ["internal"]
    assert posted[1] == [second]
    assert shards.problem() is None
    await shards.stop()
