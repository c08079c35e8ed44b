"""Between the model's questions and answers and the ledger's messages.

Used by ledger.py.
"""

from typing import Any

from kenari.ledger.v1 import funding_pb2, ledger_pb2

from tests.money.model.answers import Charged, Denied, Granted, Redirect, Settled
from tests.money.model.facts import Ask, Plan
from tests.money.model.settling import Report

_FUNDINGS = {
    "order": ledger_pb2.FUNDING_ORDER,
    "balance": ledger_pb2.FUNDING_BALANCE,
    "free": ledger_pb2.FUNDING_FREE,
    "own_key": ledger_pb2.FUNDING_OWN_KEY,
}
_OUTCOMES = {
    "completed": ledger_pb2.OUTCOME_COMPLETED,
    "client_closed": ledger_pb2.OUTCOME_CLIENT_CLOSED,
    "interrupted": ledger_pb2.OUTCOME_INTERRUPTED,
}
_VENDOR = "Simulated"


def reserve(ask: Ask) -> Any:
    caps = ask.caps
    return ledger_pb2.ReserveRequest(
        request_id=ask.ref[0],
        line=ask.ref[1],
        account_id=ask.account,
        key_id=ask.key,
        endpoint=ask.endpoint,
        model=ask.model,
        vendor=_VENDOR,
        price_version=ask.price.version,
        estimated_input_tokens=ask.est_input,
        max_tokens=ask.max_tokens,
        request_hash=b"question",
        member_id=ask.member,
        funding=_FUNDINGS[ask.funding],
        key_caps=ledger_pb2.KeyCaps(
            spend_micro_idr=caps.spend, tokens=caps.tokens, period=caps.period, epoch=caps.epoch
        ),
        subscribers_only=ask.subscribers_only,
        units=ask.units,
        shared_key=ask.shared,
    )


def settle(ask: Ask, kind: str, report: Report, descriptor: str, now_ms: int) -> Any:
    used = report.used
    return ledger_pb2.SettleRequest(
        request_id=ask.ref[0],
        line=ask.ref[1],
        account_id=ask.account,
        key_id=ask.key,
        endpoint=ask.endpoint,
        model=ask.model,
        vendor=_VENDOR,
        price_version=ask.price.version,
        billing_kind=kind,
        outcome=_OUTCOMES[report.outcome],
        prompt_tokens=used.prompt,
        completion_tokens=used.completion,
        cached_tokens=used.cached,
        cache_write_tokens=used.written,
        units=used.units,
        descriptor=descriptor,
        started_at_ms=now_ms,
    )


def reserved(message: Any) -> Granted | Denied | Redirect:
    outcome = message.WhichOneof("outcome")
    if outcome == "redirect":
        return Redirect()
    if outcome == "denied":
        return denied(message.denied)
    granted = message.granted
    return Granted(
        kind=granted.billing_kind,
        max_tokens=granted.max_tokens,
        lowered=granted.lowered,
        hold=granted.hold_micro_idr,
        available=granted.available_micro_idr,
        plan_left={one.window: one.hundredths for one in granted.plan_left} if granted.plan_active else None,
    )


def denied(message: Any) -> Denied:
    return Denied(message.status, message.code, message.available_micro_idr, message.worst_case_micro_idr)


def settled(message: Any) -> Settled:
    return Settled(
        message.cost_micro_idr,
        message.catalog_micro_idr,
        message.available_micro_idr,
        message.duplicate,
        message.conflict,
    )


def charged(message: Any) -> Charged | Denied:
    if message.WhichOneof("outcome") == "denied":
        return denied(message.denied)
    told = message.charged
    return Charged(told.cost_micro_idr, told.available_micro_idr, told.duplicate)


def plan(plan: Plan) -> Any:
    return funding_pb2.Plan(
        plan_id=plan.plan_id,
        name=plan.plan_id.title(),
        price_micro_idr=plan.price,
        five_hour_micro_idr=plan.ceilings.get("five_hour"),
        week_micro_idr=plan.ceilings.get("week"),
        month_micro_idr=plan.ceilings.get("month"),
        models=plan.models,
        free_cache=plan.free_cache,
        daily_searches=plan.daily_searches,
        on_sale=plan.on_sale,
    )
