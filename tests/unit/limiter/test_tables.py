"""What accounts and ledger have told, as the limiter reads it: defaults where nobody spoke, plans until they end."""

import pytest

from libs.core.money import Micros, rupiah
from libs.events.accounts import SettingsChanged
from libs.events.ledger import AccountState
from services.limiter.domain import Standing
from services.limiter.tables import TableFacts

NOW = 1_800_000_000_000


def facts(state: AccountState | None = None, rpm: int | None = None) -> TableFacts:
    settings = SettingsChanged(account_id="a", version=1, requests_per_minute=rpm) if rpm is not None else None
    return TableFacts({"a": settings} if settings else {}, {"a": state} if state else {})


def state(plan: str | None, ends_at_ms: int = 0, daily: int | None = None) -> AccountState:
    return AccountState(
        account_id="a",
        version=1,
        paid_in_total_micro_idr=rupiah(10),
        plan=plan,
        plan_ends_at_ms=ends_at_ms,
        plan_free_daily=daily,
    )


def test_an_account_nobody_has_spoken_of_has_the_defaults() -> None:
    assert facts().standing("a", NOW) == Standing(Micros(0))
    assert facts().requests_per_minute("a") == 0
    assert facts(rpm=7).requests_per_minute("a") == 7


@pytest.mark.rule("FREE-021")
@pytest.mark.parametrize(
    ("told", "has_plan", "daily"),
    [
        (state(None), False, None),
        (state("pro", NOW + 1), True, None),
        (state("pro", NOW + 1, 75), True, 75),
        (state("pro", NOW, 75), False, None),
        (state("pro"), True, None),
    ],
    ids=["none", "running", "own-quota", "over", "endless"],
)
def test_a_plan_counts_until_it_ends(told: AccountState, has_plan: bool, daily: int | None) -> None:
    assert facts(told).standing("a", NOW) == Standing(rupiah(10), has_plan, daily)
