"""Sums beside the balance that are wrong are noticed, and such as are only strange are not."""

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.facts import DAY, Caps
from tests.money.scenes import CALLED, answer, begun, chat, granted, piece, run, search, subscribed
from tests.money.world import CHEAP, RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

BREAKS = {
    "key": "update key_spend set spent = spent + {} where account_id = $1",
    "searches": "update search_allowance set used = used + {} where account_id = $1",
    "window": "update plan_window set used = used + {} where account_id = $1 and kind = 2",
    "coupon": "update coupon set used = used + {} where account_id = $1",
    "tokens": "update token_alloc set used = used + {} where account_id = $1",
}


@pytest.mark.parametrize("name", BREAKS)
async def test_a_wrong_sum_is_noticed(real: RealLedger, name: str) -> None:
    pair = await begun(real, 90 * RUPIAH)
    await subscribed(pair)
    await pair.grant_coupon(("beta",), RUPIAH, pair.now + DAY)
    await pair.grant_tokens(("gamma",), 9_000, pair.now + DAY)
    key, caps = f"key_{pair.account}_c", Caps(spend=60 * RUPIAH, period="day")
    await run(pair, chat(pair, key=key, caps=caps))
    await run(pair, chat(pair, model="beta"))
    await run(pair, chat(pair, model="gamma"))
    await run(pair, search(pair), CALLED)
    await pair.charge(piece(pair, "videos", key=key, caps=caps))
    assert await real.broken() == {}

    await real.admin.execute(BREAKS[name].format(1), pair.account)
    assert set(await real.broken()) == {"used"}

    await real.admin.execute(BREAKS[name].format(-1), pair.account)


async def test_tokens_worth_less_than_a_micro_rupiah_are_no_break(real: RealLedger) -> None:
    pair = await begun(real)
    await pair.grant_tokens((), 9_000, pair.now + DAY)

    ask = chat(pair, price=CHEAP, est_input=1, max_tokens=5)
    await granted(pair, ask)
    settled = await pair.settle(ask, answer(2, 1))

    assert getattr(settled, "catalog", None) == 0
    await pair.compare()
    assert await real.broken() == {}
