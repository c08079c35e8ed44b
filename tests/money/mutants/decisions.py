"""Faults in what is decided: who pays, how much is held, what it costs, which plan is sold.

Joined in __init__.py.
"""

from tests.money.mutants.faults import Fault

_FUNDING = "services/ledger/domain/funding.py"
_METERS = "services/ledger/domain/meters.py"
_PRICING = "libs/core/pricing.py"
_WINDOWS = "services/ledger/domain/windows.py"
_PLANS = "services/ledger/domain/plans.py"

DECISIONS: tuple[Fault, ...] = (
    Fault(
        "soft_key_cap",
        "running requests do not count towards a key's spend cap",
        _FUNDING,
        (("worst.most(call.caps.spend - spent - reserved)", "worst.most(call.caps.spend - spent)"),),
        "tests/money/test_keys.py",
    ),
    Fault(
        "key_cap_passed",
        "a key may begin another request exactly at its spend cap",
        _FUNDING,
        (("if spent >= call.caps.spend:", "if spent > call.caps.spend:"),),
        "tests/money/test_keys.py",
    ),
    Fault(
        "soft_token_cap",
        "running requests do not count towards a key's token cap",
        _FUNDING,
        (("call.caps.tokens - tokens - running - call.input_tokens", "call.caps.tokens - tokens - call.input_tokens"),),
        "tests/money/test_keys.py",
    ),
    Fault(
        "soft_member_cap",
        "running requests do not count towards a member's cap",
        _FUNDING,
        (("worst.most(cap - member.spent - member.reserved)", "worst.most(cap - member.spent)"),),
        "tests/money/test_limits.py",
    ),
    Fault(
        "coupon_unreserved",
        "running requests leave a coupon's budget to others",
        _FUNDING,
        (("coupon.used + coupon.reserved < coupon.budget", "coupon.used < coupon.budget"),),
        "tests/money/test_sources.py",
    ),
    Fault(
        "allowance_unreserved",
        "running searches leave the day's allowance to others",
        _FUNDING,
        (("today.used + today.reserved >= plan.daily_searches", "today.used >= plan.daily_searches"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "limit_passed",
        "a request may begin exactly at the PAYG limit",
        _FUNDING,
        (("if spent >= wallet.payg_limit or", "if spent > wallet.payg_limit or"),),
        "tests/money/test_limits.py",
    ),
    Fault(
        "fee_at_limit",
        "a fee that ends exactly at the PAYG limit is refused",
        _FUNDING,
        (("spent + fee > wallet.payg_limit", "spent + fee >= wallet.payg_limit"),),
        "tests/money/test_limits.py",
    ),
    Fault(
        "both_settings_free",
        "with both settings on, free models answer after a spent window",
        _FUNDING,
        (("        if keep:\n", "        if keep and not fallback:\n"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "uncovered_fallback",
        "a model that the ended plan never covered falls back to free models",
        _FUNDING,
        (("if plan is not None and model in plan.models:", "if plan is not None:"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "coupon_opens_all",
        "any coupon opens every model for subscribers",
        _FUNDING,
        (("any(model in coupon.models and _has_room(coupon) for", "any(_has_room(coupon) for"),),
        "tests/money/test_sources.py",
    ),
    Fault(
        "media_from_plan",
        "a plan pays for endpoints it never covers",
        _FUNDING,
        (('call.funding == "balance" or meter(call.endpoint) is not Meter.CHAT', 'call.funding == "balance"'),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "window_crossed",
        "a request may begin exactly at a window's ceiling",
        _WINDOWS,
        (("window.used + window.reserved >= ceiling", "window.used + window.reserved > ceiling"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "calendar_windows",
        "windows follow the clock instead of the plan's start",
        _WINDOWS,
        (("return (at_ms - plan.cycle) // LENGTHS_MS", "return at_ms // LENGTHS_MS"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "plan_too_long",
        "a plan is still in force at the moment it ends",
        "services/ledger/domain/state.py",
        (("return now_ms < self.ends_ms", "return now_ms <= self.ends_ms"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "floor_missed",
        "a request is refused that would run with exactly 1,024 tokens",
        _METERS,
        (("return LOWEST_MAX_TOKENS <= tokens < asked", "return LOWEST_MAX_TOKENS < tokens < asked"),),
        "tests/money/test_keys.py",
    ),
    Fault(
        "one_token_less",
        "max_tokens is lowered by one too many",
        _METERS,
        (
            (
                "return fits if lowerable(fits, self.asked) else -1",
                "return fits - 1 if lowerable(fits, self.asked) else -1",
            ),
        ),
        "tests/money/test_payg.py",
    ),
    Fault(
        "hold_rounded_down",
        "a hold is rounded down",
        _METERS,
        (
            (
                "Micros(-(-(self.input_product + max_tokens * self.output_price) // PER_MILLION_TOKENS))",
                "Micros((self.input_product + max_tokens * self.output_price) // PER_MILLION_TOKENS)",
            ),
        ),
        "tests/money/test_payg.py",
    ),
    Fault(
        "prompt_charged_without_output",
        "an answer without output costs its prompt",
        _METERS,
        (("if call.completion_tokens == 0:", "if call.prompt_tokens == 0:"),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "broken_stream_charged",
        "what the provider broke off is charged",
        _METERS,
        (('if call.outcome == "interrupted" and not', 'if call.outcome == "broken" and not'),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "more_than_held",
        "an image more than asked for is charged",
        _METERS,
        (("units = min(call.units, hold.units) if hold is not None else call.units", "units = call.units"),),
        "tests/money/test_pieces.py",
    ),
    Fault(
        "cache_above_input",
        "reading the cache may cost more than input",
        _PRICING,
        (("else min(price.cache_read, price.input)", "else price.cache_read"),),
        "tests/money/test_prices.py",
    ),
    Fault(
        "cache_charged_twice",
        "cache tokens are charged as input too",
        _PRICING,
        (("    product = (\n        fresh * price.input", "    product = (\n        tokens.prompt * price.input"),),
        "tests/money/test_prices.py",
    ),
    Fault(
        "whole_days_only",
        "an upgrade credits whole days only",
        _PLANS,
        (("has.paid * (has.ends_ms - now_ms) // CYCLE_MS", "has.paid * ((has.ends_ms - now_ms) // 86_400_000) // 30"),),
        "tests/money/test_purchases.py",
    ),
    Fault(
        "trial_days_credited",
        "days nobody paid for are credited at an upgrade",
        _PLANS,
        (("mixed = (has.paid * left + rate * length_ms) // (left + length_ms)", "mixed = rate"),),
        "tests/money/test_purchases.py",
    ),
    Fault(
        "renewal_resets",
        "renewing early starts new windows",
        _PLANS,
        (('Deal("renewed", kept, due, has.cycle,', 'Deal("renewed", kept, due, now_ms,'),),
        "tests/money/test_purchases.py",
    ),
)
