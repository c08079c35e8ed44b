"""Jobs that are paid when accepted: what becomes of their money when they are done, or come to nothing.

Called by funding_rpc.py. Accepting one goes through the queues like a reservation; these calls are rare and take the
account's lock for themselves (contract: Videos; ledger rule R46).
"""

from typing import Any

from libs.core.clock import Clock
from libs.db.database import Database
from services.ledger.books import Opened, Wanted
from services.ledger.domain import paid_jobs
from services.ledger.domain.calls import Charged, Complete, Refund, Refunded, RefusedError, request_ms
from services.ledger.domain.effects import Effects
from services.ledger.domain.state import Hold
from services.ledger.store import post, put_state

_DAY_MS = 86_400_000


class Charges:
    """Ends paid jobs, each once; raise InvalidCallError, RefusedError (unknown_hold, already_finished) or
    DatabaseAwayError."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def complete(self, call: Complete) -> Charged:
        """The job is done: its price is earned and its usage row written."""
        call.check()

        def work(opened: Opened, effects: Effects) -> Charged:
            hold = _job(opened, call)
            duplicate = hold.state == "settled"
            if not duplicate:
                _posted(hold)
                paid_jobs.complete(hold, call, effects)
            wallet = opened.account(call.account_id).wallet
            return Charged(hold.amount, wallet.available if wallet is not None else 0, duplicate)

        async with self._database.transaction() as conn:
            return await post(conn, _wanted(call), work)

    async def refund(self, call: Refund) -> Refunded:
        """The job came to nothing: every bucket gets back what it paid, and it counts as never spent."""
        call.check()
        async with self._database.transaction() as conn:
            paid = await conn.fetch(
                "select debit, amount from transfer where request_id = $1 and line = $2 and kind = 'charge'",
                call.request_id,
                call.line,
            )
            buckets = {row["debit"]: row["amount"] for row in paid}

            def work(opened: Opened, effects: Effects) -> tuple[Refunded, Hold | None]:
                hold = _job(opened, call)
                if hold.state == "refunded":
                    return Refunded(hold.amount, duplicate=True), None
                _posted(hold)
                account = opened.account(call.account_id)
                paid_jobs.refund(account, hold, call, (buckets.get(2, 0), buckets.get(1, 0)), effects)
                return Refunded(hold.amount, duplicate=False), hold

            refunded, hold = await post(conn, _wanted(call), work)
            if hold is not None:
                await _forget_spending(conn, hold)
                await put_state(conn, call.account_id, self._clock.now_ms())
            return refunded


def _wanted(call: Complete | Refund) -> Wanted:
    ref = (request_ms(call.request_id) // _DAY_MS, call.request_id, call.line)
    return Wanted([call.account_id], [], [ref], [], [], [])


def _job(opened: Opened, call: Complete | Refund) -> Hold:
    hold: Hold | None = opened.holds.get((call.request_id, call.line))
    if hold is None or hold.account_id != call.account_id:
        raise RefusedError("there is no such job", reason="unknown_hold")
    return hold


def _posted(hold: Hold) -> None:
    if hold.state != "posted":
        raise RefusedError(f"the job is {hold.state} already", reason="already_finished")


async def _forget_spending(conn: Any, hold: Hold) -> None:
    """Take a refunded charge out of what the rolling limits see: out of all marks made after it."""
    scopes = [hold.account_id]
    if hold.member_id:
        scopes.append(f"{hold.account_id}/{hold.member_id}")
    await conn.execute(
        "update spend_mark set cum_before = cum_before - $2 where scope_id = any($1) and minute > $3",
        scopes,
        hold.amount,
        hold.created_ms // 60_000,
    )
