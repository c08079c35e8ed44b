"""Which limits apply to whom: tiers, a model's own limits, the cap on unqualified accounts, pacing."""

from dataclasses import replace

import pytest

from libs.core.money import Micros, rupiah
from services.limiter.domain import (
    Admit,
    Standing,
    Subject,
    Tier,
    free_limits,
    pacer_gap_ms,
    qualifies,
    starting_tier,
    to_midnight_ms,
    whole_seconds,
)
from services.limiter.settings import FreeSettings, LimiterSettings, TierSettings

RULES = FreeSettings(
    new=TierSettings(rpm=10, daily=50),
    qualified=TierSettings(rpm=30, daily=500),
    plan=TierSettings(rpm=60, daily=1000),
).rules()
THRESHOLD = rupiah(50_000)
NEW = Standing(Micros(0))


def ask(rpm: int | None = None, daily: int | None = None) -> Admit:
    return Admit("r1", "acct_a", Subject.FREE_CHAT, "small:free", rpm, daily)


@pytest.mark.rule("FREE-017")
def test_new_account_has_the_smallest_limits() -> None:
    limits = free_limits(RULES, ask(), NEW)
    assert (limits.rpm, limits.daily) == (10, 50)
    assert limits.rpm == min(RULES.new.rpm, RULES.qualified.rpm, RULES.plan.rpm)
    assert limits.daily == min(RULES.new.daily, RULES.qualified.daily, RULES.plan.daily)


@pytest.mark.rule("FREE-018")
@pytest.mark.rule("FREE-026")
def test_threshold_qualifies_and_one_rupiah_less_does_not() -> None:
    assert qualifies(RULES, THRESHOLD)
    assert not qualifies(RULES, Micros(THRESHOLD - rupiah(1)))
    limits = free_limits(RULES, ask(), Standing(THRESHOLD))
    assert (limits.rpm, limits.daily) == (30, 500)


@pytest.mark.rule("FREE-021")
def test_plan_has_the_plans_limits_whatever_was_paid_in() -> None:
    for paid_in in (Micros(0), THRESHOLD):
        limits = free_limits(RULES, ask(), Standing(paid_in, has_plan=True))
        assert (limits.rpm, limits.daily) == (60, 1000)


@pytest.mark.rule("FREE-021")
@pytest.mark.parametrize(("plan_daily", "daily"), [(None, 1000), (75, 75), (0, 0)])
def test_a_plan_may_set_a_daily_quota_of_its_own(plan_daily: int | None, daily: int) -> None:
    limits = free_limits(RULES, ask(), Standing(THRESHOLD, has_plan=True, plan_daily=plan_daily))
    assert (limits.rpm, limits.daily) == (60, daily)
    assert free_limits(RULES, ask(daily=7), Standing(THRESHOLD, has_plan=True, plan_daily=plan_daily)).daily == 7


@pytest.mark.rule("FREE-022")
def test_models_own_limit_replaces_the_accounts_and_is_counted_apart() -> None:
    limits = free_limits(RULES, ask(rpm=100, daily=7), NEW)
    assert (limits.rpm, limits.daily) == (100, 7)
    assert limits.rpm_scope == limits.daily_scope == "small:free"
    half = free_limits(RULES, ask(rpm=3), NEW)
    assert (half.rpm, half.daily, half.rpm_scope, half.daily_scope) == (3, 50, "small:free", "")


@pytest.mark.rule("FREE-023")
def test_cap_of_unqualified_accounts_holds_on_every_free_model() -> None:
    rules = replace(RULES, unqualified_rpm_cap=5)
    for own, applied in ((None, 5), (100, 5), (2, 2), (0, 5)):
        assert free_limits(rules, ask(rpm=own), NEW).rpm == applied
    assert free_limits(rules, ask(rpm=100), Standing(THRESHOLD)).rpm == 100
    assert free_limits(rules, ask(rpm=100), Standing(Micros(0), has_plan=True)).rpm == 100


@pytest.mark.parametrize(
    ("rpm", "gap"), [(0, 100), (1, 1000), (10, 1000), (30, 500), (60, 250), (150, 100), (999, 100)]
)
def test_pacing_is_a_quarter_of_the_even_spacing_within_bounds(rpm: int, gap: int) -> None:
    assert pacer_gap_ms(RULES, rpm) == gap


def test_midnight_is_at_least_a_second_and_at_most_a_day_away() -> None:
    midnight = 20_000 * 86_400_000
    assert whole_seconds(to_midnight_ms(midnight)) == 86_400
    assert whole_seconds(to_midnight_ms(midnight - 1)) == 1
    assert whole_seconds(to_midnight_ms(midnight - 1_001)) == 2


def test_settings_come_from_the_environment_and_defaults_are_sane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMITER_FREE__NEW__RPM", "3")
    monkeypatch.setenv("LIMITER_FREE__NEW__DAILY", "4")
    monkeypatch.setenv("KENARI_VALKEY__URL", "redis://:hidden@localhost:1/2")
    settings = LimiterSettings.read()
    assert settings.free.rules().new == Tier(3, 4)
    assert settings.valkey.url.get_secret_value().endswith("/2")
    assert "hidden" not in str(settings.masked())
    assert settings.account_rpm == 600


@pytest.mark.rule("FREE-025", "FREE-027")
@pytest.mark.parametrize(("cap", "threshold"), [(0, 50_000), (4, 50_000), (20, 50_000), (4, 0)])
def test_what_is_told_of_new_accounts_is_what_holds_for_them(cap: int, threshold: int) -> None:
    settings = FreeSettings(new=TierSettings(rpm=10, daily=50), threshold_idr=threshold, unqualified_rpm_cap=cap)
    told, held = starting_tier(settings.rules()), free_limits(settings.rules(), ask(), NEW)
    assert (told.rpm, told.daily) == (held.rpm, held.daily)
