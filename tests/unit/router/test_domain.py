"""Health of an upstream as a state machine, and the order of attempts."""

from collections import Counter

import pytest

from services.router.domain import (
    Health,
    HealthRules,
    Plan,
    Server,
    Try,
    Verdict,
    attempts,
    judge,
    pick,
    plan,
    retry_after_s,
    verdict,
)

RULES = HealthRules()
T0 = 1_800_000_000_000


def tried(kind: Verdict, at: int = T0, *, took: int = 100, retry_after_ms: int | None = None) -> Try:
    return Try(kind, kind.value, at - took, at, retry_after_ms)


def after(health: Health, *tries: Try, rules: HealthRules = RULES) -> Health:
    for one in tries:
        health = judge(health, one, one.finished_ms, rules)
    return health


def paused() -> Health:
    health = after(Health(), *[tried(Verdict.FAILED)] * 3)
    assert health.until_ms == T0 + 5_000
    return health


@pytest.mark.parametrize("outcome", ["refused", "timeout", "failed", "interrupted", "junk"])
def test_failures_of_the_provider_count(outcome: str) -> None:
    assert verdict(outcome, 500) is Verdict.FAILED


def test_a_rejected_request_and_a_client_that_left_do_not_count() -> None:
    assert verdict("rejected", 400) is Verdict.ALIVE
    assert verdict("completed", 200) is Verdict.ALIVE
    assert verdict("client_closed", 200) is Verdict.SILENT
    assert verdict("rate_limited", 429) is Verdict.AT_LIMIT


@pytest.mark.parametrize("status", [401, 402])
def test_a_refused_credential_counts_whatever_the_edge_calls_it(status: int) -> None:
    assert verdict("rejected", status) is Verdict.FAILED


def test_failures_in_a_row_pause() -> None:
    health = after(Health(), tried(Verdict.FAILED), tried(Verdict.FAILED))
    assert health.takes_all()
    assert after(health, tried(Verdict.FAILED)).until_ms == T0 + 5_000


def test_a_success_or_a_rejection_in_between_starts_the_row_again() -> None:
    health = after(Health(), *[tried(Verdict.FAILED)] * 2, tried(Verdict.ALIVE), *[tried(Verdict.FAILED)] * 2)
    assert health.takes_all()


def test_a_high_share_of_failures_pauses_without_a_row() -> None:
    pattern = [tried(Verdict.FAILED), tried(Verdict.ALIVE)] * 5
    assert after(Health(), *pattern[:8]).takes_all()
    assert not after(Health(), *pattern, tried(Verdict.FAILED)).takes_all()


def test_failures_of_an_earlier_window_are_forgotten() -> None:
    health = after(Health(), *[tried(Verdict.FAILED), tried(Verdict.ALIVE)] * 4)
    later = T0 + RULES.window_ms
    health = after(health, *[tried(Verdict.FAILED, later), tried(Verdict.ALIVE, later)] * 4)
    assert health.takes_all()


def test_retry_after_is_obeyed_at_the_first_answer() -> None:
    health = after(Health(), tried(Verdict.AT_LIMIT, retry_after_ms=42_000))
    assert health.until_ms == T0 + 42_000


def test_retry_after_runs_from_the_answer_and_not_from_when_it_was_heard() -> None:
    health = judge(Health(), tried(Verdict.AT_LIMIT, retry_after_ms=10_000), T0 + 4_000, RULES)
    assert health.until_ms == T0 + 10_000


def test_an_absurd_retry_after_is_cut() -> None:
    health = after(Health(), tried(Verdict.AT_LIMIT, retry_after_ms=10**12))
    assert health.until_ms == T0 + RULES.longest_retry_after_ms


def test_a_limit_without_a_time_counts_as_a_failure() -> None:
    assert after(Health(), *[tried(Verdict.AT_LIMIT)] * 2).takes_all()
    assert not after(Health(), *[tried(Verdict.AT_LIMIT)] * 3).takes_all()


def test_tries_begun_before_the_pause_ended_change_nothing() -> None:
    health = paused()
    late = tried(Verdict.FAILED, T0 + 9_000, took=8_000)
    assert after(health, late) is health
    assert after(health, late._replace(verdict=Verdict.ALIVE)) is health


