"""Between the ledger's calls, answers and rows and its messages on the wire.

Called by rpc.py.
"""

from datetime import datetime
from typing import Any

from kenari.ledger.v1 import ledger_pb2

from services.ledger.domain.calls import (
    NO_CAPS,
    Denied,
    Granted,
    KeyCaps,
    Redirected,
    Release,
    Released,
    Reserve,
    Settle,
    Settled,
)
from services.ledger.domain.effects import Book
from services.ledger.job import Answer, Call
from services.ledger.usage_reads import DayUsage, LogQuery, UsageQuery

_OUTCOMES = {
    ledger_pb2.OUTCOME_COMPLETED: "completed",
    ledger_pb2.OUTCOME_CLIENT_CLOSED: "client_closed",
    ledger_pb2.OUTCOME_INTERRUPTED: "interrupted",
}
_FUNDING = {
    ledger_pb2.FUNDING_ORDER: "order",
    ledger_pb2.FUNDING_BALANCE: "balance",
    ledger_pb2.FUNDING_FREE: "free",
    ledger_pb2.FUNDING_OWN_KEY: "byok",
}


def key_caps(caps: ledger_pb2.KeyCaps) -> KeyCaps:
    """A key's caps; no caps are always the same object."""
    if not caps.spend_micro_idr and not caps.tokens:
        return NO_CAPS
    return KeyCaps(caps.spend_micro_idr, caps.tokens, caps.period, caps.epoch)


def reserve(request: Any, *, on_acceptance: bool = False) -> Reserve:
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
        request.member_id,
        _FUNDING.get(request.funding, ""),
        key_caps(request.key_caps) if request.HasField("key_caps") else NO_CAPS,
        request.subscribers_only,
        request.units,
        request.shared_key,
        on_acceptance,
    )


def settle(request: Any) -> Settle:
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
        request.units,
    )


def release(request: Any) -> Release:
    return Release(request.request_id, request.line, request.account_id)


def call(kind: str, question: Any) -> Call:
    """A question of a check stream as the ledger's call."""
    if kind == "reserve":
        return reserve(question)
    return settle(question) if kind == "settle" else release(question)


def usage_query(request: ledger_pb2.UsageSummaryRequest | ledger_pb2.UsageDailyRequest) -> UsageQuery:
    return UsageQuery(
        account_id=request.account_id,
        start=request.start,
        end=request.end,
        model=request.model,
        key_id=request.key_id,
    )


def log_query(request: ledger_pb2.UsageLogRequest) -> LogQuery:
    return LogQuery(
        account_id=request.account_id,
        start=request.start,
        end=request.end,
        model=request.model,
        key_id=request.key_id,
        billing_kind=request.billing_kind,
        page=request.page,
        limit=request.limit,
    )


def answer_message(answer: Answer) -> Any:
    if isinstance(answer, Granted):
        granted = ledger_pb2.Granted(
            billing_kind=answer.billing_kind,
            max_tokens=answer.max_tokens,
            lowered=answer.lowered,
            hold_micro_idr=answer.hold,
            ttl_ms=answer.ttl_ms,
            descriptor=answer.descriptor,
            available_micro_idr=answer.available,
            free_cache=answer.free_cache,
        )
        if answer.plan_left is not None:
            granted.plan_active = True
            for window, hundredths in answer.plan_left:
                granted.plan_left.add(window=window, hundredths=hundredths)
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
    if isinstance(answer, Redirected):
        return ledger_pb2.ReserveResponse(redirect=ledger_pb2.Redirect(reason=answer.reason))
    assert isinstance(answer, Denied)
    return ledger_pb2.ReserveResponse(denied=denied(answer))


def denied(answer: Denied) -> ledger_pb2.Denied:
    return ledger_pb2.Denied(
        status=answer.status,
        code=answer.code,
        message=answer.message,
        available_micro_idr=answer.available,
        worst_case_micro_idr=answer.worst_case,
    )


def usage_row(row: Any) -> ledger_pb2.UsageRow:
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
        member_id=row["member_id"],
        cache_saved_micro_idr=row["cache_saved"],
    )


def hold_row(row: Any) -> ledger_pb2.HoldRow:
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
        funding=row["funding"],
    )


def transfer_row(row: Any) -> ledger_pb2.TransferRow:
    return ledger_pb2.TransferRow(
        kind=row["kind"],
        seq=row["seq"],
        debit=_side(row["account_id"], row["debit"]),
        credit=_side(row["account_id"], row["credit"]),
        amount_micro_idr=row["amount"],
        booked_at_ms=_ms(row["booked_at"]),
    )


def _side(account_id: str, number: int) -> str:
    name = Book(number).name.lower()
    return f"{account_id}:{name}" if number < 10 else name


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def model_usage(row: Any) -> ledger_pb2.ModelUsage:
    return ledger_pb2.ModelUsage(
        model=row["model"],
        billing_kind=row["billing_kind"],
        requests=row["requests"],
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        cached_tokens=row["cached_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        cost_micro_idr=row["cost"],
        catalog_micro_idr=row["catalog"],
    )


def day_usage(day: DayUsage) -> ledger_pb2.DayUsage:
    return ledger_pb2.DayUsage(date=day.date, requests=day.requests, cost_micro_idr=day.cost)
