"""When the owner of an account must hear of something, once each (contract: Notifications; ledger rule R62).

Called by movements.py and plans.py after the state has changed. Marks in the state what has been told.
"""

from collections.abc import Iterator

from libs.events.ledger import AlertRaised
from services.ledger.domain.state import Account, KeySpend, MemberSpend, Window
from services.ledger.domain.windows import CYCLE_MS, LENGTHS_MS, limited

_TOLD = {2: ("quota.week.warn", "quota.week.out"), 3: ("quota.month.warn", "quota.month.out")}


def quota(account: Account, window: Window) -> Iterator[AlertRaised]:
    """A week or month reached its threshold, or its ceiling. What is spent at once is not warned of as well."""
    plan, wallet = account.plan, account.wallet
    if plan is None or wallet is None or plan.cycle != window.cycle or window.kind not in _TOLD:
        return
    ceiling = dict(limited(plan)).get(window.kind)
    if ceiling is None or window.spent:
        return
    warn, out = _TOLD[window.kind]
    kind = ""
    if window.used >= ceiling:
        window.spent = window.warned = True
        kind = out
    elif not window.warned and window.used * 100 >= wallet.alert_pct * ceiling:
        window.warned = True
        kind = warn
    if kind:
        yield AlertRaised(
            account_id=account.id,
            kind=kind,
            subject=f"{window.cycle}:{window.kind}:{window.idx}",
            used_micro_idr=window.used,
            limit_micro_idr=ceiling,
            resets_at_ms=window.cycle + (window.idx + 1) * LENGTHS_MS[window.kind - 1],
        )


def low_balance(account: Account) -> Iterator[AlertRaised]:
    """The balance fell below the owner's threshold (0: no alert); a top-up to it arms the alert again."""
    wallet = account.wallet
    if wallet is None or not wallet.low_armed or wallet.balance >= wallet.low_threshold or not wallet.low_threshold:
        return
    wallet.low_armed = False
    yield AlertRaised(
        account_id=account.id,
        kind="wallet.low",
        used_micro_idr=wallet.balance,
        limit_micro_idr=wallet.low_threshold,
    )


def key_cap(account: Account, key: KeySpend, *, refused: bool) -> Iterator[AlertRaised]:
    """A key's caps are used up, or leave too little for the request they refused."""
    if key.hit or not (refused or (key.spend_cap and key.spent >= key.spend_cap)):
        return
    key.hit = key.changed = True
    yield AlertRaised(
        account_id=account.id,
        kind="key.cap.hit",
        subject=key.key,
        used_micro_idr=key.spent,
        limit_micro_idr=key.spend_cap,
    )


def member_cap(account: Account, member: MemberSpend, now_ms: int) -> Iterator[AlertRaised]:
    """A member's cap refused a request; not told again within the cap's 30 days."""
    if now_ms < member.alerted_until_ms:
        return
    member.alerted_until_ms = now_ms + CYCLE_MS
    member.changed = True
    yield AlertRaised(
        account_id=account.id,
        kind="member.cap.hit",
        subject=member.member,
        used_micro_idr=member.spent,
        limit_micro_idr=member.cap or 0,
    )
