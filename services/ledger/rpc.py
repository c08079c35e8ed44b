"""The ledger on the wire: check streams, unary calls, reads. Refusals for want of money are answers.

Called by the edge (streams, reads), by whoever credits accounts, and by people looking into one request.
"""

from collections.abc import AsyncIterator
from typing import Any

from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from libs.core.money import Micros
from libs.ops.telemetry import Telemetry
from libs.ops.tracing import current_traceparent
from libs.rpc.checks import Ask, CheckServer
from services.ledger import messages
from services.ledger.domain.calls import Credit, Release
from services.ledger.job import Answer, Call, Job
from services.ledger.reads import Reads
from services.ledger.service import Ledger

NAME = "kenari.ledger.v1.Ledger"


class AskedJob(Job):
    """A call from a check stream."""

    __slots__ = ("_ask",)

    def __init__(self, call: Call, ask: Ask) -> None:
        super().__init__(call, ask.traceparent)
        self._ask = ask

    def done(self, answer: Answer) -> None:
        self._ask.answer(messages.answer_message(answer))

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
        return await self._run(messages.reserve(request))  # type: ignore[no-any-return]

    async def Settle(self, request: ledger_pb2.SettleRequest, context: Any) -> ledger_pb2.SettleResponse:
        return await self._run(messages.settle(request))  # type: ignore[no-any-return]

    async def Release(self, request: ledger_pb2.ReleaseRequest, context: Any) -> ledger_pb2.ReleaseResponse:
        return await self._run(messages.release(request))  # type: ignore[no-any-return]

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
        page = await self._reads.usage.log(messages.log_query(request))
        return ledger_pb2.UsageLogResponse(rows=[messages.usage_row(row) for row in page.rows], total=page.total)

    async def UsageSummary(
        self, request: ledger_pb2.UsageSummaryRequest, context: Any
    ) -> ledger_pb2.UsageSummaryResponse:
        rows = await self._reads.usage.summary(messages.usage_query(request))
        return ledger_pb2.UsageSummaryResponse(rows=[messages.model_usage(row) for row in rows])

    async def UsageDaily(self, request: ledger_pb2.UsageDailyRequest, context: Any) -> ledger_pb2.UsageDailyResponse:
        days = await self._reads.usage.daily(messages.usage_query(request))
        return ledger_pb2.UsageDailyResponse(days=[messages.day_usage(day) for day in days])

    async def UsageRow(self, request: ledger_pb2.UsageRowRequest, context: Any) -> ledger_pb2.UsageRowResponse:
        Release(request.request_id, 0, request.account_id).check()
        row = await self._reads.usage.row(request.account_id, request.key_id, request.request_id)
        return ledger_pb2.UsageRowResponse(row=None if row is None else messages.usage_row(row))

    async def GetRequest(self, request: ledger_pb2.GetRequestRequest, context: Any) -> ledger_pb2.GetRequestResponse:
        Release(request.request_id, 0, "-").check()
        books = await self._reads.request(request.request_id)
        return ledger_pb2.GetRequestResponse(
            holds=[messages.hold_row(row) for row in books.holds],
            usage=[messages.usage_row(row) for row in books.usage],
            transfers=[messages.transfer_row(row) for row in books.transfers],
        )

    async def _handle(self, asks: list[Ask]) -> None:
        # Nothing is awaited: whatever a message brought is in the queues before the next batch starts.
        for ask in asks:
            self._ledger.submit(AskedJob(messages.call(ask.kind, ask.question), ask))

    async def _run(self, call: Call) -> Any:
        return messages.answer_message(await self._ledger.run(call, current_traceparent()))
