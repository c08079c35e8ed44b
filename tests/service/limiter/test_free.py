"""Free models on a real Valkey: daily quota by success, fixed minute, pacing, leases, one answer per request."""

import asyncio
import random
import time

import pytest

from libs.core.money import Micros, rupiah
from services.limiter.domain import IN_FLIGHT, Admit, Allowed, Answer, Code, Refused, Standing
from services.limiter.service import Limiter
from services.limiter.settings import FreeSettings, TierSettings
from tests.service.limiter.bench import ACCOUNT, Bench, admit, allowed, count_allowed, done, fast, refused, told

DAY_S = 86_400


async def successes(bench: Bench, scope: str = "") -> int:
    return int(await bench.client.hget(f"{{{ACCOUNT}}}:free:day:{scope}", "successes") or 0)


async def finish(limiter: Limiter, asks: list[Admit], success: bool = True) -> None:
    await limiter.answer([done(ask, success) for ask in asks])


@pytest.mark.rule("LIMIT-023")
@pytest.mark.rule("FREE-015")
async def test_only_successes_use_up_the_day(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=3))
    for success in (False, True, False, True, False, True):
        ask = bench.free()
        await allowed(limiter, ask)
        await finish(limiter, [ask], success)
    assert await successes(bench) == 3
    assert (await refused(limiter, bench.free())).code is Code.FREE_DAILY


@pytest.mark.rule("LIMIT-025")
async def test_used_up_day_says_how_long_until_midnight(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=1))
    ask = bench.free()
    await allowed(limiter, ask)
    await finish(limiter, [ask])
    answer = await refused(limiter, bench.free())
    assert answer.code is Code.FREE_DAILY
    assert abs(answer.retry_after_s - (DAY_S - time.time() % DAY_S)) <= 2
    assert isinstance(answer.retry_after_s, int)


@pytest.mark.rule("LIMIT-024")
async def test_yesterdays_successes_do_not_count(bench: Bench) -> None:
    yesterday = int(time.time() // DAY_S) - 1
    await bench.client.hset(f"{{{ACCOUNT}}}:free:day:", mapping={"day": yesterday, "successes": 50})
    limiter = bench.limiter(fast(daily=50))
    ask = bench.free()
    await allowed(limiter, ask)
    await finish(limiter, [ask])
    assert await successes(bench) == 1
    assert 24 * 3600 < await bench.client.ttl(f"{{{ACCOUNT}}}:free:day:") <= 25 * 3600


async def test_places_in_flight_block_but_never_say_that_the_day_is_over(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=3))
    asks = [bench.free() for _ in range(3)]
    assert count_allowed(await limiter.answer(asks)) == 3
    assert await refused(limiter, bench.free()) == IN_FLIGHT
    await finish(limiter, asks[:1], success=False)
    await allowed(limiter, bench.free())


async def test_a_place_whose_request_never_ends_is_free_after_its_lease(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=1, lease_s=1))
    await allowed(limiter, bench.free())
    await refused(limiter, bench.free())
    await asyncio.sleep(1.05)
    await allowed(limiter, bench.free())


async def test_the_end_of_a_request_takes_places_along_whose_end_was_never_told(bench: Bench) -> None:
    limiter = bench.limiter(fast(lease_s=1))
    await limiter.answer([bench.free() for _ in range(3)])
    await asyncio.sleep(1.05)
    ask = bench.free()
    await allowed(limiter, ask)
    await finish(limiter, [ask])
    assert await bench.client.zcard(f"{{{ACCOUNT}}}:free:leases:") == 0


async def test_quota_is_never_overrun_by_failures_crashes_and_duplicates(bench: Bench) -> None:
    """Quota 50 under 16 workers on two limiters: half fail, 5 % never end, ends are reported up to three times."""
    limiters = [bench.limiter(fast(daily=50, lease_s=1)), bench.limiter(fast(daily=50, lease_s=1))]
    chance = random.Random(7)
    told = 0

    async def worker() -> None:
        nonlocal told
        for _ in range(30):
            ask = bench.free()
            answer = await admit(chance.choice(limiters), ask)
            assert isinstance(answer, Allowed) or answer.code in (Code.FREE_DAILY, Code.FREE_RPM)
            if isinstance(answer, Refused):
                await asyncio.sleep(0.02)
                continue
            await asyncio.sleep(chance.random() * 0.01)
            if chance.random() < 0.05:
                continue
            success = chance.random() < 0.5
            told += success
            for _ in range(chance.choice((1, 1, 2, 3))):
                await finish(chance.choice(limiters), [ask], success)

    await asyncio.gather(*(worker() for _ in range(16)))
    assert told <= 50
    assert told == await successes(bench)
    assert told > 35, "the quota is usable"


