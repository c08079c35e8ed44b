"""The breaker opens on a burst of failures only, and the bounded dictionary forgets the oldest."""

from services.limiter.bounded import Bounded
from services.limiter.breaker import Breaker


def test_opens_after_five_failures_within_a_second() -> None:
    breaker = Breaker(5)
    for moment in (0.0, 0.2, 0.4, 0.6):
        breaker.failed(moment, moment)
    assert not breaker.is_open
    breaker.failed(0.9, 0.9)
    assert breaker.is_open
    breaker.close()
    assert not breaker.is_open


def test_scattered_failures_never_open_it() -> None:
    breaker = Breaker(5)
    for moment in range(50):
        breaker.failed(moment * 0.3, moment * 0.3)
    assert not breaker.is_open


def test_calls_that_were_under_way_together_count_as_one_failure() -> None:
    breaker = Breaker(2)
    for started in (0.100, 0.101, 0.110):
        breaker.failed(started, 0.120)
    assert not breaker.is_open
    breaker.failed(0.121, 0.141)
    assert breaker.is_open


def test_a_closed_breaker_forgets_the_failures_before() -> None:
    breaker = Breaker(2)
    breaker.failed(0.0, 0.0)
    breaker.failed(0.1, 0.1)
    breaker.close()
    breaker.failed(0.2, 0.2)
    assert not breaker.is_open


def test_bounded_keeps_the_newest() -> None:
    kept: Bounded[int, int] = Bounded(3)
    for number in range(5):
        kept[number] = number
    kept[2] = 20
    kept[5] = 5
    assert list(kept.items()) == [(4, 4), (2, 20), (5, 5)]
