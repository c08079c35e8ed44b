"""Valkey down, frozen, flushed, restarted: nobody paid is refused, no request waits long, counts heal."""

import asyncio
import time
from statistics import median

from services.limiter.domain import IN_FLIGHT, Admit, Allowed
from services.limiter.service import Limiter
from tests.service.limiter.bench import ACCOUNT, Bench, admit, allowed, count_allowed, done, fast, refused

# As in production.
TIMEOUT_MS = 20


async def successes(bench: Bench) -> int:
    return int(await bench.client.hget(f"{{{ACCOUNT}}}:free:day:", "successes") or 0)


async def timed(limiter: Limiter, ask: Admit) -> float:
    """Milliseconds until a degraded admission."""
    started = time.perf_counter()
    answer = await allowed(limiter, ask)
    assert answer.degraded
    return (time.perf_counter() - started) * 1000


async def test_valkey_down_lets_paid_traffic_pass_at_once(bench: Bench) -> None:
    limiter = bench.limiter(timeout_ms=TIMEOUT_MS)
    await allowed(limiter, bench.paid())
    bench.server.kill()
    waits = [await timed(limiter, bench.paid()) for _ in range(20)]
    assert median(waits[:5]) < 25
    assert median(waits[5:]) < 2, "once the breaker is open nothing waits"


async def test_valkey_frozen_costs_a_few_requests_at_most_25_ms(bench: Bench) -> None:
    limiter = bench.limiter(timeout_ms=TIMEOUT_MS)
    await allowed(limiter, bench.paid())
    bench.server.pause()
    waits = [await timed(limiter, bench.paid()) for _ in range(20)]
    # Medians, since this machine may pause as well.
    assert 15 < median(waits[:5]) < 25
    assert median(waits[5:]) < 2
    await limiter.mend()
    assert (await allowed(limiter, bench.paid())).degraded, "a probe that gets no answer changes nothing"


async def test_an_outage_shows_in_the_metrics_and_ends_there(bench: Bench) -> None:
    limiter = bench.limiter()
    bench.server.stop()
    for _ in range(6):
        ask = bench.free()
        await allowed(limiter, ask)
        await limiter.answer([done(ask)])
    assert bench.metric("kenari_limiter_store_degraded") == 1
    assert bench.metric("kenari_limiter_store_failures_total", reason="connection") >= 5
    assert bench.metric("kenari_limiter_backlog_size") == 6
    bench.server.start()
    await limiter.mend()
    await allowed(limiter, bench.free())
    assert bench.metric("kenari_limiter_store_degraded") == 0
    assert bench.metric("kenari_limiter_backlog_size") == 0
    for source, count in (("local", 6), ("store", 1)):
        labels = {"subject": "free_chat", "outcome": "allowed", "source": source}
        assert bench.metric("kenari_limiter_admissions_total", **labels) == count


async def test_late_replies_are_never_taken_for_those_of_other_questions(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=1_000), rpm=1_000, timeout_ms=100)
    for _ in range(3):
        bench.server.pause()
        frozen = await asyncio.gather(*(admit(limiter, bench.paid()) for _ in range(3)))
        assert all(isinstance(answer, Allowed) and answer.degraded for answer in frozen)
        bench.server.resume()
        await limiter.mend()
        for limit in (1_000, 0, 1_000, 0):
            answer = await allowed(limiter, bench.free() if limit else bench.paid())
            assert (answer.limit, answer.degraded) == (limit, False)


async def test_shares_hold_while_valkey_is_down(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=50), rpm=40, usage_rpm=10, processes=2)
    used = [bench.free() for _ in range(10)]
    await limiter.answer(used)
    await limiter.answer([done(ask) for ask in used])
    bench.server.kill()
    paid = [await admit(limiter, bench.paid()) for _ in range(40)]
    assert count_allowed(paid) == 30
    reads = [await admit(limiter, bench.usage()) for _ in range(10)]
    assert count_allowed(reads) == 5
    free = [await admit(limiter, bench.free()) for _ in range(10)]
    assert count_allowed(free) == (50 - 10) // 5 // 2
    assert free[-1] == IN_FLIGHT


async def test_what_ended_during_the_outage_is_counted_once_when_valkey_is_back(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=50))
    before = [bench.free() for _ in range(4)]
    await limiter.answer(before)
    bench.server.stop()
    during = [bench.free() for _ in range(6)]
    for ask in during:
        await allowed(limiter, ask)
    # Two end well and one badly of each kind; one of each is told twice.
    for ask in (*before[:2], *during[:2], before[0], during[0]):
        await limiter.answer([done(ask)])
    await limiter.answer([done(before[2], success=False), done(during[2], success=False)])
    bench.server.start()
    await limiter.mend()
    assert await successes(bench) == 4
    assert await bench.client.zcard(f"{{{ACCOUNT}}}:free:leases:") == 1
    await limiter.answer([done(during[3])])
    assert await successes(bench) == 5
    assert not (await allowed(limiter, bench.free())).degraded


async def test_a_request_whose_admission_timed_out_counts_once(bench: Bench) -> None:
    """Valkey holds a lease for it although the limiter answered by itself."""
    limiter = bench.limiter(fast(daily=50), timeout_ms=200)
    ask = bench.free()
    await allowed(limiter, bench.free())
    bench.server.pause()
    assert (await allowed(limiter, ask)).degraded
    bench.server.resume()
    await asyncio.sleep(0.2)
    assert await bench.client.zcard(f"{{{ACCOUNT}}}:free:leases:") == 2
    await limiter.answer([done(ask), done(ask)])
    assert await successes(bench) == 1


async def test_counts_lost_by_valkey_are_healed_by_the_next_question(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=50))
    asks = [bench.free() for _ in range(30)]
    await limiter.answer(asks)
    await limiter.answer([done(ask) for ask in asks])
    await bench.client.flushall()
    await allowed(limiter, bench.free())
    assert await successes(bench) == 30
    more = [bench.free() for _ in range(19)]
    assert count_allowed(await limiter.answer(more)) == 19
    assert await refused(limiter, bench.free()) == IN_FLIGHT


async def test_a_restart_between_two_questions_goes_unnoticed(bench: Bench) -> None:
    limiter = bench.limiter(rpm=2)
    await allowed(limiter, bench.paid())
    bench.server.stop()
    bench.server.start()
    assert not (await allowed(limiter, bench.paid())).degraded
    await refused(limiter, bench.paid())


async def test_scripts_the_server_forgot_are_loaded_again(bench: Bench) -> None:
    limiter = bench.limiter(rpm=3)
    await allowed(limiter, bench.paid())
    await bench.client.script_flush()
    answers = await limiter.answer([bench.paid(), bench.free(), bench.paid(), bench.paid()])
    assert [isinstance(answer, Allowed) and not answer.degraded for answer in answers] == [True, True, True, False]


async def test_the_limiter_starts_while_valkey_is_down_and_finds_it_later(bench: Bench) -> None:
    bench.server.stop()
    limiter = bench.limiter()
    for _ in range(6):
        assert (await allowed(limiter, bench.paid())).degraded
    bench.server.start()
    await limiter.mend()
    assert not (await allowed(limiter, bench.paid())).degraded


async def test_a_store_that_refuses_writes_counts_as_away(bench: Bench) -> None:
    limiter = bench.limiter()
    await allowed(limiter, bench.paid())
    await bench.client.config_set("maxmemory", "1")
    try:
        assert (await allowed(limiter, bench.paid())).degraded
    finally:
        await bench.client.config_set("maxmemory", "0")
    assert not (await allowed(limiter, bench.paid())).degraded