def test_a_longer_retry_after_of_an_earlier_try_lengthens_the_pause() -> None:
    health = after(paused(), tried(Verdict.AT_LIMIT, T0 + 1_000, took=500, retry_after_ms=60_000))
    assert health.until_ms == T0 + 61_000


def test_a_good_probe_heals_and_a_bad_one_doubles_the_pause() -> None:
    probe_at = T0 + 6_000
    assert after(paused(), tried(Verdict.ALIVE, probe_at)).takes_all()
    health = after(paused(), tried(Verdict.FAILED, probe_at))
    assert health.until_ms == probe_at + 10_000


def test_pauses_double_up_to_the_longest() -> None:
    health, lengths = paused(), []
    for _ in range(9):
        now = health.until_ms + 200
        health = after(health, tried(Verdict.FAILED, now))
        lengths.append(health.until_ms - now)
    assert lengths == [10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000, 300_000]


def test_an_upstream_that_flaps_goes_on_where_it_was_and_a_lasting_cure_is_forgiven() -> None:
    healed = after(paused(), tried(Verdict.ALIVE, T0 + 6_000))
    soon = T0 + 10_000
    assert after(healed, *[tried(Verdict.FAILED, soon)] * 3).until_ms == soon + 10_000
    late = T0 + 6_000 + RULES.forgive_ms
    assert after(healed, *[tried(Verdict.FAILED, late)] * 3).until_ms == late + 5_000


def test_old_reports_say_nothing_about_now() -> None:
    health = Health()
    assert judge(health, tried(Verdict.AT_LIMIT, retry_after_ms=600_000), T0 + RULES.stale_ms + 1, RULES) is health


A, B, C, D = (
    Server(name, "m", order, weight) for name, order, weight in [("a", 0, 1), ("b", 0, 3), ("c", 1, 1), ("d", 1, 2)]
)
WELL = Health()
LONG = Health(until_ms=T0 + 60_000, pauses=1)
DUE = Health(until_ms=T0 - 1, pauses=1)


def planned(*health: Health, probing: tuple[int, ...] = (0, 0, 0, 0)) -> Plan:
    return plan((A, B, C, D), health, probing, T0)


def test_lower_orders_come_first_and_heavier_ones_within_an_order() -> None:
    chosen = planned(WELL, WELL, WELL, WELL)
    assert attempts(chosen, 0) == (1, 0, 3, 2)
    assert attempts(chosen, 1) == (0, 1, 3, 2)


@pytest.mark.rule("ROUTE-001")
def test_paused_upstreams_are_left_out() -> None:
    assert attempts(planned(WELL, LONG, LONG, WELL), 0) == (0, 3)
    assert attempts(planned(LONG, LONG, WELL, WELL), 0) == (3, 2)


def test_when_all_are_paused_there_is_a_time_to_come_back() -> None:
    sooner = Health(until_ms=T0 + 1_500, pauses=1)
    chosen = planned(LONG, sooner, LONG, LONG)
    assert (chosen.first, chosen.due) == ((), ())
    assert retry_after_s(chosen, T0) == 2
    assert retry_after_s(chosen, T0 + 5_000) == 1


def test_a_pause_that_is_over_lets_one_request_through_at_a_time() -> None:
    assert planned(DUE, WELL, WELL, WELL).due == (0,)
    busy = planned(DUE, WELL, WELL, WELL, probing=(T0 + 7_000, 0, 0, 0))
    assert (busy.due, busy.next_due_ms) == ((), T0 + 7_000)


def test_accounts_spread_by_weight() -> None:
    chosen = planned(WELL, WELL, LONG, LONG)
    shares = Counter(attempts(chosen, pick(chosen, f"acct_{n}"))[0] for n in range(4_000))
    assert 0.72 < shares[1] / 4_000 < 0.78


@pytest.mark.rule("ROUTE-005", "ROUTE-006")
def test_an_account_stays_with_its_provider_while_that_is_healthy_and_no_longer() -> None:
    well = planned(WELL, WELL, LONG, LONG)
    starts = {attempts(well, pick(well, "acct_1"))[0] for _ in range(50)}
    assert len(starts) == 1
    usual = starts.pop()
    health = [LONG if n == usual else WELL for n in range(4)]
    ill = planned(*health)
    assert attempts(ill, pick(ill, "acct_1"))[0] == 1 - usual
