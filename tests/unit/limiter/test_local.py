"""Shares of one process while the store is away: generous on paid, a fifth of the day on free, always bounded."""

import pytest

from libs.core.money import Micros
from services.limiter.domain import (
    IN_FLIGHT,
    Admit,
    Allowed,
    Answer,
    Code,
    Limit,
    Refused,
    Standing,
    Subject,
    free_limits,
)
from services.limiter.limits import Places, Window
from services.limiter.local import LocalShares
from services.limiter.memory import DayCounts
from services.limiter.settings import FreeSettings, TierSettings
from tests.service.limiter.bench import told

NOW = 20_000 * 86_400_000 + 3_600_000
TODAY = 20_000


def shares(processes: int = 1, counts: DayCounts | None = None, rpm: int = 0, daily: int = 50) -> "Bench":
    return Bench(processes, counts or DayCounts(), rpm, daily)


class Bench:
    """Local shares and a counter of requests."""

    def __init__(self, processes: int, counts: DayCounts, rpm: int, daily: int) -> None:
        self.rules = FreeSettings(new=TierSettings(rpm=rpm, daily=daily), gap_min_ms=1).rules()
        self.local = LocalShares(self.rules, processes, counts)
        self.sent = 0

    def free(self, now_ms: int = NOW, request_id: str | None = None) -> Answer:
        self.sent += 1
        ask = Admit(request_id or f"r{self.sent}", "acct_a", Subject.FREE_CHAT, "m:free")
        return self.local.free(ask, free_limits(self.rules, ask, Standing(Micros(0))), now_ms)


def window(limit: Limit, most: int) -> list[Window]:
    return [Window(limit, "w", most)]


def granted(local: LocalShares, windows: list[Window], times: int, account: str = "acct_a", now_ms: int = NOW) -> int:
    """How many of so many requests this process lets through."""
    answers = [local.windows(account, windows, (), now_ms) for _ in range(times)]
    assert all(answer.degraded for answer in answers if isinstance(answer, Allowed))
    return sum(isinstance(answer, Allowed) for answer in answers)


def test_paid_share_is_half_more_than_the_limit_split_over_processes() -> None:
    local = shares(processes=2).local
    paid = window(Limit.ACCOUNT_REQUESTS, 100)
    assert granted(local, paid, 100) == 75
    assert told(local.windows("acct_a", paid, (), NOW)) == (Code.RATE_LIMIT, 0)
    assert granted(local, paid, 1, now_ms=NOW + 60_000) == 1
    assert granted(local, paid, 1, account="acct_b") == 1


@pytest.mark.parametrize(
    ("limit", "share"),
    [(Limit.USAGE_READS, 30), (Limit.SHARED_KEY, 30), (Limit.KEY_REQUESTS, 30), (Limit.ADDRESS, 60)],
)
def test_other_windows_have_the_plain_share_and_an_address_its_whole_limit(limit: Limit, share: int) -> None:
    assert granted(shares(processes=2).local, window(limit, 60), 90) == share


def test_one_full_window_of_several_keeps_the_others_as_they_are() -> None:
    local = shares().local
    address, key = Window(Limit.ADDRESS, "address", 3), Window(Limit.SHARED_KEY, "key", 5)
    assert granted(local, [address, key], 9) == 3
    assert granted(local, [key], 9) == 2


def test_a_window_in_shadow_refuses_nothing() -> None:
    local = shares().local
    answers = [local.windows("acct_a", window(Limit.ADDRESS, 1), {Limit.ADDRESS}, NOW) for _ in range(3)]
    assert all(isinstance(answer, Allowed) for answer in answers)


def test_a_clock_set_back_does_not_keep_a_window_full() -> None:
    local = shares().local
    reads = window(Limit.USAGE_READS, 60)
    assert granted(local, reads, 61) == 60
    assert granted(local, reads, 1, now_ms=NOW - 300_000) == 1


