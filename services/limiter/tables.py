"""What accounts and ledger have said about an account, from their table topics. Read by service.py.

Answers from a table that lags are old, never absent: an account nobody has spoken of has the defaults.
"""

from typing import Protocol, TypeVar

from libs.core.money import Micros
from libs.events.accounts import SettingsChanged
from libs.events.ledger import AccountState

Row = TypeVar("Row", covariant=True)


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

    def paid_in(self, account_id: str) -> Micros:
        row = self._states.get(account_id)
        return Micros(row.paid_in_total_micro_idr if row is not None else 0)

    def has_plan(self, account_id: str) -> bool:
        row = self._states.get(account_id)
        return row is not None and row.plan is not None
