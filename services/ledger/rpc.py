"""The ledger on the wire: check streams, unary calls, reads. Refusals for want of money are answers.

Called by the edge (streams, reads), by whoever credits accounts, and by people looking into one request.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from libs.core.money import Micros
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from libs.rpc.checks import Ask, CheckServer
from services.ledger.domain.calls import (
    Credit,
    Granted,
    Release,
    Released,
    Reserve,
    Settle,
    Settled,
)
from services.ledger.job import Answer, Call, Job
from services.ledger.reads import LogQuery, Reads
from services.ledger.service import Ledger

NAME = "kenari.ledger.v1.Ledger"

_OUTCOMES = {
    ledger_pb2.OUTCOME_COMPLETED: "completed",
    ledger_pb2.OUTCOME_CLIENT_CLOSED: "client_closed",
    ledger_pb2.OUTCOME_INTERRUPTED: "interrupted",
}
_BUCKETS = {
    1: "paid",
    2: "bonus",
    10: "usage_revenue",
    20: "payment_clearing",
    30: "promotion_expense",
}


class AskedJob(Job):
    """A call from a check stream."""

    __slots__ = ("_ask",)

    def __init__(self, call: Call, ask: Ask) -> None:
        super().__init__(call, ask.traceparent)
        self._ask = ask

    def done(self, answer: Answer) -> None:
        self._ask.answer(_message(answer))

    def fail(self, reason: str) -> None:
        self._ask.fail(reason)

    def expired(self) -> bool:
        return self._ask.expired()


class LedgerRpc(ledger_pb2_grpc.LedgerServicer):
    """Servicer of ``kenari.ledger.v1.Ledger``."""

    def __init__(self, ledger: Ledger, reads: Reads, telemetry: Telemetry) -> None:
        self._ledger = ledger
        self._reads = reads
        self._checks = CheckServer(ledger_pb2.CheckReplies, ledger_pb2.CheckReply, self._handle, telemetry)

    async def CheckStream(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # type: ignore[override]
        await self._checks.serve(request_iterator, context)

    async def Reserve(self, request: ledger_pb2.ReserveRequest, context: Any) -> ledger_pb2.ReserveResponse:
        return await self._run(_reserve(request))  # type: ignore[no-any-return]

    async def Settle(self, request: ledger_pb2.SettleRequest, context: Any) -> ledger_pb2.SettleResponse:
        return await self._run(_settle(request))  # type: ignore[no-any-return]

    async def Release(self, request: ledger_pb2.ReleaseRequest, context: Any) -> ledger_pb2.ReleaseResponse:
        return await self._run(_release(request))  # type: ignore[no-any-return]

    async def Touch(self, request: ledger_pb2.TouchRequest, context: Any) -> ledger_pb2.TouchResponse:
        refs = [(hold.request_id, hold.line) for hold in request.holds]
        for request_id, line in refs:
            # A reference is checked like the call that would end it.
            Release(request_id, line, "-").check()
        gone = await self._ledger.touch(refs)
        return ledger_pb2.TouchResponse(gone=[ledger_pb2.HoldRef(request_id=ref[0], line=ref[1]) for ref in gone])

    async def Credit(self, request: ledger_pb2.CreditRequest, context: Any) -> ledger_pb2.CreditResponse:
        outcome = await self._ledger.credit(
            Credit(
                request.account_id,
                Micros(request.amount_micro_idr),
                request.idempotency_key,
                request.kind,
                request.note,
            )
        )
        return ledger_pb2.CreditResponse(balance_micro_idr=outcome.balance, duplicate=outcome.duplicate)

    async def GetBalance(self, request: ledger_pb2.GetBalanceRequest, context: Any) -> ledger_pb2.GetBalanceResponse:
        balance = await self._reads.balance(request.account_id)
        return ledger_pb2.GetBalanceResponse(
            balance_micro_idr=balance.balance,
            reserved_micro_idr=balance.reserved,
            available_micro_idr=balance.available,
        )

    async def UsageLog(self, request: ledger_pb2.UsageLogRequest, context: Any) -> ledger_pb2.UsageLogResponse:
        page = await self._reads.usage_log(
            LogQuery(
                request.account_id,
                request.start,
                request.end,
                request.model,
                request.key_id,
                request.billing_kind,
                request.page,
                request.limit,
            )
        )
        return ledger_pb2.UsageLogResponse(rows=[_usage_row(row) for row in page.rows], total=page.total)

    async def GetRequest(self, request: ledger_pb2.GetRequestRequest, context: Any) -> ledger_pb2.GetRequestResponse:
        Release(request.request_id, 0, "-").check()
        books = await self._reads.request(request.request_id)
        return ledger_pb2.GetRequestResponse(
            holds=[_hold_row(row) for row in books.holds],
            usage=[_usage_row(row) for row in books.usage],
            transfers=[_transfer_row(row) for row in books.transfers],
        )

    async def _handle(self, asks: list[Ask]) -> None:
        # Nothing is awaited: whatever a message brought is in the queues before the next batch starts.
        for ask in asks:
            self._ledger.submit(AskedJob(_CALLS[ask.kind](ask.question), ask))

    async def _run(self, call: Call) -> Any:
        return _message(await self._ledger.run(call, current_traceparent()))


def _reserve(request: Any) -> Reserve:
    return Reserve(
        request.request_id,
        request.line,
        request.account_id,
        request.key_id,
        request.endpoint,
        request.model,
        request.price_version,
        request.estimated_input_tokens,
        request.max_tokens,
        request.request_hash,
    )


def _settle(request: Any) -> Settle:
    return Settle(
        request.request_id,
        request.line,
        request.account_id,
        request.key_id,
        request.endpoint,
        request.model,
        request.vendor,
        request.price_version,
        request.billing_kind,
        _OUTCOMES.get(request.outcome, ""),
        request.prompt_tokens,
        request.completion_tokens,
        request.cached_tokens,
        request.cache_write_tokens,
        request.estimated,
        request.descriptor,
        request.started_at_ms,
    )


def _release(request: Any) -> Release:
    return Release(request.request_id, request.line, request.account_id)


_CALLS: dict[str, Any] = {"reserve": _reserve, "settle": _settle, "release": _release}


def _message(answer: Answer) -> Any:
    if isinstance(answer, Granted):
        granted = ledger_pb2.Granted(
            billing_kind=answer.billing_kind,
            max_tokens=answer.max_tokens,
            lowered=answer.lowered,
            hold_micro_idr=answer.hold,
            ttl_ms=answer.ttl_ms,
            descriptor=answer.descriptor,
            available_micro_idr=answer.available,
        )
        return ledger_pb2.ReserveResponse(granted=granted)
    if isinstance(answer, Settled):
        return ledger_pb2.SettleResponse(
            cost_micro_idr=answer.cost,
            catalog_micro_idr=answer.catalog,
            available_micro_idr=answer.available,
            duplicate=answer.duplicate,
            conflict=answer.conflict,
        )
    if isinstance(answer, Released):
        return ledger_pb2.ReleaseResponse(released=answer.released)
    denied = ledger_pb2.Denied(
        status=answer.status,
        code=answer.code,
        message=answer.message,
        available_micro_idr=answer.available,
        worst_case_micro_idr=answer.worst_case,
    )
    return ledger_pb2.ReserveResponse(denied=denied)


def _usage_row(row: Any) -> ledger_pb2.UsageRow:
    return ledger_pb2.UsageRow(
        request_id=row["request_id"].hex,
        line=row["line"],
        created_at=int(row["created_at"].timestamp()),
        model=row["model"],
        vendor=row["vendor"],
        key_id=row["key_id"],
        billing_kind=row["billing_kind"],
        endpoint=row["endpoint"],
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        cached_tokens=row["cached_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        cost_micro_idr=row["cost"],
        catalog_micro_idr=row["catalog"],
    )


def _hold_row(row: Any) -> ledger_pb2.HoldRow:
    return ledger_pb2.HoldRow(
        line=row["line"],
        state=row["state"],
        amount_micro_idr=row["amount"],
        cost_micro_idr=row["cost"] or 0,
        max_tokens=row["max_tokens"],
        created_at_ms=_ms(row["created_at"]),
        expires_at_ms=_ms(row["expires_at"]),
        price_version=row["price_version"],
        account_id=row["account_id"],
    )


def _transfer_row(row: Any) -> ledger_pb2.TransferRow:
    return ledger_pb2.TransferRow(
        kind=row["kind"],
        seq=row["seq"],
        debit=_side(row["account_id"], row["debit"]),
        credit=_side(row["account_id"], row["credit"]),
        amount_micro_idr=row["amount"],
        booked_at_ms=_ms(row["booked_at"]),
    )


def _side(account_id: str, number: int) -> str:
    name = _BUCKETS[number]
    return f"{account_id}:{name}" if number < 10 else name


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
