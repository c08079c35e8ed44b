"""Rules of named routes: what they may be called, what a step is, which step comes first."""

from collections import Counter

import pytest

from services.router.routes.domain import (
    BALANCE,
    MOST_STEPS,
    InvalidRouteError,
    Step,
    Strategy,
    check_name,
    check_steps,
    order,
)
from services.router.routes.latency import RECENT_MS, Latencies

NOW = 1_800_000_000_000
UNKNOWN: list[float | None] = [None, None, None]


@pytest.mark.rule("ROUTE-018")
@pytest.mark.parametrize("name", ["x", "x" * 64, "é" * 64, "cheap-first", "a b", "fast:er", "high"])
def test_names_of_up_to_64_characters_are_taken(name: str) -> None:
    check_name(name)


@pytest.mark.rule("ROUTE-018", "ROUTE-019", "ROUTE-020")
@pytest.mark.parametrize(
    "name", ["", "x" * 65, " x", "x\n", "kenari-free", "kenari/auto", "byok/x", "fast:high", "fast:none", "x:free"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidRouteError):
        check_name(name)


@pytest.mark.rule("ROUTE-008", "ROUTE-009", "ROUTE-016")
@pytest.mark.parametrize(
    "steps",
    [
        [Step("", BALANCE)],
        [Step("m", "")],
        [Step("m", "cred_1")],
        [Step("m", BALANCE, -1)],
        [Step("m", BALANCE, 1_001)],
        [Step("m", BALANCE)] * (MOST_STEPS + 1),
    ],
    ids=["no-model", "no-credential", "unknown-credential", "negative", "heavy", "too-many"],
)
def test_a_step_is_one_model_and_one_credential(steps: list[Step]) -> None:
    with pytest.raises(InvalidRouteError):
        check_steps(steps)
    check_steps([Step("m", BALANCE, 0)] * MOST_STEPS)
    check_steps([])


@pytest.mark.rule("ROUTE-024", "ROUTE-030")
def test_fallback_always_starts_with_the_first() -> None:
    assert [order(Strategy.FALLBACK, [1, 1, 1], UNKNOWN, turn, 0.9) for turn in range(3)] == [[0, 1, 2]] * 3


@pytest.mark.rule("ROUTE-025", "ROUTE-030")
def test_round_robin_starts_with_each_in_turn_and_goes_on_around_the_end() -> None:
    started = [order(Strategy.ROUND_ROBIN, [1, 1, 1], UNKNOWN, turn, 0.9) for turn in range(4)]
    assert started == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


@pytest.mark.rule("ROUTE-026", "ROUTE-030")
def test_random_starts_with_any() -> None:
    started = [order(Strategy.RANDOM, [9, 0, 1], UNKNOWN, 0, draw / 300) for draw in range(300)]
    assert Counter(places[0] for places in started) == {0: 100, 1: 100, 2: 100}
    assert order(Strategy.RANDOM, [1, 1, 1], UNKNOWN, 0, 0.999_999) == [2, 0, 1]


@pytest.mark.rule("ROUTE-027", "ROUTE-030")
def test_weights_are_shares_and_nothing_is_only_for_failures() -> None:
    started = [order(Strategy.WEIGHTED, [3, 0, 1], UNKNOWN, 0, draw / 400) for draw in range(400)]
    assert Counter(places[0] for places in started) == {0: 300, 2: 100}
    assert all(sorted(places) == [0, 1, 2] for places in started)
    assert order(Strategy.WEIGHTED, [0, 0], UNKNOWN, 0, 0.5) == [0, 1]


@pytest.mark.rule("ROUTE-028", "ROUTE-029", "ROUTE-030")
def test_the_fastest_comes_first_behind_those_nothing_is_known_of() -> None:
    assert order(Strategy.LATENCY, [1] * 4, [300.0, None, 100.0, None], 0, 0.5) == [1, 3, 2, 0]


@pytest.mark.rule("ROUTE-028", "ROUTE-029")
def test_latency_is_an_average_of_late_and_forgotten_after_ten_minutes() -> None:
    known = Latencies()
    assert known.of("m", NOW) is None
    known.seen("m", 100, NOW)
    known.seen("m", 200, NOW + 1_000)
    assert known.of("m", NOW + 1_000) == 120.0
    assert known.of("m", NOW + 1_000 + RECENT_MS) == 120.0
    assert known.of("m", NOW + 1_001 + RECENT_MS) is None
    known.seen("m", 500, NOW + 2 * RECENT_MS)
    assert known.of("m", NOW + 2 * RECENT_MS) == 500.0
