"""What may limit a key: caps with a period, what a minute may bring, and the addresses it may be used from."""

import pytest

from services.accounts.domain.errors import FixedLimitsError, InvalidError
from services.accounts.domain.limits import (
    MAX_PER_MINUTE,
    NO_LIMITS,
    CapPeriod,
    ChangeLimits,
    Limits,
    addresses,
    cap_period,
)


@pytest.mark.parametrize(
    ("entry", "stored"),
    [
        ("203.0.113.9", "203.0.113.9"),
        (" 203.0.113.9/32", "203.0.113.9"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("2001:db8::/48", "2001:db8::/48"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.0/120", "203.0.113.0/24"),
    ],
)
def test_an_address_has_one_spelling(entry: str, stored: str) -> None:
    assert addresses((entry, stored)) == (stored,)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "x",
        "203.0.113.9/24",
        "203.0.113.256",
        "203.0.113.9:80",
        "fe80::1%eth0",
        "2001:db8::/129",
        "a.example",
        "1\0",
    ],
)
def test_what_is_no_address_is_refused(entry: str) -> None:
    with pytest.raises(InvalidError):
        addresses(("10.0.0.1", entry))


def test_limits_have_bounds() -> None:
    every = Limits(1, 2, CapPeriod.MONTH, ("10.0.0.1",) * 50, MAX_PER_MINUTE, MAX_PER_MINUTE)
    every.check()
    NO_LIMITS.check()
    for wrong in (
        Limits(spend_cap_micro_idr=-1),
        Limits(token_cap=2**63),
        Limits(cap_period=CapPeriod.DAY),
        Limits(allowed_ips=("10.0.0.1",) * 51),
        Limits(requests_per_minute=MAX_PER_MINUTE + 1),
        Limits(tokens_per_minute=-1),
    ):
        with pytest.raises(InvalidError):
            wrong.check()
    assert [cap_period(name) for name in ("", "day", "week", "month")] == list(CapPeriod)
    with pytest.raises(InvalidError, match="day, week or month"):
        cap_period("year")


def test_a_change_leaves_alone_what_it_does_not_name() -> None:
    now = Limits(5, 7, CapPeriod.WEEK, ("10.0.0.1",), 9, 11)
    assert ChangeLimits().of(now, shared=False, login=False) == now
    raised = ChangeLimits(spend_cap_micro_idr=6, allowed_ips=()).of(now, shared=False, login=False)
    assert raised == Limits(6, 7, CapPeriod.WEEK, (), 9, 11)
    lifted = ChangeLimits(spend_cap_micro_idr=0, requests_per_minute=0, tokens_per_minute=0)
    assert lifted.of(now, shared=False, login=False) == Limits(0, 7, CapPeriod.WEEK, ("10.0.0.1",))


def test_limits_that_are_fixed_stay() -> None:
    change = ChangeLimits(requests_per_minute=1)
    with pytest.raises(FixedLimitsError):
        change.of(NO_LIMITS, shared=True, login=False)
    assert change.of(Limits(requests_per_minute=1), shared=True, login=False).requests_per_minute == 1
    with pytest.raises(InvalidError):
        ChangeLimits(spend_cap_micro_idr=1).of(NO_LIMITS, shared=False, login=True)
    with pytest.raises(InvalidError):
        ChangeLimits(spend_cap_micro_idr=0).of(Limits(5, 0, CapPeriod.DAY), shared=False, login=False)
