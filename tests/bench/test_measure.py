"""Medians over rounds, cost in units, and when a step is measured once more.
Run by pytest; the load is made up.
"""

from collections.abc import Mapping, Sequence

import pytest

from tests.bench.load import Case, Outcome, Sample, Target
from tests.bench.measure import Effort, cost_in_units, run_rounds, summarise

_PLAIN = Case("plain", 16)


def _sample(per_second: float, cpu: Mapping[str, float], failed: int = 0, strangers: float = 0.0) -> Sample:
    requests = int(per_second * 2) + failed
    return Sample(Outcome(requests, 2.0, 1000 / per_second, 2000 / per_second, failed, 0), cpu, strangers)


def test_figures_are_medians_but_failures_add_up() -> None:
    figures = summarise(
        [
            _sample(100, {"edge": 0.3, "ledger": 0.1}),
            _sample(900, {"edge": 0.1, "ledger": 0.2}, failed=2, strangers=0.4),
            _sample(200, {"edge": 0.2, "ledger": 0.6}, failed=1),
        ]
    )

    assert figures.per_second == 200
    assert figures.p50_ms == 5
    assert figures.cpu_ms == {"edge": 0.2, "ledger": 0.2}
    assert figures.cpu_ms_total == pytest.approx(0.4)
    assert figures.failed == 3
    assert figures.strangers == 0.4


def test_cost_in_units_compares_within_a_round() -> None:
    # given a machine that was half as fast in the second round, for both
    samples = [_sample(100, {"edge": 0.4}), _sample(50, {"edge": 0.8}), _sample(100, {"edge": 0.5})]
    yardstick = [_sample(1000, {"raw": 0.04}), _sample(500, {"raw": 0.08}), _sample(1000, {"raw": 0.04})]

    assert cost_in_units(samples, yardstick) == pytest.approx(10)


class _Loader:
    """Hands out prepared samples and notes who was asked."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = list(samples)
        self.asked: list[tuple[str, str]] = []

    def __call__(self, target: Target, case: Case, seconds: int, provider: Mapping[str, Sequence[int]]) -> Sample:
        self.asked.append((target.name, case.label))
        return _sample(1, {}) if case.label == "warm-up" else self.samples.pop(0)


def _target(name: str) -> Target:
    return Target(name, "http://127.0.0.1:1", "m", ["k"], {})


def test_targets_take_turns_after_one_warm_up_each() -> None:
    loader = _Loader([_sample(n, {}) for n in (1, 2, 3, 4)])

    samples = run_rounds([(_target("a"), _PLAIN), (_target("b"), _PLAIN)], Effort(2, 1, 1), {}, loader)

    assert [name for name, _ in loader.asked] == ["a", "b", "a", "b", "a", "b"]
    assert [one.outcome.per_second for one in samples["a", "plain"]] == [1, 3]


def test_a_disturbed_step_is_measured_once_more_and_the_calmer_counts() -> None:
    loader = _Loader([_sample(10, {}, strangers=0.5), _sample(20, {}, strangers=0.2)])

    samples = run_rounds([(_target("a"), _PLAIN)], Effort(1, 1, 1), {}, loader)

    assert [one.outcome.per_second for one in samples["a", "plain"]] == [20]


def test_a_failed_request_is_never_dropped_by_measuring_again() -> None:
    first_failed = _Loader([_sample(10, {}, failed=1, strangers=0.5)])
    second_failed = _Loader([_sample(10, {}, strangers=0.3), _sample(10, {}, failed=2, strangers=0.9)])

    for loader, failed in ((first_failed, 1), (second_failed, 2)):
        samples = run_rounds([(_target("a"), _PLAIN)], Effort(1, 1, 1), {}, loader)
        assert samples["a", "plain"][0].outcome.failed == failed
