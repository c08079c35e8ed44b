"""What the scenario tests ask: short ways to common requests, and what a test says of their answers.

Used by test_payg.py, test_limits.py, test_keys.py, test_plans.py and their like.
"""

from tests.money.ledger import RealLedger
from tests.money.model.answers import Denied, Granted, Settled
from tests.money.model.facts import Ask, Plan
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.world import FULL, PIECE, RUPIAH, SEARCH, SILENT

CALLED = Report(Used(units=1))
WEEK_CEILING = 30 * RUPIAH


async def begun(real: RealLedger, credit: int = 0) -> Pair:
    """A new account with that much money."""
    pair = Pair(real, real.clock.now_ms())
    if credit:
        await pair.credit(credit)
    return pair


def chat(pair: Pair, **more: object) -> Ask:
    """100 tokens in, at most 1,000 out: a hold of 100 x 2,500 + 1,000 x 8,000 = 8,250,000."""
    values: dict[str, object] = {
        "price": FULL,
        "est_input": 100,
        "max_tokens": 1_000,
        "key": f"key_{pair.account}",
        "endpoint": "chat",
        "model": "alpha",
    }
    return Ask(pair.new_ref(), pair.account, **(values | more))  # type: ignore[arg-type]


def piece(pair: Pair, endpoint: str = "images", units: int = 1, **more: object) -> Ask:
    """Pieces at 700,000 each."""
    values: dict[str, object] = {"price": PIECE, "units": units, "key": f"key_{pair.account}", "model": endpoint}
    return Ask(pair.new_ref(), pair.account, endpoint=endpoint, **(values | more))  # type: ignore[arg-type]


def search(pair: Pair, endpoint: str = "web_search", **more: object) -> Ask:
    """One call for 300,000."""
    return piece(pair, endpoint, 1, price=SEARCH, **more)


def texts(pair: Pair, endpoint: str = "embeddings", est_input: int = 100, **more: object) -> Ask:
    """Input only, at 1,500 a token."""
    values: dict[str, object] = {
        "price": SILENT,
        "est_input": est_input,
        "key": f"key_{pair.account}",
        "model": endpoint,
    }
    return Ask(pair.new_ref(), pair.account, endpoint=endpoint, **(values | more))  # type: ignore[arg-type]


def answer(completion: int = 100, prompt: int = 100, cached: int = 0, written: int = 0) -> Report:
    """100 in and 100 out: 100 x 2,000 + 100 x 8,000 = 1,000,000."""
    return Report(Used(prompt, completion, cached, written))


async def run(pair: Pair, ask: Ask, report: Report | None = None) -> Settled:
    """Ask and settle at once."""
    await granted(pair, ask)
    settled = await pair.settle(ask, report or answer())
    assert isinstance(settled, Settled)
    return settled


async def granted(pair: Pair, ask: Ask) -> Granted:
    found = await pair.reserve(ask)
    assert isinstance(found, Granted), found
    return found


async def left(pair: Pair) -> dict[str, int] | None:
    """Hundredths of the plan's windows that are left, as told with a request that then does not run."""
    ask = chat(pair, max_tokens=1)
    found = await granted(pair, ask)
    await pair.release(ask.ref)
    return found.plan_left


async def refused(pair: Pair, ask: Ask) -> tuple[int, str]:
    found = await pair.reserve(ask)
    assert isinstance(found, Denied), found
    return found.status, found.code


async def subscribed(pair: Pair, **more: object) -> Plan:
    """A plan for alpha with a ceiling on the five hours and the week, just bought."""
    values: dict[str, object] = {
        "price": 9 * RUPIAH,
        "ceilings": {"five_hour": 10 * RUPIAH, "week": WEEK_CEILING},
        "models": ("alpha",),
        "daily_searches": 2,
    }
    plan = Plan(f"{pair.account}-plan", **(values | more))  # type: ignore[arg-type]
    await pair.put_plan(plan)
    await pair.credit(plan.price)
    assert not isinstance(await pair.purchase(plan.plan_id), str)
    return plan
