"""Faults in what is done once it is decided: holds given back, money moved, rows locked and written.

Joined in __init__.py.
"""

from tests.money.mutants.faults import Fault

_MOVEMENTS = "services/ledger/domain/movements.py"
_JOBS = "services/ledger/domain/paid_jobs.py"
_CHARGES = "services/ledger/charges.py"
_SUBSCRIPTIONS = "services/ledger/subscriptions.py"
_FUNDS = "services/ledger/migrations/0006_funding.sql"
_BOOKS = "services/ledger/migrations/0007_open_close.sql"

MOVEMENTS: tuple[Fault, ...] = (
    Fault(
        "late_settle_gives_back_twice",
        "a settlement after the hold's end gives its amount back once more",
        _MOVEMENTS,
        (
            (
                '        if hold.state == "open":\n            lean',
                '        if hold.state != "settled":\n            lean',
            ),
        ),
        "tests/money/test_payg.py",
    ),
    Fault(
        "partial_give_back",
        "a micro-Rupiah of each hold stays reserved",
        _MOVEMENTS,
        (("wallet.reserved += sign * hold.amount", "wallet.reserved += sign * hold.amount + (sign < 0)"),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "member_not_given_back",
        "a member's hold is never given back",
        _MOVEMENTS,
        (("member.reserved += sign * hold.amount", "member.reserved += max(sign, 0) * hold.amount"),),
        "tests/money/test_stories.py",
    ),
    Fault(
        "paid_before_bonus",
        "paid money burns before bonus",
        _MOVEMENTS,
        (("bonus = min(wallet.bonus, amount)", "bonus = min(wallet.bonus, max(0, amount - wallet.paid))"),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "free_cache_counts",
        "cache tokens spend quota although they are free",
        _MOVEMENTS,
        (("window.used += worth.net", "window.used += worth.value"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "coupon_counts_net",
        "a coupon counts less than the list value",
        _MOVEMENTS,
        (("coupon.used += worth.value", "coupon.used += worth.value // 2"),),
        "tests/money/test_sources.py",
    ),
    Fault(
        "only_payg_on_key",
        "what a plan pays does not count towards a key's cap",
        _MOVEMENTS,
        (
            (
                "key.spent += worth.value if hold.funding in CAPPED else 0",
                'key.spent += worth.value if hold.funding == "payg" else 0',
            ),
        ),
        "tests/money/test_keys.py",
    ),
    Fault(
        "refund_all_paid",
        "a refund turns bonus into paid money",
        _JOBS,
        (("    wallet.bonus += bonus\n    wallet.paid += money\n", "    wallet.paid += bonus + money\n"),),
        "tests/money/test_pieces.py",
    ),
    Fault(
        "refund_still_spent",
        "a refunded job still counts towards the PAYG limit",
        _JOBS,
        (("    wallet.cum -= hold.amount\n", ""),),
        "tests/money/test_limits.py",
    ),
    Fault(
        "refund_keeps_cap",
        "a refunded job stays counted on its key",
        _JOBS,
        (("        key.spent -= hold.amount\n", ""),),
        "tests/money/test_keys.py",
    ),
    Fault(
        "refund_lowers_later_spend",
        "a refund undoes spend of later minutes instead of its own",
        _CHARGES,
        (("                await _forget_spending(conn, hold)\n", ""),),
        "tests/money/test_limits.py",
    ),
    Fault(
        "refunded_twice",
        "a second refund is paid again",
        _CHARGES,
        (
            ('                if hold.state == "refunded":\n', '                if hold.state == "settled":\n'),
            ('    if hold.state != "posted":\n', '    if hold.state not in ("posted", "refunded"):\n'),
        ),
        "tests/money/test_pieces.py",
    ),
    Fault(
        "held_money_buys",
        "money that is held for running requests buys a plan",
        _SUBSCRIPTIONS,
        (("if agreed.due > wallet.room:", "if agreed.due > wallet.balance:"),),
        "tests/money/test_purchases.py",
    ),
    Fault(
        "renewed_on_credit",
        "a plan renews itself although the balance is short",
        _SUBSCRIPTIONS,
        ((" and plan.price <= account.wallet.room:", ":"),),
        "tests/money/test_purchases.py",
    ),
    Fault(
        "release_after_settle_conflict",
        "a settlement after a release is charged",
        "services/ledger/batch.py",
        (('hold.state in ("released", "posted", "refunded")', 'hold.state in ("posted", "refunded")'),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "credited_twice",
        "a repeated top-up is added again",
        _FUNDS,
        (
            ("        status := case when v_known.request_hash = p_hash then 2 else 3 end;\n", ""),
            (
                "        balance := v_known.result;\n        return;\n",
                "        delete from idem i where i.scope = 'credit' and i.key = p_key;\n",
            ),
        ),
        "tests/service/ledger/test_credit.py",
    ),
    Fault(
        "no_lock",
        "calls of one account do not wait for each other",
        _BOOKS,
        (
            (
                "where account_id = any(p_paying) order by account_id for no key update) l;",
                "where account_id = any(p_paying) order by account_id) l;",
            ),
        ),
        "tests/service/ledger/test_raced.py",
    ),
    Fault(
        "limit_minute_early",
        "a minute of spend leaves the PAYG window a minute early",
        _BOOKS,
        (
            (
                "s.minute >= floor(extract(epoch from v_now - w.payg_window) / 60)::bigint\n",
                "s.minute > floor(extract(epoch from v_now - w.payg_window) / 60)::bigint\n",
            ),
        ),
        "tests/money/test_limits.py",
    ),
    Fault(
        "window_stays_reserved",
        "what running requests expect of a window is not written back",
        _BOOKS,
        (("set used = excluded.used, reserved = excluded.reserved, warned", "set used = excluded.used, warned"),),
        "tests/money/test_plans.py",
    ),
    Fault(
        "bonus_lost_on_write",
        "a change of the bonus is not written",
        _BOOKS,
        (("set paid = a.paid, bonus = a.bonus, reserved", "set paid = a.paid, reserved"),),
        "tests/money/test_payg.py",
    ),
    Fault(
        "expiry_late",
        "a hold outlives its last moment",
        _BOOKS,
        (
            (
                "where h.state = 'open' and h.expires_at <= v_now limit p_accounts",
                "where h.state = 'open' and h.expires_at < v_now limit p_accounts",
            ),
            (
                "h.expires_at <= v_now and h.account_id = any(v_locked)",
                "h.expires_at < v_now and h.account_id = any(v_locked)",
            ),
        ),
        "tests/money/test_payg.py",
    ),
)
