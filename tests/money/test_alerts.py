"""What an owner must hear of is told once, and again only when it has happened again."""

import pytest
from kenari.ledger.v1 import funding_pb2

from tests.money.ledger import RealLedger
from tests.money.model.facts import CYCLE, DAY, Caps
from tests.money.pair import Pair
from tests.money.scenes import answer, begun, chat, granted, refused, run, subscribed
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def choose(pair: Pair, *, percent: int | None = None, low: int | None = None) -> None:
    call = funding_pb2.SetFundingRequest(account_id=pair.account, alert_pct=percent, low_balance_micro_idr=low)
    await pair.real.call("SetFunding", call)


@pytest.mark.parametrize(("percent", "tokens"), [(50, 475), (80, 775), (90, 875)])
async def test_a_quota_is_warned_of_once_and_told_once_when_it_is_spent(
    real: RealLedger, percent: int, tokens: int
) -> None:
    pair = await begun(real)
    await subscribed(pair, ceilings={"week": 8 * RUPIAH})
    await choose(pair, percent=percent, low=0)

    # 100 x 2,000 and the tokens at 8,000 are exactly that much of Rp 8, less one token.
    await run(pair, chat(pair), answer(tokens - 1))
    assert await real.alerts(pair.account) == []
    await run(pair, chat(pair, est_input=0), answer(1, 0))
    await run(pair, chat(pair, est_input=0), answer(1, 0))
    assert await real.alerts(pair.account) == ["quota.week.warn"]
    await choose(pair, percent=50)
    await run(pair, chat(pair), answer(1_000))
    await pair.pass_ms(1)

    assert await real.alerts(pair.account) == ["quota.week.warn", "quota.week.out"]
    await pair.pass_ms(7 * DAY)
    await run(pair, chat(pair), answer(1_000))
    assert await real.alerts(pair.account) == ["quota.week.warn", "quota.week.out", "quota.week.out"]


async def test_a_low_balance_is_told_once_until_a_top_up_above_it(real: RealLedger) -> None:
    pair = await begun(real, 3 * RUPIAH)
    await choose(pair, low=2 * RUPIAH)

    await run(pair, chat(pair, max_tokens=200))
    assert await real.alerts(pair.account) == []
    await run(pair, chat(pair, max_tokens=200))
    await run(pair, chat(pair, max_tokens=50), answer(10))
    assert await real.alerts(pair.account) == ["wallet.low"]
    await pair.credit(RUPIAH // 2)
    await run(pair, chat(pair, max_tokens=50), answer(10))
    assert await real.alerts(pair.account) == ["wallet.low"]
    await pair.credit(2 * RUPIAH)
    await run(pair, chat(pair, max_tokens=200), answer(200))

    assert await real.alerts(pair.account) == ["wallet.low", "wallet.low"]


async def test_nobody_hears_of_the_balance_who_does_not_want_to(real: RealLedger) -> None:
    pair = await begun(real, 3 * RUPIAH)
    await choose(pair, low=0)

    await run(pair, chat(pair, max_tokens=300), answer(900))

    assert pair.book.account(pair.account).paid < 0
    assert await real.alerts(pair.account) == []


async def test_a_keys_cap_is_told_once_and_again_after_the_owner_reset_it(real: RealLedger) -> None:
    pair = await begun(real, 90_000 * RUPIAH)
    key = f"key_{pair.account}_c"

    await run(pair, chat(pair, key=key, caps=Caps(spend=8_250_000)), answer(1_000, 125))
    await refused(pair, chat(pair, key=key, caps=Caps(spend=8_250_000)))
    assert await real.alerts(pair.account) == ["key.cap.hit"]

    await run(pair, chat(pair, key=key, caps=Caps(spend=8_250_000, epoch=1)), answer(1_000, 125))
    assert await real.alerts(pair.account) == ["key.cap.hit", "key.cap.hit"]


async def test_a_members_cap_is_told_once_in_thirty_days(real: RealLedger) -> None:
    pair = await begun(real, 90_000 * RUPIAH)
    await pair.cap_member("mem_a", 1)

    for _ in range(2):
        await refused(pair, chat(pair, member="mem_a"))
    await pair.pass_ms(CYCLE)
    await refused(pair, chat(pair, member="mem_a"))

    assert await real.alerts(pair.account) == ["member.cap.hit", "member.cap.hit"]
    await pair.cap_member("mem_a", None)
    await granted(pair, chat(pair, member="mem_a"))
