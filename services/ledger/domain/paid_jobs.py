"""Jobs that take long are paid when they are accepted: earned when done, refunded when they came to nothing.

Called by services/ledger/batch.py and charges.py with the account's wallet locked (contract: Videos; ledger rule R46).
"""

from libs.core.money import Micros
from libs.events.ledger import Refunded
from services.ledger.domain import movements
from services.ledger.domain.calls import Complete, Refund
from services.ledger.domain.effects import Book, Effects, UsageRow
from services.ledger.domain.meters import Worth
from services.ledger.domain.state import Account, Hold


def accept(account: Account, hold: Hold, effects: Effects, now_ms: int) -> None:
    """Pay a job in full now; what is held of the balance becomes money in progress."""
    movements.lean(account, hold, -1)
    worth = Worth(Micros(hold.amount), Micros(hold.amount), 0)
    movements.consume(account, hold, worth, effects)
    movements.take(account, hold, hold.amount, "charge", Book.JOBS_IN_PROGRESS, effects, now_ms)
    hold.state, hold.cost = "posted", hold.amount
    effects.holds.append(hold)


def complete(hold: Hold, call: Complete, effects: Effects) -> None:
    """A paid job is done: its money is earned."""
    effects.move(hold, "complete", 0, Book.JOBS_IN_PROGRESS, Book.USAGE_REVENUE, hold.amount)
    _end_job(hold, call.vendor, hold.amount, "completed", effects)
    hold.state = "settled"


def refund(account: Account, hold: Hold, call: Refund, paid: tuple[int, int], effects: Effects) -> None:
    """A paid job came to nothing: ``paid`` (bonus, paid) goes back as it came, and counts as not spent."""
    wallet = account.wallet
    assert wallet is not None
    bonus, money = paid
    wallet.bonus += bonus
    wallet.paid += money
    wallet.cum -= hold.amount
    wallet.low_armed = wallet.low_armed or wallet.balance >= wallet.low_threshold
    wallet.changed = True
    if hold.member_id:
        member = account.member(hold.member_id)
        member.cum -= hold.amount
        member.changed = True
    if (key := account.key_of(hold)) is not None:
        key.spent -= hold.amount
        key.changed = True
    effects.move(hold, "refund", 0, Book.JOBS_IN_PROGRESS, Book.BONUS, bonus)
    effects.move(hold, "refund", 1, Book.JOBS_IN_PROGRESS, Book.PAID, money)
    effects.tell(
        account.id,
        Refunded(
            request_id=hold.request_id,
            line=hold.line,
            account_id=account.id,
            reason=call.reason,
            amount_micro_idr=hold.amount,
        ),
    )
    _end_job(hold, "", 0, call.reason, effects)
    hold.state = "refunded"


def _end_job(hold: Hold, vendor: str, cost: int, outcome: str, effects: Effects) -> None:
    """The usage row of a job, dated when it was accepted; a failed one is there at cost 0."""
    effects.ended.append(hold)
    effects.usage.append(
        UsageRow(
            day=hold.day,
            request_id=hold.request_id,
            line=hold.line,
            account_id=hold.account_id,
            key_id=hold.key_id,
            model=hold.model,
            vendor=vendor,
            endpoint=hold.endpoint,
            billing_kind="payg",
            outcome=outcome,
            estimated=False,
            prompt_tokens=0,
            completion_tokens=0,
            cached_tokens=0,
            cache_write_tokens=0,
            cost=cost,
            catalog=cost,
            settle_hash=hold.request_hash,
            started_ms=hold.created_ms,
            member_id=hold.member_id,
            cache_saved=0,
            units=hold.units,
            trace="",
        )
    )