async def test_end_counts_once_and_only_for_who_was_admitted(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=10))
    ask = bench.free()
    await allowed(limiter, ask)
    await limiter.answer([done(ask)] * 3 + [done(ask, success=False), done(bench.free())])
    assert await successes(bench) == 1


async def test_asking_again_gives_the_same_answer_and_counts_once(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=10, daily=10, gap_min_ms=200, gap_max_ms=1000))
    await allowed(limiter, bench.free())
    ask = bench.free()
    first = await allowed(limiter, ask)
    again = await allowed(limiter, ask)
    assert (again.limit, again.remaining, again.reset_unix_s) == (first.limit, first.remaining, first.reset_unix_s)
    assert 0 < again.wait_ms <= first.wait_ms
    assert (await allowed(limiter, bench.free())).remaining == 7
    await finish(limiter, [ask])
    assert await successes(bench) == 1


@pytest.mark.rule("FREE-016")
async def test_zero_means_no_daily_limit(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=0))
    asks = [bench.free() for _ in range(200)]
    assert count_allowed(await limiter.answer(asks)) == 200
    await finish(limiter, asks)
    assert count_allowed(await limiter.answer([bench.free() for _ in range(200)])) == 200


@pytest.mark.rule("LIMIT-022")
async def test_over_the_minute_says_how_long_until_it_resets(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=3))
    assert count_allowed(await limiter.answer([bench.free() for _ in range(3)])) == 3
    assert (await refused(limiter, bench.free())).retry_after_s == 60
    ends = int(time.time() * 1000) + 1_200
    await bench.client.set(f"{{{ACCOUNT}}}:free:minute:", f"3 {ends}", px=1_200)
    assert told(await admit(limiter, bench.free())) == (Code.FREE_RPM, 2)
    await asyncio.sleep(1.25)
    assert (await allowed(limiter, bench.free())).remaining == 2


@pytest.mark.rule("LIMIT-031")
async def test_admitted_free_requests_tell_limit_rest_and_reset(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=5))
    for remaining in (4, 3, 2, 1, 0):
        answer = await allowed(limiter, bench.free())
        assert (answer.limit, answer.remaining) == (5, remaining)
        assert time.time() < answer.reset_unix_s <= time.time() + 60
    without = await allowed(limiter, bench.free(rpm=0))
    assert (without.limit, without.reset_unix_s) == (0, 0)


@pytest.mark.rule("FREE-013")
async def test_all_free_models_share_the_accounts_limits(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=4, daily=3))
    models = [bench.free(model=f"model{n}:free") for n in range(3)]
    assert count_allowed(await limiter.answer(models)) == 3
    await finish(limiter, models)
    assert (await refused(limiter, bench.free(model="model4:free"))).code is Code.FREE_DAILY


@pytest.mark.rule("FREE-022")
async def test_a_model_with_own_limits_is_counted_apart(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=2, daily=2))
    own = [bench.free(model="own:free", rpm=5, daily=5) for _ in range(5)]
    assert count_allowed(await limiter.answer(own)) == 5
    await finish(limiter, own)
    assert (await refused(limiter, bench.free(model="own:free", rpm=5, daily=5))).code is Code.FREE_DAILY
    assert (await successes(bench, "own:free"), await successes(bench)) == (5, 0)
    others = [bench.free() for _ in range(2)]
    assert count_allowed(await limiter.answer(others)) == 2
    await finish(limiter, others)
    assert await successes(bench) == 2


