"""Amounts, times and waits as people and the wire see them.
Run by pytest; no servers needed.
"""

from itertools import islice

import pytest

from libs.core.clock import SystemClock, rfc3339
from libs.core.errors import KenariError, Permanent, Transient
from libs.core.money import Micros, ceil_rupiah, floor_rupiah, rupiah
from libs.core.retry import backoff


def test_a_balance_is_rounded_down_and_a_worst_case_up() -> None:
    amount = Micros(rupiah(19_589) + 1)
    assert floor_rupiah(amount) == "Rp 19,589"
    assert ceil_rupiah(amount) == "Rp 19,590"
    assert floor_rupiah(rupiah(21_500)) == ceil_rupiah(rupiah(21_500)) == "Rp 21,500"


@pytest.mark.parametrize(
    ("unix_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_796_071_468_007, "2026-11-30T20:44:28.007Z"),
        (1_796_071_468_999, "2026-11-30T20:44:28.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(unix_ms: int, text: str) -> None:
    assert rfc3339(unix_ms) == text


def test_the_system_clock_tells_unix_milliseconds() -> None:
    assert 1_700_000_000_000 < SystemClock().now_ms() < 10_000_000_000_000


def test_waits_grow_to_the_cap_and_are_never_the_same_for_all() -> None:
    first, later = list(islice(backoff(0.1, 1.0), 12)), list(islice(backoff(0.1, 1.0), 12))
    assert 0.05 <= first[0] <= 0.1
    assert all(0.5 <= wait <= 1.0 for wait in first[4:])
    assert first != later


def test_an_error_keeps_its_reason_apart_from_its_text() -> None:
    error = Transient("no connection", reason="database_away")
    assert (str(error), error.reason) == ("no connection", "database_away")
    assert (str(Permanent()), Permanent().reason) == ("invalid", "invalid")
    assert isinstance(error, KenariError)
