"""The ledger's word on a request: who pays for it, how many tokens it carries, or why it must not run.

Called by admission. What may have been granted without an answer is given back (contract: How a chat request is
charged, Response headers).
"""

import time
from typing import Any

from kenari.ledger.v1 import ledger_pb2
from kenari.router.v1 import router_pb2

from libs.events.ledger import AccountState
from libs.kafka.table import Table
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.admitted import Asked
from services.edge.errors import RefusedError, refuse, unavailable
from services.edge.exchange import Header
from services.edge.keys import Caller
from services.edge.patience import ask_patiently
from services.edge.settings import EdgeSettings
from services.edge.settlement import Settlement


class Funds:
    """Asks the ledger. ``states`` tell whose plan is active, so that all others' free requests are spared asking."""

    def __init__(
        self,
        ledger: CheckClient,
        settlement: Settlement,
        states: Table[AccountState],
        settings: EdgeSettings,
    ) -> None:
        self._ledger = ledger
        self._settlement = settlement
        self._states = states
        self._settings = settings

    async def reserve(
        self, asked: Asked, model: router_pb2.Model, max_tokens: int, *, line: int = 0
    ) -> ledger_pb2.Granted | None:
        """The grant of a paid request; None when nothing is held because the free models are to serve it.

        Raise RefusedError: the ledger's refusal, or 503 when it does not answer.
        """
        return await self._ask(asked, _question(asked, model, max_tokens, ledger_pb2.FUNDING_ORDER, line))

    async def note_free(
        self, asked: Asked, model: router_pb2.Model, max_tokens: int, *, line: int = 0
    ) -> ledger_pb2.Granted | None:
        """What the ledger has to say of a free request: of a key with caps, or for the header of a plan's owner.

        None when there is nothing to ask. Without caps an answer that does not come changes nothing.
        """
        caller = asked.caller
        if caller.caps is None and not model.subscribers_only and not self._tells_of_plan(caller):
            return None
        question = _question(asked, model, max_tokens, ledger_pb2.FUNDING_FREE, line)
        try:
            return await self._ask(asked, question)
        except RefusedError:
            if caller.caps is None and not model.subscribers_only:
                return None
            raise

    def _tells_of_plan(self, caller: Caller) -> bool:
        if caller.restricted or caller.shared:
            return False
        state = self._states.get(caller.account_id)
        return state is not None and state.plan_ends_at_ms > time.time_ns() // 1_000_000

    async def _ask(self, asked: Asked, question: ledger_pb2.ReserveRequest) -> ledger_pb2.Granted | None:
        try:
            answer = await ask_patiently(
                self._ledger,
                "reserve",
                question,
                self._settings.reserve_timeout_s,
                self._settings.check_patience_s,
                asked.trace,
            )
        except BaseException as error:
            # Whether a hold was granted is not known then: it is given back either way.
            account_id, reason = asked.caller.account_id, "not known to be granted"
            self._settlement.release(asked.request_id, account_id, asked.trace, reason, line=question.line)
            if isinstance(error, CheckFailedError):
                raise unavailable("billing") from error
            raise
        if answer.HasField("denied"):
            raise _denied(answer.denied)
        return answer.granted if answer.HasField("granted") else None


def _question(
    asked: Asked, model: router_pb2.Model, max_tokens: int, funding: Any, line: int
) -> ledger_pb2.ReserveRequest:
    caller = asked.caller
    return ledger_pb2.ReserveRequest(
        request_id=asked.request_id,
        line=line,
        account_id=caller.account_id,
        key_id=caller.key_id,
        endpoint=asked.endpoint,
        model=model.id,
        vendor=model.vendor,
        price_version=model.price.version,
        estimated_input_tokens=asked.request.input_tokens,
        max_tokens=max_tokens,
        member_id=caller.member_id,
        funding=funding,
        key_caps=caller.caps,
        subscribers_only=model.subscribers_only,
        shared_key=caller.shared,
    )


def _denied(denied: ledger_pb2.Denied) -> RefusedError:
    refused = refuse(denied.status, denied.code, denied.message)
    if denied.code == "plan_limit_reached":
        # SDKs would otherwise try again at once.
        refused.headers = ((b"x-should-retry", b"false"),)
    return refused


def funds_headers(caller: Caller, granted: ledger_pb2.Granted | None) -> tuple[Header, ...]:
    """What a reply says of the money behind it, each only to whom it may be said."""
    if granted is None or caller.shared:
        return ()
    headers: tuple[Header, ...] = ()
    if granted.billing_kind == "payg":
        headers += ((b"x-kenari-balance-micro-idr", b"%d" % granted.available_micro_idr),)
    if granted.plan_left and not caller.restricted:
        left = ", ".join(
            f"{one.window}={one.hundredths // 100}.{one.hundredths % 100:02d}" for one in granted.plan_left
        )
        headers += ((b"x-kenari-plan-remaining", left.encode()),)
    return headers