def test_places_of_all_accounts_are_shared_out_and_free_again_after_their_lease() -> None:
    local = shares(processes=2).local
    places = Places(Limit.PASSTHROUGH, "passthrough", 4, 60_000, 0)
    assert [isinstance(local.place(name, places, NOW), Allowed) for name in "abca"] == [True, True, False, True]
    assert told(local.place("c", places, NOW)) == (Code.PASSTHROUGH_BUSY, 0)
    local.leave("a")
    assert isinstance(local.place("c", places, NOW), Allowed)
    assert isinstance(local.place("d", places, NOW + 60_000), Allowed)


def test_music_is_left_to_the_ledger() -> None:
    places = Places(Limit.MUSIC, "acct_a", 2, 60_000, 60)
    assert all(isinstance(shares().local.place(f"m{n}", places, NOW), Allowed) for n in range(5))


def test_a_fifth_of_the_days_rest_is_granted() -> None:
    counts = DayCounts()
    counts.heard("acct_a", "", TODAY, 20)
    bench = shares(counts=counts)
    answers = [bench.free() for _ in range(20)]
    assert sum(isinstance(answer, Allowed) for answer in answers) == (50 - 20) // 5
    assert answers[-1] == IN_FLIGHT


def test_a_used_up_quota_stays_used_up() -> None:
    counts = DayCounts()
    counts.heard("acct_a", "", TODAY, 50)
    assert told(shares(counts=counts).free()) == (Code.FREE_DAILY, 23 * 3600)


def test_yesterdays_count_does_not_matter() -> None:
    counts = DayCounts()
    counts.heard("acct_a", "", TODAY - 1, 50)
    assert isinstance(shares(counts=counts).free(), Allowed)


def test_a_failed_request_gives_its_place_back_and_a_success_does_not() -> None:
    bench = shares(daily=5)
    assert isinstance(bench.free(request_id="a"), Allowed)
    assert isinstance(bench.free(), Refused)
    assert bench.local.finish("a", success=False)
    assert isinstance(bench.free(request_id="b"), Allowed)
    assert bench.local.finish("b", success=True)
    assert isinstance(bench.free(), Refused)
    assert not bench.local.finish("b", success=True)
    assert not bench.local.finish("admitted elsewhere", success=True)


def test_repeating_a_request_counts_once_and_waits_less() -> None:
    bench = shares(daily=50, rpm=60)
    bench.free(request_id="first")
    first = bench.free(request_id="second")
    again = bench.free(request_id="second", now_ms=NOW + 100)
    assert isinstance(first, Allowed) and isinstance(again, Allowed)
    assert (first.wait_ms, again.wait_ms) == (250, 150)
    assert first.remaining == again.remaining == 58


def test_free_minute_and_pacing_hold_locally() -> None:
    bench = shares(rpm=10, daily=0, processes=2)
    answers = [bench.free() for _ in range(8)]
    waits = [answer.wait_ms for answer in answers if isinstance(answer, Allowed)]
    assert waits == [0, 1000, 2000, 3000, 4000]
    assert told(answers[-1]) == (Code.FREE_RPM, 60)


def test_a_flood_is_refused_without_retry_after() -> None:
    bench = shares(rpm=30, daily=0)
    answers = [bench.free() for _ in range(25)]
    assert sum(isinstance(answer, Allowed) for answer in answers) == 21
    assert told(answers[-1]) == (Code.RATE_LIMIT, 0)


@pytest.mark.parametrize("daily", [1, 3, 50])
def test_some_requests_pass_for_every_quota(daily: int) -> None:
    assert isinstance(shares(daily=daily).free(), Allowed)


def test_after_the_outage_shares_start_anew_but_admissions_are_remembered() -> None:
    bench = shares(daily=5)
    bench.free(request_id="a")
    bench.local.reset()
    assert bench.local.finish("a", success=True)
    assert isinstance(bench.free(), Allowed)
