"""What accounts and ledger have said about an account, from their table topics. Read by service.py.

Answers from a table that lags are old, never absent: an account nobody has spoken of has the defaults.
"""

from typing import Protocol, TypeVar

from libs.core.money import Micros
from libs.events.accounts import SettingsChanged
from libs.events.ledger import AccountState
from services.limiter.domain import Standing

Row = TypeVar("Row", covariant=True)

_NOTHING = Standing(Micros(0))


class Rows(Protocol[Row]):
    """The part of a table cache that is used here."""

    def get(self, key: str) -> Row | None: ...


class TableFacts:
    """AccountFacts from ``accounts.settings.v1`` and ``ledger.states.v1``."""

    def __init__(self, settings: Rows[SettingsChanged], states: Rows[AccountState]) -> None:
        self._settings = settings
        self._states = states

    def requests_per_minute(self, account_id: str) -> int:
        row = self._settings.get(account_id)
        return row.requests_per_minute if row is not None else 0

    def standing(self, account_id: str, now_ms: int) -> Standing:
        """A plan counts until its end, whether or not its end has been told yet."""
        row = self._states.get(account_id)
        if row is None:
            return _NOTHING
        paid_in = Micros(row.paid_in_total_micro_idr)
        if row.plan is None or 0 < row.plan_ends_at_ms <= now_ms:
            return Standing(paid_in)
        return Standing(paid_in, has_plan=True, plan_daily=row.plan_free_daily)
