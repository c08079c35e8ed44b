"""What a finished request costs and where that is taken from (R6, R20, R22, R28-R30, A10-A12, A17, A18).

Called by book.py.
"""

from dataclasses import dataclass

from tests.money.model import sums
from tests.money.model.answers import Settled
from tests.money.model.endpoints import is_empty, list_value, net_value
from tests.money.model.facts import Account, Hold, Row
from tests.money.model.prices import Used


@dataclass(frozen=True)
class Report:
    """A settlement as reported: what was used, and how it ended (completed, client_closed, interrupted)."""

    used: Used
    outcome: str = "completed"


def settle(account: Account, hold: Hold, report: Report, now: int, *, charge_interrupted: bool = False) -> Settled:
    """The first settlement stands; the same again is a duplicate, another (or one after a release) a conflict."""
    ref = hold.ask.ref
    row = account.rows.get(ref)
    if row is not None:
        same = row.said == report
        return Settled(row.cost, row.catalog, _shown(account, hold), duplicate=same, conflict=not same)
    if hold.state == "released":
        return Settled(0, 0, _shown(account, hold), conflict=True)
    row = _row(hold, report, now, charge_interrupted)
    hold.state = "settled"
    row.from_bonus = burn(account, row.cost)
    account.rows[ref] = row
    return Settled(row.cost, row.catalog, _shown(account, hold))


def _row(hold: Hold, report: Report, now: int, charge_interrupted: bool) -> Row:
    ask, used, kind = hold.ask, report.used, hold.source.kind
    broken = report.outcome == "interrupted" and not charge_interrupted
    if broken or is_empty(ask, used):
        return Row(hold, report, now, cost=0, catalog=0, saved=0, net=0, tokens=0)
    catalog = list_value(ask, used)
    net = net_value(ask, used, free_cache=hold.source.free_cache)
    return Row(
        hold,
        report,
        now,
        cost=net if kind == "payg" else 0,
        catalog=catalog,
        saved=catalog - net,
        net=net,
        tokens=used.prompt + used.completion,
    )


def _shown(account: Account, hold: Hold) -> int:
    return 0 if hold.source.kind in ("free", "byok") else sums.available(account)


def burn(account: Account, amount: int) -> int:
    """Take money from the wallet, bonus first; return the part that was bonus."""
    from_bonus = min(account.bonus, amount)
    account.bonus -= from_bonus
    account.paid -= amount - from_bonus
    return from_bonus


def give_back(account: Account, amount: int, from_bonus: int) -> None:
    """Put money back where it was taken from."""
    account.bonus += from_bonus
    account.paid += amount - from_bonus
