"""GET /v1/usage, /v1/usage/daily, /v1/usage/log and, beyond the contract, /v1/usage/log/{id} (contract: Usage)."""

import re
import time
from typing import Literal

from fastapi import APIRouter, Request
from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from pydantic import BaseModel

from services.edge.clients import LedgerClient
from services.edge.endpoints import usage_parameters as parameters
from services.edge.endpoints.reading import OwnCaller
from services.edge.errors import refuse
from services.edge.keys import Caller
from services.edge.limiter import Limiter

router = APIRouter()

_REQUEST_ID = re.compile(r"[0-9a-f]{12}7[0-9a-f]{19}")


class UsageCounters(BaseModel):
    """The seven counters. Amounts in micro-Rupiah."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    cache_write_prompt_tokens: int
    cost_micro_idr: int
    catalog_micro_idr: int


class ModelUsage(UsageCounters):
    """What was used of one model and paid one way."""

    model: str
    billing_kind: str


class UsageSummary(BaseModel):
    """The dearest model first."""

    object: Literal["usage.summary"] = "usage.summary"
    start: int
    end: int
    data: list[ModelUsage]
    total: UsageCounters


class DayUsage(BaseModel):
    """One UTC day. Amounts in micro-Rupiah."""

    date: str
    requests: int
    cost_micro_idr: int


class DailyUsage(BaseModel):
    """Every UTC day the window touches, oldest first."""

    object: Literal["usage.daily"] = "usage.daily"
    start: int
    end: int
    data: list[DayUsage]


class UsageEntry(BaseModel):
    """One request; ``id`` is its ``x-request-id``. Amounts in micro-Rupiah."""

    id: str
    created_at: int
    model: str
    vendor: str
    api_key_id: str | None
    billing_kind: str
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int
    cache_write_prompt_tokens: int
    cost_micro_idr: int
    catalog_micro_idr: int


class UsageLog(BaseModel):
    """A page of the log, newest first."""

    object: Literal["list"] = "list"
    start: int
    end: int
    data: list[UsageEntry]
    page: int
    limit: int
    has_more: bool
    total: int


@router.get("/v1/usage", summary="Read usage per model and billing kind")
async def read_usage(request: Request, caller: OwnCaller) -> UsageSummary:
    """Sums of the account, or of the key itself when it is restricted."""
    await _count_read(request, caller)
    given = parameters.first_values(request.query_params)
    window = parameters.resolve_days(given, int(time.time()))
    ledger: LedgerClient = request.app.state.ledger
    answer = await ledger.usage_summary(
        ledger_pb2.UsageSummaryRequest(
            account_id=caller.account_id,
            start=window.start,
            end=window.end,
            model=parameters.model(given),
            key_id=parameters.key_filter(caller, given),
        )
    )
    rows = [_model_usage(row) for row in answer.rows]
    return UsageSummary(start=window.start, end=window.end, data=rows, total=_total(rows))


@router.get("/v1/usage/daily", summary="Read usage per UTC day")
async def read_daily_usage(request: Request, caller: OwnCaller) -> DailyUsage:
    """The same per day; a day without use is a row of zeros."""
    await _count_read(request, caller)
    given = parameters.first_values(request.query_params)
    window = parameters.resolve_days(given, int(time.time()))
    ledger: LedgerClient = request.app.state.ledger
    answer = await ledger.usage_daily(
        ledger_pb2.UsageDailyRequest(
            account_id=caller.account_id,
            start=window.start,
            end=window.end,
            model=parameters.model(given),
            key_id=parameters.key_filter(caller, given),
        )
    )
    days = [DayUsage(date=day.date, requests=day.requests, cost_micro_idr=day.cost_micro_idr) for day in answer.days]
    return DailyUsage(start=window.start, end=window.end, data=days)


@router.get("/v1/usage/log", summary="Read single requests, newest first")
async def read_usage_log(request: Request, caller: OwnCaller) -> UsageLog:
    """The requests of the account, or of the key itself when it is restricted."""
    await _count_read(request, caller)
    given = parameters.first_values(request.query_params)
    window = parameters.resolve_window(given, int(time.time()))
    page, limit = parameters.paging(given)
    ledger: LedgerClient = request.app.state.ledger
    rows = await ledger.usage_log(
        ledger_pb2.UsageLogRequest(
            account_id=caller.account_id,
            start=window.start,
            end=window.end,
            model=parameters.model(given),
            key_id=parameters.key_filter(caller, given),
            billing_kind=parameters.billing_kind(given),
            page=page,
            limit=limit,
        )
    )
    return UsageLog(
        start=window.start,
        end=window.end,
        data=[_entry(row) for row in rows.rows],
        page=page,
        limit=limit,
        has_more=(page + 1) * limit < rows.total,
        total=rows.total,
    )


@router.get("/v1/usage/log/{request_id}", summary="Read a single request")
async def read_usage_row(request: Request, caller: OwnCaller, request_id: str) -> UsageEntry:
    """The row of one request of the account, or of the key itself when it is restricted; 404 for any other id."""
    await _count_read(request, caller)
    ledger: LedgerClient = request.app.state.ledger
    row = None
    if _REQUEST_ID.fullmatch(request_id):
        key_id = caller.key_id if caller.restricted else ""
        row = await ledger.usage_row(
            ledger_pb2.UsageRowRequest(account_id=caller.account_id, key_id=key_id, request_id=request_id)
        )
    if row is None:
        raise refuse(404, "not_found", "the usage log has no request with this id")
    return _entry(row)


async def _count_read(request: Request, caller: Caller) -> None:
    limiter: Limiter = request.app.state.limiter
    question = limiter_pb2.AdmitRequest(
        request_id=request.state.exchange.request_id,
        account_id=caller.account_id,
        subject=limiter_pb2.SUBJECT_USAGE_READ,
    )
    await limiter.ask(question).answer()


def _total(rows: list[ModelUsage]) -> UsageCounters:
    return UsageCounters(**{name: sum(getattr(row, name) for row in rows) for name in UsageCounters.model_fields})


def _model_usage(row: ledger_pb2.ModelUsage) -> ModelUsage:
    return ModelUsage(
        model=row.model,
        billing_kind=row.billing_kind,
        requests=row.requests,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        cached_prompt_tokens=row.cached_tokens,
        cache_write_prompt_tokens=row.cache_write_tokens,
        cost_micro_idr=row.cost_micro_idr,
        catalog_micro_idr=row.catalog_micro_idr,
    )


def _entry(row: ledger_pb2.UsageRow) -> UsageEntry:
    return UsageEntry(
        id=row.request_id,
        created_at=row.created_at,
        model=row.model,
        vendor=row.vendor,
        api_key_id=row.key_id or None,
        billing_kind=row.billing_kind,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        cached_prompt_tokens=row.cached_tokens,
        cache_write_prompt_tokens=row.cache_write_tokens,
        cost_micro_idr=row.cost_micro_idr,
        catalog_micro_idr=row.catalog_micro_idr,
    )
