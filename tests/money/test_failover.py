"""A reservation that a failover lost is settled from its signed descriptor, on everything that it had leaned on."""

from collections.abc import Awaitable, Callable

import pytest

from tests.money.ledger import RealLedger
from tests.money.model.answers import Settled
from tests.money.model.facts import DAY, Ask, Caps
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.scenes import CALLED, answer, begun, chat, granted, piece, search, subscribed, texts
from tests.money.world import RUPIAH

pytestmark = pytest.mark.asyncio(loop_scope="module")

CACHED = answer(100, 1_000, 600, 300)


def capped(pair: Pair, **more: object) -> Ask:
    caps = Caps(90 * RUPIAH, 90_000, "week", 3)
    return chat(pair, key=f"key_{pair.account}_c", caps=caps, member="mem_a", **more)


async def balance(pair: Pair) -> Ask:
    await pair.cap_member("mem_a", 60 * RUPIAH)
    return capped(pair)


async def plan(pair: Pair) -> Ask:
    await subscribed(pair, free_cache=("alpha",))
    return capped(pair)


async def balance_after_plan(pair: Pair) -> Ask:
    await subscribed(pair, free_cache=("alpha",), ceilings={"week": 1})
    spent = chat(pair)
    await granted(pair, spent)
    await pair.settle(spent, answer())
    await pair.choose(keep_balance=True, free_fallback=False)
    return capped(pair)


async def coupon(pair: Pair) -> Ask:
    await pair.grant_coupon(("alpha",), 9 * RUPIAH, pair.now + DAY)
    return capped(pair)


async def tokens(pair: Pair) -> Ask:
    await pair.grant_tokens((), 9_000, pair.now + DAY)
    return capped(pair)


async def free(pair: Pair) -> Ask:
    return capped(pair, funding="free")


async def allowance(pair: Pair) -> Ask:
    await subscribed(pair)
    return search(pair)


async def pieces(pair: Pair) -> Ask:
    return piece(pair, units=3)


async def system_one(pair: Pair) -> Ask:
    return texts(pair, "systemone")


@pytest.mark.parametrize(
    ("prepare", "report"),
    [
        (balance, CACHED),
        (plan, CACHED),
        (balance_after_plan, CACHED),
        (coupon, CACHED),
        (tokens, CACHED),
        (free, CACHED),
        (allowance, CALLED),
        (pieces, Report(Used(units=5))),
        (system_one, Report(Used(prompt=900))),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
@pytest.mark.parametrize("way", ["call", "bus"])
async def test_what_was_granted_is_settled_as_if_the_hold_were_there(
    real: RealLedger, prepare: Callable[[Pair], Awaitable[Ask]], report: Report, way: str
) -> None:
    pair = await begun(real, 90 * RUPIAH)
    ask = await prepare(pair)
    await granted(pair, ask)
    await real.lose(pair.account)
    # Nothing is reserved for it any more, as for one that ran out.
    pair.book.account(pair.account).holds[ask.ref].state = "expired"
    await pair.compare()

    if way == "call":
        assert isinstance(await pair.settle(ask, report), Settled)
    await pair.hear([(ask, report)])

    await pair.compare()
    rows = pair.book.account(pair.account).rows
    assert await real.usage(pair.account) == {ref: (row.cost, row.catalog) for ref, row in rows.items()}