@pytest.mark.rule("LIMIT-026")
async def test_a_qualifying_top_up_counts_from_the_next_request(bench: Bench) -> None:
    free = FreeSettings.model_validate(
        fast(daily=1).model_dump() | {"qualified": TierSettings(rpm=0, daily=3), "plan": TierSettings(rpm=0, daily=5)}
    )
    limiter = bench.limiter(free)

    async def use_up() -> int:
        used = 0
        while True:
            ask = bench.free()
            if isinstance(await admit(limiter, ask), Refused):
                return used
            await finish(limiter, [ask])
            used += 1

    assert await use_up() == 1
    bench.facts.standings[ACCOUNT] = Standing(Micros(rupiah(50_000) - 1))
    assert await use_up() == 0
    bench.facts.standings[ACCOUNT] = Standing(rupiah(50_000))
    assert await use_up() == 2
    bench.facts.standings[ACCOUNT] = Standing(rupiah(50_000), has_plan=True)
    assert await use_up() == 2


@pytest.mark.rule("LIMIT-027")
async def test_a_burst_is_spaced_out_not_refused(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=10, gap_min_ms=100, gap_max_ms=1000))
    answers = await limiter.answer([bench.free() for _ in range(10)])
    waits = [answer.wait_ms for answer in answers if isinstance(answer, Allowed)]
    assert len(waits) == 10
    for place, wait in enumerate(waits):
        assert place * 1000 - 100 <= wait <= place * 1000


async def test_one_request_after_a_pause_does_not_wait(bench: Bench) -> None:
    limiter = bench.limiter(fast(gap_min_ms=100, gap_max_ms=100))
    assert (await allowed(limiter, bench.free())).wait_ms == 0
    await asyncio.sleep(0.12)
    assert (await allowed(limiter, bench.free())).wait_ms == 0


@pytest.mark.rule("LIMIT-028")
async def test_a_flood_is_refused_and_consumes_nothing(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=60, daily=100, gap_min_ms=100, gap_max_ms=1000))
    answers = await limiter.answer([bench.free() for _ in range(60)])
    # 60 a minute is a gap of 250 ms: the first goes at once, 40 more wait up to 10 s.
    assert count_allowed(answers) == 41
    assert told(answers[-1]) == (Code.RATE_LIMIT, 0)
    assert (await bench.client.get(f"{{{ACCOUNT}}}:free:minute:")).startswith(b"41 ")
    assert await bench.client.zcard(f"{{{ACCOUNT}}}:free:leases:") == 41


async def test_a_clock_set_back_does_not_stop_the_pacer(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=10))
    ahead = int(time.time() * 1000) + 300_000
    await bench.client.set(f"{{{ACCOUNT}}}:free:pace:", ahead)
    await bench.client.set(f"{{{ACCOUNT}}}:free:minute:", f"1000000 {ahead}")
    assert (await allowed(limiter, bench.free())).wait_ms == 0


async def test_daily_comes_before_minute_and_minute_before_pacing(bench: Bench) -> None:
    async def spent(free: FreeSettings) -> Answer:
        limiter = bench.limiter(free)
        await bench.client.flushall()
        ask = bench.free()
        await allowed(limiter, ask)
        await finish(limiter, [ask])
        return await admit(limiter, bench.free())

    tight = {"gap_min_ms": 20_000, "gap_max_ms": 20_000}
    assert isinstance(first := await spent(fast(rpm=1, daily=1, **tight)), Refused)
    assert first.code is Code.FREE_DAILY
    assert told(await spent(fast(rpm=1, daily=2, **tight))) == (Code.FREE_RPM, 60)
    assert told(await spent(fast(rpm=2, daily=2, **tight))) == (Code.RATE_LIMIT, 0)


async def test_a_repeated_daily_refusal_stays_the_same(bench: Bench) -> None:
    limiter = bench.limiter(fast(daily=1))
    ask = bench.free()
    await allowed(limiter, ask)
    await finish(limiter, [ask])
    late = bench.free()
    answers = [await refused(limiter, late) for _ in range(5)]
    assert {answer.code for answer in answers} == {Code.FREE_DAILY}
    assert await bench.client.zcard(f"{{{ACCOUNT}}}:free:leases:") == 0


async def test_nothing_of_an_account_stays_for_ever(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=10, daily=10))
    ask = bench.free()
    await limiter.answer([ask, bench.free(), bench.paid(), bench.usage()])
    await finish(limiter, [ask])
    keys = [key async for key in bench.client.scan_iter()]
    assert len(keys) >= 6
    # -1 is a key without an end; -2 one that has just met it.
    assert all([await bench.client.ttl(key) != -1 for key in keys])
