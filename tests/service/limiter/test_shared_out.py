"""What all accounts or a few requests share, on a real Valkey: token budgets of free models, places for music and
passthrough."""

import asyncio
from dataclasses import replace

import pytest

from services.limiter.budgets import BELIEVED_MS
from services.limiter.domain import Admit, Allowed, Code, Limit, Refused, Subject
from services.limiter.settings import PlaceSettings
from tests.service.limiter.bench import (
    ACCOUNT,
    MODEL,
    Bench,
    admit,
    allowed,
    count_allowed,
    done,
    fast,
    refused,
    told,
)


class HandClock:
    """Stands still until a test moves it."""

    ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms


def budgeted(bench: Bench, tokens: int, budget: int = 1_000, account: str = ACCOUNT, model: str = MODEL) -> Admit:
    return replace(bench.free(account, model), model_token_budget=budget, tokens=tokens)


@pytest.mark.rule("LIMIT-029")
async def test_a_free_models_tokens_are_shared_by_all_accounts_until_the_window_rolls(bench: Bench) -> None:
    limiter = bench.limiter(fast())
    first = budgeted(bench, 100)
    await allowed(limiter, first)
    await limiter.answer([done(first, tokens=1_000)])
    refusal = await refused(limiter, budgeted(bench, 1, account="acct_b"))
    assert (refusal.limit, told(refusal)) == (Limit.MODEL_TOKENS, (Code.RATE_LIMIT, 0))
    assert 0 < refusal.again_ms <= 86_400_000
    await allowed(limiter, budgeted(bench, 1, model="other:free"))
    await allowed(limiter, bench.free())
    await bench.client.pexpire(f"{{model:{MODEL}}}:tokens", 1)
    await asyncio.sleep(0.01)
    await allowed(limiter, budgeted(bench, 1))


async def test_what_a_budget_refuses_uses_up_nothing_of_the_account(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=3, daily=3))
    for _ in range(5):
        await refused(limiter, budgeted(bench, 1, budget=0))
    assert count_allowed(await limiter.answer([bench.free() for _ in range(4)])) == 3


async def test_what_the_account_refuses_uses_up_nothing_of_a_budget(bench: Bench) -> None:
    limiter = bench.limiter(fast(rpm=2))
    answers = await limiter.answer([budgeted(bench, 10) for _ in range(6)])
    assert count_allowed(answers) == 2
    assert int(await bench.client.get(f"{{model:{MODEL}}}:tokens")) == 20


async def test_two_limiters_share_a_budget(bench: Bench) -> None:
    limiters = [bench.limiter(fast()), bench.limiter(fast())]
    asks = [limiters[n % 2].answer([budgeted(bench, 100, account=f"acct_{n}")]) for n in range(30)]
    assert count_allowed([answer for (answer,) in await asyncio.gather(*asks)]) == 10


async def test_the_window_is_the_operators(bench: Bench) -> None:
    limiter = bench.limiter(fast(token_window_s=1))
    await allowed(limiter, budgeted(bench, 1_000))
    await refused(limiter, budgeted(bench, 1))
    await asyncio.sleep(1.05)
    await allowed(limiter, budgeted(bench, 1))


async def test_without_the_store_what_was_last_heard_is_believed_for_a_minute(bench: Bench) -> None:
    clock = HandClock()
    limiter = bench.limiter(fast(), clock=clock)
    await allowed(limiter, budgeted(bench, 700))
    bench.server.kill()
    assert (await allowed(limiter, budgeted(bench, 200))).degraded
    await allowed(limiter, budgeted(bench, 200))
    assert told(await admit(limiter, budgeted(bench, 1))) == (Code.RATE_LIMIT, 0)
    await allowed(limiter, budgeted(bench, 1, budget=2_000))
    clock.ms += BELIEVED_MS + 1
    await refused(limiter, budgeted(bench, 1, budget=2_000))
    await refused(limiter, budgeted(bench, 1, model="never-heard-of:free"))
    await allowed(limiter, bench.free())


def song(bench: Bench, request_id: str, account: str = ACCOUNT) -> Admit:
    return Admit(request_id, account, Subject.MUSIC)


@pytest.mark.rule("LIMIT-035")
async def test_a_third_song_at_once_waits_a_minute(bench: Bench) -> None:
    limiter = bench.limiter()
    assert [(await allowed(limiter, song(bench, name))).leased for name in ("m1", "m2")] == [True, True]
    assert told(await admit(limiter, song(bench, "m3"))) == (Code.RATE_LIMIT, 60)
    await allowed(limiter, song(bench, "m4", "acct_b"))


@pytest.mark.rule("LIMIT-036")
@pytest.mark.parametrize("success", [True, False])
async def test_the_end_of_a_song_makes_room(bench: Bench, success: bool) -> None:
    limiter = bench.limiter()
    await limiter.answer([song(bench, "m1"), song(bench, "m2")])
    await limiter.answer([done(song(bench, "m1"), success)] * 2)
    await allowed(limiter, song(bench, "m3"))
    await refused(limiter, song(bench, "m4"))


async def test_a_place_is_kept_by_asking_again_and_lost_by_silence(bench: Bench) -> None:
    limiter = bench.limiter(places=PlaceSettings(lease_s=1))
    await limiter.answer([song(bench, "kept"), song(bench, "lost")])
    for _ in range(3):
        await asyncio.sleep(0.4)
        await allowed(limiter, song(bench, "kept"))
    await allowed(limiter, song(bench, "new"))
    await refused(limiter, song(bench, "one too many"))


async def test_a_clock_set_back_keeps_no_place(bench: Bench) -> None:
    limiter = bench.limiter()
    key = f"{{{ACCOUNT}}}:music:places"
    await bench.client.zadd(key, {"a": 4_000_000_000_000, "b": 4_000_000_000_000})
    await allowed(limiter, song(bench, "m1"))


async def test_passthrough_places_are_of_all_accounts(bench: Bench) -> None:
    limiters = [bench.limiter(places=PlaceSettings(passthrough=3)) for _ in range(2)]
    asks = [Admit(f"p{n}", f"acct_{n}", Subject.PASSTHROUGH) for n in range(5)]
    answers = [await admit(limiters[n % 2], ask) for n, ask in enumerate(asks)]
    assert [isinstance(answer, Allowed) for answer in answers] == [True] * 3 + [False] * 2
    assert told(answers[-1]) == (Code.PASSTHROUGH_BUSY, 0)
    await limiters[1].answer([done(asks[0])])
    await allowed(limiters[1], asks[4])


async def test_places_in_shadow(bench: Bench) -> None:
    limiter = bench.limiter(shadow={Limit.MUSIC})
    answers = await limiter.answer([song(bench, f"m{n}") for n in range(4)])
    assert count_allowed(answers) == 4
    assert bench.metric("kenari_limiter_shadowed_total", limit="music") == 2


async def test_places_without_the_store(bench: Bench) -> None:
    limiter = bench.limiter(places=PlaceSettings(passthrough=4), processes=2)
    bench.server.kill()
    answers = [await admit(limiter, Admit(f"p{n}", ACCOUNT, Subject.PASSTHROUGH)) for n in range(4)]
    assert [isinstance(answer, Refused) for answer in answers] == [False, False, True, True]
    await limiter.answer([done(Admit("p0", ACCOUNT, Subject.PASSTHROUGH))])
    await allowed(limiter, Admit("p4", ACCOUNT, Subject.PASSTHROUGH))
    songs = [await admit(limiter, song(bench, f"m{n}")) for n in range(4)]
    assert count_allowed(songs) == 4, "the ledger counts them then"
