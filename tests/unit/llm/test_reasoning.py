"""What a wish about reasoning becomes on a model: levels gated, budgets translated."""

import pytest

from libs.llm.canonical import Effort, ReasoningWish
from libs.llm.reasoning import AS_IS, ReasoningControl, budget_of, effort_of, fitting_budget, gate, gated

LISTED = ("low", "medium", "high")


@pytest.mark.rule("RSN-007", "RSN-008", "RSN-006")
@pytest.mark.parametrize(
    ("asked", "options", "sent"),
    [
        ("medium", LISTED, "medium"),
        ("xhigh", LISTED, "high"),
        ("medium", ("low", "high"), "low"),
        ("low", ("high", "max"), "low"),
        ("minimal", LISTED, "low"),
        ("minimal", ("minimal", *LISTED), "low"),
        ("low", ("none", "high"), "low"),
        ("max", (), "max"),
    ],
)
def test_a_level_becomes_the_highest_listed_one_at_or_below_it(asked: str, options: tuple[str, ...], sent: str) -> None:
    assert gated(Effort(asked), options) is Effort(sent)


@pytest.mark.rule("RSN-009")
def test_a_model_that_does_not_reason_is_told_nothing() -> None:
    assert gate(ReasoningWish(effort=Effort.HIGH, budget=5_000, enabled=True), False, LISTED) is AS_IS


@pytest.mark.rule("RSN-005", "RSN-022", "RSN-023", "RSN-024")
@pytest.mark.parametrize(
    ("wish", "control"),
    [
        (ReasoningWish(), AS_IS),
        (ReasoningWish(exclude=True), AS_IS),
        (ReasoningWish(effort=Effort.NONE), ReasoningControl(state="off")),
        (ReasoningWish(enabled=False), ReasoningControl(state="off")),
        (ReasoningWish(enabled=False, off_softly=True), ReasoningControl(state="off", off_softly=True)),
        (ReasoningWish(enabled=True), ReasoningControl(state="on", effort=Effort.MEDIUM)),
        (ReasoningWish(effort=Effort.MAX), ReasoningControl(state="on", effort=Effort.HIGH)),
        (ReasoningWish(budget=2_048), ReasoningControl(state="on", effort=Effort.LOW, budget=2_048)),
        (
            ReasoningWish(effort=Effort.HIGH, budget=2_048),
            ReasoningControl(state="on", effort=Effort.HIGH, budget=2_048),
        ),
    ],
)
def test_a_wish_becomes_what_the_provider_is_told(wish: ReasoningWish, control: ReasoningControl) -> None:
    assert gate(wish, True, LISTED) == control


@pytest.mark.rule("RSN-011")
def test_budgets_become_levels_that_never_fall_as_they_grow() -> None:
    levels = [list(Effort).index(effort_of(budget)) for budget in range(1_024, 200_000, 512)]
    assert levels == sorted(levels)
    assert effort_of(1_024) is Effort.LOW
    assert effort_of(1_000_000) is Effort.MAX


@pytest.mark.rule("RSN-018", "RSN-019")
def test_a_budget_fits_between_its_least_and_the_output_limit() -> None:
    assert fitting_budget(500, 4_000) == 1_024
    assert fitting_budget(9_000, 4_000) == 3_999
    assert fitting_budget(2_000, 1_024) is None
    assert budget_of(Effort.HIGH, 100_000) == 24_576
    # The answer keeps a share of the limit, the smaller the higher the level.
    shares = [budget_of(effort, 10_000) or 0 for effort in Effort if effort not in (Effort.NONE, Effort.MINIMAL)]
    assert shares == [2_000, 4_000, 6_000, 7_500, 8_500]
    assert budget_of(Effort.LOW, 2_000) == 1_024
    assert budget_of(Effort.MINIMAL, 100_000) == budget_of(Effort.LOW, 100_000)
