"""Windows, rolling sums and the burn order of the model, each against another way to count them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.money.model import sums
from tests.money.model.answers import Granted
from tests.money.model.book import Book
from tests.money.model.facts import CYCLE, DAY, HOUR, LENGTHS, MINUTE, Account, Ask, Caps, Plan, Subscription
from tests.money.model.prices import Price, Used
from tests.money.model.settling import Report, burn, give_back
from tests.money.sizes import EXAMPLES, LONG_S

pytestmark = pytest.mark.timeout(LONG_S)

RUPIAH = 1_000_000
# 2 and 8 micro-Rupiah a token.
PRICE = Price("v", 2 * RUPIAH, 8 * RUPIAH)
START = 1_790_000_000_123
NO_CAPS = Caps()
PLAN = Plan("plan_a", 1_000, {"five_hour": 100, "week": 300, "month": None}, ("m",))


def _ask(number: int, *, tokens: int = 10, caps: Caps = NO_CAPS) -> Ask:
    return Ask((f"{number:032x}", 0), "acct", "key_1", "chat", "m", PRICE, 0, tokens, caps=caps)


def _spend(book: Book, number: int, tokens: int, now: int) -> None:
    ask = _ask(number, tokens=max(tokens, 1))
    assert isinstance(book.reserve(ask, now), Granted)
    book.settle(ask, Report(Used(completion=tokens)), now)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2 * CYCLE))
def test_a_window_turns_after_each_whole_length_from_its_anchor(later: int) -> None:
    sub = Subscription(1, PLAN, "paid", START, START + CYCLE, 0)

    for name, number in sums.windows(sub, START + later):
        begins = START + number * LENGTHS[name]
        assert begins <= START + later < begins + LENGTHS[name]


@settings(max_examples=EXAMPLES // 5, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3 * DAY), st.integers(1, 50)), max_size=12),
    st.integers(0, 3 * DAY),
    st.integers(0, MINUTE),
)
def test_rolling_spend_is_never_below_the_truth_and_a_minute_late_at_most(
    spends: list[tuple[int, int]], later: int, phase: int
) -> None:
    book = Book()
    book.credit("acct", 10**9)
    for number, (at, tokens) in enumerate(sorted(spends)):
        _spend(book, number, tokens, START + phase + at)
    now = START + phase + later
    counted = [(START + phase + at, 8 * tokens) for at, tokens in spends]

    found = sums.drawn(book.account("acct"), now, DAY)

    assert found >= sum(amount for at, amount in counted if at >= now - DAY)
    assert found <= sum(amount for at, amount in counted if at > now - DAY - MINUTE)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 100), st.integers(-50, 100), st.integers(0, 150))
def test_bonus_burns_first_and_a_refund_restores_the_split(bonus: int, paid: int, amount: int) -> None:
    account = Account("acct", paid=paid, bonus=bonus)

    from_bonus = burn(account, amount)

    assert account.bonus == max(0, bonus - amount)
    assert account.paid + account.bonus == paid + bonus - amount
    assert account.bonus == 0 or account.paid == paid
    give_back(account, amount, from_bonus)
    assert (account.paid, account.bonus) == (paid, bonus)


@pytest.mark.parametrize(
    ("period", "start"), [("", ""), ("day", "2026-11-30"), ("week", "2026-11-30"), ("month", "2026-11-01")]
)
def test_periods_of_key_caps_are_of_the_utc_calendar(period: str, start: str) -> None:
    monday = int(datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC).timestamp() * 1000)

    where = sums.slot(_ask(1, caps=Caps(spend=1, period=period)), monday)

    assert where is not None
    assert where.start == start


def test_a_key_without_caps_is_not_counted() -> None:
    assert sums.slot(_ask(1), START) is None


def test_what_a_running_request_takes_of_a_window_is_given_back_in_its_own_window() -> None:
    book = Book(ttl=10 * HOUR)
    book.credit("acct", 1_000)
    book.put_plan(PLAN)
    book.purchase("acct", "plan_a", "k", START)
    sub = book.account("acct").subscriptions[0]
    book.reserve(_ask(1), START)
    assert sums.window_reserved(book.account("acct"), sub, "five_hour", 0) == 80

    book.settle(_ask(1), Report(Used(completion=7)), START + 6 * HOUR)

    account = book.account("acct")
    assert [sums.window_used(account, sub, "five_hour", n) for n in (0, 1)] == [56, 0]
    assert sums.window_reserved(account, sub, "five_hour", 0) == 0
    assert sums.window_used(account, sub, "week", 0) == 56
