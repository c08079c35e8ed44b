"""GET /v1/usage/log (contract: Usage, Request log).

The window and paging rules are those of the contract's section "Window rules"; a wrong parameter is a 400 that
names it.
"""

import time
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter, Request
from kenari.ledger.v1 import ledger_pb2
from kenari.limiter.v1 import limiter_pb2
from pydantic import BaseModel

from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.clients import LedgerClient
from services.edge.endpoints.reading import OwnCaller
from services.edge.errors import RefusedError, refuse
from services.edge.keys import Caller

router = APIRouter()

_DAY_S = 86_400
_RANGES = {"24h": _DAY_S, "7d": 7 * _DAY_S, "30d": 30 * _DAY_S}
_KINDS = ("payg", "plan", "coupon", "token_alloc", "free", "byok")
_DEEPEST_ROW = 10_000
_LONGEST_NAME = 256
_LIMIT_TIMEOUT_S = 0.1


class UsageEntry(BaseModel):
    """One request. Amounts in micro-Rupiah."""

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


@dataclass(frozen=True)
class Window:
    """Unix seconds, both inclusive."""

    start: int
    end: int


@router.get("/v1/usage/log", summary="Read single requests, newest first")
async def read_usage_log(request: Request, caller: OwnCaller) -> UsageLog:
    """The requests of the account, or of the key itself when it is restricted."""
    await _count_read(request, caller)
    query = request.query_params
    window = resolve_window({name: query.getlist(name)[0] for name in query}, int(time.time()))
    page, limit = _paging(query.get("page"), query.get("limit"))
    kind = query.get("billing_kind") or ""
    if kind and kind not in _KINDS:
        raise _bad("billing_kind", f"billing_kind must be one of {', '.join(_KINDS)}")
    ledger: LedgerClient = request.app.state.ledger
    rows = await ledger.usage_log(
        ledger_pb2.UsageLogRequest(
            account_id=caller.account_id,
            start=window.start,
            end=window.end,
            model=_name("model", query.get("model")),
            key_id=_key_filter(caller, _name("api_key_id", query.get("api_key_id"))),
            billing_kind=kind,
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


def resolve_window(given: dict[str, str], now: int) -> Window:
    """The window of ``start``, ``end`` and ``range``; raise RefusedError naming the wrong one."""
    start, end = _integer(given, "start"), _integer(given, "end")
    if start is None and end is None:
        return _preset(given.get("range", "30d"), now)
    resolved_end = min(end, now) if end is not None else now
    resolved_start = start if start is not None else max(0, resolved_end - _RANGES["30d"])
    if resolved_start > resolved_end:
        raise _bad("start", "start must not be after end")
    return Window(resolved_start, resolved_end)


def _preset(name: str, now: int) -> Window:
    if name == "today":
        return Window(now - now % _DAY_S, now)
    if name not in _RANGES:
        raise _bad("range", "range must be one of today, 24h, 7d, 30d")
    return Window(now - _RANGES[name], now)


def _integer(given: dict[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise _bad(name, f"{name} must be an integer")
    if text.startswith("-"):
        raise _bad(name, f"{name} must not be negative")
    return int(text)


def _paging(page_text: str | None, limit_text: str | None) -> tuple[int, int]:
    page = _integer({} if page_text is None else {"page": page_text}, "page") or 0
    limit = 50
    if limit_text is not None:
        # A limit outside 1 to 200 moves to the nearest bound, a negative one too.
        wanted = _integer({"limit": limit_text.removeprefix("-")}, "limit") or 0
        limit = min(200, max(1, -wanted if limit_text.startswith("-") else wanted))
    if page * limit > _DEEPEST_ROW:
        raise _bad("page", f"page times limit must not be above {_DEEPEST_ROW:,}; narrow the window instead")
    return page, limit


def _name(parameter: str, given: str | None) -> str:
    if given is None:
        return ""
    # The ledger's database cannot even compare a text with a zero byte.
    if "\0" in given or len(given) > _LONGEST_NAME:
        raise _bad(parameter, f"{parameter} must be at most {_LONGEST_NAME} characters, none of them a zero byte")
    return given


def _key_filter(caller: Caller, asked: str) -> str:
    if not caller.restricted:
        return asked
    if asked and asked != caller.key_id:
        raise _bad("api_key_id", "a restricted key reads only its own usage")
    return caller.key_id


async def _count_read(request: Request, caller: Caller) -> None:
    limiter: CheckClient = request.app.state.limiter
    question = limiter_pb2.AdmitRequest(
        request_id=request.state.exchange.request_id,
        account_id=caller.account_id,
        subject=limiter_pb2.SUBJECT_USAGE_READ,
    )
    try:
        answer = await limiter.ask("admit", question, _LIMIT_TIMEOUT_S)
    except CheckFailedError:
        # Reading is harmless: without a limiter it goes on.
        return
    if answer.HasField("refused"):
        message = "too many usage reads for this account; wait a few seconds and retry"
        raise refuse(429, "rate_limit_exceeded", message)


def _bad(parameter: str, message: str) -> RefusedError:
    return refuse(400, "bad_request", message, kind="invalid_request_error", param=parameter)


def _entry(row: ledger_pb2.UsageRow) -> UsageEntry:
    return UsageEntry(
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
