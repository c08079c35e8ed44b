"""Limits of single keys on a real Valkey: shared ones as a whole and by address, and requests and tokens of any."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from services.limiter.domain import Admit, Allowed, Code, Limit, Refused, Subject
from services.limiter.limits import Rules, windows
from services.limiter.settings import LimiterSettings, SharedSettings
from tests.service.limiter.bench import ACCOUNT, Bench, admit, allowed, count_allowed, done, refused, told

RULES: Rules = LimiterSettings().rules()


def shared(bench: Bench, address: str = "198.51.100.7", key_id: str = "key_a", **key: Any) -> Admit:
    return bench.key(key_id=key_id, key_shared=True, address=address, **key)


@pytest.mark.rule("LIMIT-042")
async def test_the_31st_request_of_an_address_on_a_shared_key_is_refused(bench: Bench) -> None:
    limiter = bench.limiter(rpm=600)
    answers = await limiter.answer([shared(bench) for _ in range(31)])
    assert count_allowed(answers) == 30
    refusal = answers[-1]
    assert isinstance(refusal, Refused)
    assert (refusal.limit, refusal.code, refusal.retry_after_s) == (Limit.ADDRESS, Code.RATE_LIMIT, 0)
    assert 0 < refusal.again_ms <= 60_000


@pytest.mark.rule("LIMIT-044")
async def test_another_address_and_another_shared_key_have_counts_of_their_own(bench: Bench) -> None:
    limiter = bench.limiter(rpm=600)
    for ask in (shared(bench), shared(bench, "2001:db8:1::"), shared(bench, key_id="key_b")):
        asks = [replace(ask, request_id=f"{ask.address}{ask.key_id}{n}") for n in range(31)]
        assert count_allowed(await limiter.answer(asks)) == 30


@pytest.mark.rule("LIMIT-041")
async def test_a_shared_key_has_half_of_its_owners_pace_and_leaves_the_owners_alone(bench: Bench) -> None:
    limiter = bench.limiter(rpm=100)
    answers = await limiter.answer([shared(bench, f"198.51.100.{n}") for n in range(60)])
    assert count_allowed(answers) == 50
    assert isinstance(answers[-1], Refused) and answers[-1].limit is Limit.SHARED_KEY
    paid = [replace(bench.paid(), key_id="key_a", key_shared=True) for _ in range(40)]
    assert count_allowed(await limiter.answer(paid)) == 40
    assert count_allowed(await limiter.answer([bench.paid() for _ in range(110)])) == 100


@pytest.mark.parametrize(("account_rpm", "most"), [(10, 30), (60, 30), (61, 30), (100, 50), (5_000, 2_500)])
def test_half_of_the_owners_pace_but_at_least_thirty(account_rpm: int, most: int) -> None:
    ask = Admit("r", ACCOUNT, Subject.KEY_REQUEST, key_id="key_a", key_shared=True)
    assert [window.most for window in windows(RULES, ask, account_rpm)] == [most]


async def test_refused_addresses_do_not_use_up_the_key(bench: Bench) -> None:
    limiter = bench.limiter(rpm=100)
    assert count_allowed(await limiter.answer([shared(bench) for _ in range(100)])) == 30
    others = await limiter.answer([shared(bench, f"203.0.113.{n}") for n in range(100)])
    assert count_allowed(others) == 20


async def test_two_limiters_hold_a_shared_key_exactly(bench: Bench) -> None:
    limiters = [bench.limiter(rpm=60), bench.limiter(rpm=60)]
    bursts = [limiters[n % 2].answer([shared(bench, f"198.51.100.{m}") for m in range(7)]) for n in range(20)]
    assert count_allowed([answer for burst in await asyncio.gather(*bursts) for answer in burst]) == 30


async def test_a_large_shared_key_is_held_too(bench: Bench) -> None:
    limiter = bench.limiter(rpm=2_400)
    asks = [shared(bench, f"198.51.{n % 200}.{n // 200}") for n in range(1_300)]
    answers = [answer for at in range(0, 1_300, 100) for answer in await limiter.answer(asks[at : at + 100])]
    assert count_allowed(answers) == 1_200
    assert isinstance(answers[-1], Refused) and 0 < answers[-1].again_ms <= 62_000


async def test_a_keys_own_pace_is_its_own(bench: Bench) -> None:
    limiter = bench.limiter(rpm=600)
    answers = await limiter.answer([bench.key(key_rpm=5) for _ in range(7)])
    assert count_allowed(answers) == 5
    assert isinstance(answers[-1], Refused) and answers[-1].limit is Limit.KEY_REQUESTS
    await allowed(limiter, bench.key(key_id="key_b", key_rpm=5))


async def test_asking_again_at_the_door_counts_once(bench: Bench) -> None:
    limiter = bench.limiter(rpm=600, shared=SharedSettings(address_rpm=2))
    first, second = shared(bench), shared(bench)
    for ask in (first, first, second, second, first):
        await allowed(limiter, ask)
    await refused(limiter, shared(bench))


async def test_a_limit_in_shadow_is_counted_and_told_and_never_refuses(bench: Bench) -> None:
    limiter = bench.limiter(rpm=100, shadow={Limit.ADDRESS})
    answers = await limiter.answer([shared(bench) for _ in range(60)])
    assert count_allowed(answers) == 50, "the others still refuse"
    assert bench.metric("kenari_limiter_shadowed_total", limit="address") == 60 - 30
    plain = bench.limiter(rpm=100)
    assert isinstance(await admit(plain, shared(bench)), Refused), "it was counted"


async def test_what_passes_only_because_of_the_shadow_is_not_counted(bench: Bench) -> None:
    """Else a limit that is tried would tell of more refusals than it would make."""
    limiter = bench.limiter(shared=SharedSettings(address_rpm=2), shadow={Limit.ADDRESS})
    await limiter.answer([shared(bench), shared(bench)])
    key = f"{{{ACCOUNT}}}:address:key_a:198.51.100.7"
    counted = await bench.client.lrange(key, 0, -1)
    await asyncio.sleep(0.005)
    assert count_allowed(await limiter.answer([shared(bench) for _ in range(5)])) == 5
    assert await bench.client.lrange(key, 0, -1) == counted


async def test_a_shadow_holds_without_the_store_as_well(bench: Bench) -> None:
    limiter = bench.limiter(rpm=600, shadow={Limit.ADDRESS, Limit.SHARED_KEY})
    bench.server.kill()
    answers = [await admit(limiter, shared(bench)) for _ in range(40)]
    assert count_allowed(answers) == 40


async def test_without_the_store_an_address_has_its_thirty_and_a_key_its_share(bench: Bench) -> None:
    limiter = bench.limiter(rpm=160, processes=2)
    bench.server.kill()
    one = [await admit(limiter, shared(bench)) for _ in range(35)]
    assert count_allowed(one) == 30
    more = [await admit(limiter, shared(bench, f"198.51.100.{n}")) for n in range(20)]
    assert count_allowed(more) == 160 // 2 // 2 - 30
    assert all(answer.degraded for answer in more if isinstance(answer, Allowed))


def spender(bench: Bench, tokens: int, key_tpm: int = 1_000, key_id: str = "key_a") -> Admit:
    return replace(bench.paid(), key_id=key_id, key_tpm=key_tpm, tokens=tokens)


async def test_tokens_a_minute_count_the_input_at_once_and_what_was_used_at_the_end(bench: Bench) -> None:
    limiter = bench.limiter()
    first = spender(bench, 300)
    assert (await allowed(limiter, first)).leased
    assert await tokens_of_key(bench) == 300
    await limiter.answer([done(first, tokens=700)])
    await limiter.answer([done(first, tokens=700)])
    assert await tokens_of_key(bench) == 700
    # What was counted before decides: the request that crosses the limit still goes.
    await allowed(limiter, spender(bench, 400))
    refusal = await refused(limiter, spender(bench, 1))
    assert (refusal.limit, told(refusal)) == (Limit.KEY_TOKENS, (Code.RATE_LIMIT, 0))
    assert 0 < refusal.again_ms <= 60_000
    await allowed(limiter, spender(bench, 1, key_id="key_b"))


async def test_a_failed_request_gives_its_tokens_back(bench: Bench) -> None:
    limiter = bench.limiter()
    ask = spender(bench, 1_000)
    await allowed(limiter, ask)
    await refused(limiter, spender(bench, 1))
    await limiter.answer([done(ask, success=False, tokens=0)])
    await allowed(limiter, spender(bench, 1))


async def test_what_the_account_refuses_takes_no_tokens_and_tokens_no_place(bench: Bench) -> None:
    limiter = bench.limiter(rpm=2)
    answers = await limiter.answer([spender(bench, 100) for _ in range(5)])
    assert count_allowed(answers) == 2
    assert await tokens_of_key(bench) == 200
    full = bench.limiter(rpm=4)
    await refused(full, spender(bench, 1, key_tpm=200))
    assert count_allowed(await full.answer([bench.paid() for _ in range(5)])) == 2


async def test_an_end_in_the_next_minute_adds_only_what_was_not_counted(bench: Bench) -> None:
    limiter = bench.limiter()
    ask, other = spender(bench, 300), spender(bench, 500)
    await limiter.answer([ask, other])
    await bench.client.delete(f"{{{ACCOUNT}}}:tokens:key_a")
    await limiter.answer([done(ask, tokens=1_000), done(other, tokens=20)])
    assert await tokens_of_key(bench) == 700 - 480
    assert 0 < await bench.client.pttl(f"{{{ACCOUNT}}}:tokens:key_a") <= 60_000


async def test_a_window_of_tokens_ends_when_it_ends_whatever_is_added(bench: Bench) -> None:
    limiter = bench.limiter()
    first = spender(bench, 10)
    await allowed(limiter, first)
    key = f"{{{ACCOUNT}}}:tokens:key_a"
    await bench.client.pexpire(key, 30_000)
    await allowed(limiter, spender(bench, 10))
    await limiter.answer([done(first, tokens=50)])
    assert await tokens_of_key(bench) == 60
    assert 0 < await bench.client.pttl(key) <= 30_000


async def test_what_is_given_back_late_makes_no_room_beyond_the_limit(bench: Bench) -> None:
    limiter = bench.limiter()
    ask = spender(bench, 900)
    await allowed(limiter, ask)
    await bench.client.delete(f"{{{ACCOUNT}}}:tokens:key_a")
    await limiter.answer([done(ask, tokens=0)])
    assert await tokens_of_key(bench) == 0


async def test_asking_again_draws_once(bench: Bench) -> None:
    limiter = bench.limiter()
    ask = spender(bench, 300)
    for _ in range(3):
        await allowed(limiter, ask)
    assert await tokens_of_key(bench) == 300


async def test_a_shared_key_with_a_token_limit_leaves_the_account_alone(bench: Bench) -> None:
    limiter = bench.limiter(rpm=1)
    asks = [replace(spender(bench, 10), key_shared=True) for _ in range(5)]
    answers = await limiter.answer(asks)
    assert count_allowed(answers) == 5
    assert all(isinstance(answer, Allowed) and answer.leased for answer in answers)
    assert await tokens_of_key(bench) == 50


async def test_tokens_in_shadow(bench: Bench) -> None:
    limiter = bench.limiter(shadow={Limit.KEY_TOKENS})
    assert count_allowed(await limiter.answer([spender(bench, 600) for _ in range(4)])) == 4
    assert bench.metric("kenari_limiter_shadowed_total", limit="key_tokens") == 2
    assert await tokens_of_key(bench) == 2_400


async def test_without_the_store_a_key_has_its_share_of_tokens(bench: Bench) -> None:
    limiter = bench.limiter(processes=2)
    bench.server.kill()
    answers = [await admit(limiter, spender(bench, 100)) for _ in range(9)]
    assert count_allowed(answers) == 5
    assert told(answers[-1]) == (Code.RATE_LIMIT, 0)


async def tokens_of_key(bench: Bench) -> int:
    return int(await bench.client.get(f"{{{ACCOUNT}}}:tokens:key_a") or 0)
