"""Reads of the books for their owners: balance, everything about one request; ``usage`` is in usage_reads.py.

Called by rpc.py. Nothing here changes anything (contract: Account balance, Usage).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from libs.core.money import Micros
from libs.db.database import Database
from services.ledger.domain.calls import InvalidCallError, request_ms
from services.ledger.usage_reads import USAGE_COLUMNS, UsageReads


class Balance(msgspec.Struct, frozen=True):
    """``available`` is what a new request can reserve: never below 0, unlike the balance."""

    balance: Micros
    reserved: Micros
    available: Micros


class RequestBooks(msgspec.Struct, frozen=True):
    """All rows of one request."""

    holds: Sequence[Any]
    usage: Sequence[Any]
    transfers: Sequence[Any]


class Reads:
    """Reads from the ledger's database; raise DatabaseAwayError while it is away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.usage = UsageReads(database)

    async def balance(self, account_id: str) -> Balance:
        """An account the ledger has never heard of has nothing."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(
                "select paid + bonus as b, reserved as r from wallet where account_id = $1", account_id
            )
        balance, reserved = (row["b"], row["r"]) if row else (0, 0)
        return Balance(Micros(balance), Micros(reserved), Micros(max(0, balance - reserved)))

    async def request(self, request_id: str) -> RequestBooks:
        """Hold, usage row and transfers of one request."""
        try:
            day = datetime.fromtimestamp(request_ms(request_id) / 1000, UTC).date()
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidCallError("the request id is not a UUIDv7 in hex") from error
        async with self._database.transaction(isolation="repeatable_read", readonly=True) as conn:
            holds = await conn.fetch(
                "select line, state, amount, cost, max_tokens, created_at, expires_at, price_version, account_id,"
                " funding from hold where day = $1 and request_id = $2 order by line",
                day,
                request_id,
            )
            usage = await conn.fetch(
                f"select {USAGE_COLUMNS} from usage_row where day = $1 and request_id = $2 order by line",
                day,
                request_id,
            )
            transfers = await conn.fetch(
                "select kind, seq, account_id, debit, credit, amount, booked_at from transfer"
                " where day = $1 and request_id = $2 order by line, kind, seq",
                day,
                request_id,
            )
        return RequestBooks(holds, usage, transfers)
