"""Requests per minute on paid models and usage reads, on a real Valkey: exact, shared, idempotent, never stuck."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE

import pytest

from services.limiter import windows
from services.limiter.domain import Admit, Code, Limit, Refused, Subject
from services.limiter.store import WINDOWS
from tests.service.limiter.bench import ACCOUNT, Bench, allowed, count_allowed, fast, refused


@pytest.mark.rule("LIMIT-010")
async def test_request_over_the_account_limit_is_refused_without_retry_after(bench: Bench) -> None:
    limiter = bench.limiter(rpm=60)
    answers = await limiter.answer([bench.paid() for _ in range(61)])
    assert count_allowed(answers) == 60
    refusal = answers[-1]
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.retry_after_s, refusal.limit) == (Code.RATE_LIMIT, 0, Limit.ACCOUNT_REQUESTS)
    assert 59_000 < refusal.again_ms <= 60_000, "until the oldest of the minute leaves it"


async def test_paid_answers_show_no_limit(bench: Bench) -> None:
    answer = await allowed(bench.limiter(), bench.paid())
    assert (answer.limit, answer.leased, answer.wait_ms, answer.degraded) == (0, False, 0, False)


@pytest.mark.rule("LIMIT-012")
async def test_two_limiters_hold_one_limit_exactly_under_bursts(bench: Bench) -> None:
    limiters = [bench.limiter(rpm=60), bench.limiter(rpm=60)]
    bursts = [limiters[n % 2].answer([bench.paid() for _ in range(7)]) for n in range(40)]
    answers = [answer for burst in await asyncio.gather(*bursts) for answer in burst]
    assert count_allowed(answers) == 60


async def test_two_processes_hold_one_limit_exactly(bench: Bench) -> None:
    command = [sys.executable, "-m", "tests.service.limiter.burst", bench.server.url, "200"]
    processes = [await asyncio.create_subprocess_exec(*command, stdout=PIPE) for _ in range(2)]
    admitted = [int((await process.communicate())[0]) for process in processes]
    assert sum(admitted) == 60


@pytest.mark.parametrize("limit", [60, 1_000])
async def test_worst_minute_never_holds_more_than_the_limit(bench: Bench, limit: int) -> None:
    """A minute scaled down to 300 ms, so that bursts cross many window borders; times are the server's own."""
    window_ms = 300
    call = WINDOWS.call([b"{a}:ring"], [b"%d" % window_ms, b"1000", b"%d" % limit, b"log", b"1"])
    store = bench.store()
    admitted: list[int] = []
    until = time.monotonic() + 2
    while time.monotonic() < until:
        replies = await store.run([call] * (limit // 5))
        count = replies.count(0)
        if count:
            admitted += [int(stamp) for stamp in await bench.client.lrange("{a}:ring", 0, count - 1)][::-1]
    spans = [later - earlier for earlier, later in zip(admitted, admitted[limit:], strict=False)]
    assert len(spans) >= 3 * limit, "the window does slide"
    assert min(spans) >= window_ms


async def test_a_limit_above_a_thousand_holds_and_lets_go_after_its_window(bench: Bench) -> None:
    limiter = bench.limiter(rpm=1_500)
    answers = [answer for _ in range(16) for answer in await limiter.answer([bench.paid() for _ in range(100)])]
    assert count_allowed(answers) == 1_500

    store = bench.store()
    call = WINDOWS.call([b"{a}:sub"], [b"1000", b"1000", b"10", b"sum", b"1"])
    assert (await store.run([call] * 20)).count(0) == 10
    await asyncio.sleep(2.05)
    assert (await store.run([call] * 20)).count(0) == 10


@pytest.mark.parametrize("rpm", [5, 1_100])
async def test_repeating_a_request_counts_once(bench: Bench, rpm: int) -> None:
    limiter = bench.limiter(rpm=rpm)
    asks = [bench.paid() for _ in range(rpm)]
    for place in range(0, rpm, 100):
        some = asks[place : place + 100]
        assert count_allowed(await limiter.answer(some)) == len(some)
        assert count_allowed(await limiter.answer(some)) == len(some), "known by now, and also once full"
    await refused(limiter, bench.paid())


@pytest.mark.rule("LIMIT-013")
async def test_the_limit_is_the_accounts_own_where_it_has_one(bench: Bench) -> None:
    limiter = bench.limiter(rpm=10)
    bench.facts.rpm["acct_big"] = 25
    big = await limiter.answer([bench.paid("acct_big") for _ in range(30)])
    default = await limiter.answer([bench.paid() for _ in range(30)])
    assert (count_allowed(big), count_allowed(default)) == (25, 10)
    bench.facts.rpm["acct_big"] = 30
    assert count_allowed(await limiter.answer([bench.paid("acct_big") for _ in range(10)])) == 5


@pytest.mark.rule("LIMIT-014")
async def test_free_requests_leave_the_account_limit_alone(bench: Bench) -> None:
    limiter = bench.limiter(fast(), rpm=5)
    assert count_allowed(await limiter.answer([bench.free() for _ in range(20)])) == 20
    assert count_allowed(await limiter.answer([bench.paid() for _ in range(20)])) == 5
    assert count_allowed(await limiter.answer([bench.free() for _ in range(20)])) == 20


@pytest.mark.rule("LIMIT-016")
async def test_the_61st_usage_read_of_a_minute_is_refused_without_retry_after(bench: Bench) -> None:
    limiter = bench.limiter()
    for _ in range(60):
        await allowed(limiter, bench.usage())
    refusal = await refused(limiter, bench.usage())
    assert (refusal.code, refusal.retry_after_s) == (Code.RATE_LIMIT, 0)
    await allowed(limiter, bench.usage("acct_b"))


@pytest.mark.rule("LIMIT-017")
async def test_usage_reads_and_chat_do_not_use_up_each_other(bench: Bench) -> None:
    limiter = bench.limiter(rpm=5, usage_rpm=5)
    assert count_allowed(await limiter.answer([bench.usage() for _ in range(9)])) == 5
    assert count_allowed(await limiter.answer([bench.paid() for _ in range(9)])) == 5


async def test_a_clock_set_back_blocks_nobody(bench: Bench) -> None:
    limiter = bench.limiter(rpm=5)
    ahead = int(time.time() * 1000) + 300_000
    await bench.client.rpush(f"{{{ACCOUNT}}}:rpm", *[ahead] * 5)
    await allowed(limiter, bench.paid())
    await bench.client.hset(f"{{{ACCOUNT}}}:rpm:s", mapping={"sum": 2_000, "first": ahead // 1000})
    await allowed(bench.limiter(rpm=2_000), bench.paid())


async def test_logs_stay_as_small_as_the_limit_and_expire(bench: Bench) -> None:
    limiter = bench.limiter(rpm=60)
    for _ in range(5):
        await limiter.answer([bench.paid() for _ in range(50)])
    key = f"{{{ACCOUNT}}}:rpm"
    assert await bench.client.llen(key) == 60
    assert await bench.client.memory_usage(key) < 2_000
    assert 0 < await bench.client.pttl(key) <= 60_000
    marks = [found async for found in bench.client.scan_iter(f"{key}:*")]
    assert len(marks) == 60, "a refused request leaves nothing"
    assert all([0 < await bench.client.pttl(mark) <= windows.SEEN_MS for mark in marks])


async def test_accounts_do_not_share_limits(bench: Bench) -> None:
    limiter = bench.limiter(rpm=3)
    asks = [Admit(f"q{n}", f"acct_{n % 4}", Subject.PAID_CHAT) for n in range(40)]
    answers = await limiter.answer(asks)
    for account in range(4):
        assert count_allowed(answers[account::4]) == 3
