"""The balance: holds, lowering, charges and what ends them, in step with the model."""

from tests.money.ledger import RealLedger
from tests.money.model.answers import Granted, Settled
from tests.money.model.facts import Ask
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.world import FULL, RUPIAH


def chat(pair: Pair, **more: object) -> Ask:
    """100 tokens in and at most 2,000 out: a hold of 100 x 2,500 + 2,000 x 8,000 = 16,250,000."""
    values: dict[str, object] = {"price": FULL, "est_input": 100, "max_tokens": 2_000, "key": "key_1"}
    return Ask(pair.new_ref(), pair.account, endpoint="chat", model="alpha", **(values | more))  # type: ignore[arg-type]


async def test_a_request_holds_its_worst_case_and_pays_what_it_used(real: RealLedger) -> None:
    pair = Pair(real, real.clock.now_ms())
    await pair.credit(20 * RUPIAH)
    ask = chat(pair)

    granted = await pair.reserve(ask)
    assert granted == Granted("payg", 2_000, False, 16_250_000, 3_750_000, None)
    settled = await pair.settle(ask, Report(Used(110, 300, 50, 10)))

    # 50 fresh, 50 read, 10 written, 300 out.
    assert settled == Settled(50 * 2_000 + 50 * 200 + 10 * 2_500 + 300 * 8_000, 2_535_000, 20_000_000 - 2_535_000)
