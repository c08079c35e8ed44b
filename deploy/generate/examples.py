"""One example per event type, made from its model and the values that its field names stand for.
Called by deploy.generate.contracts. A field without a value here stops the generator: give it one.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from libs.events.accounts import KeyChanged
from libs.events.base import Envelope, EventData, Heartbeat
from libs.events.edge import AttemptFinished
from libs.events.router import ModelPublished, Price, PriceLine, UpstreamHealth

_MOMENT_MS = 1_790_000_000_000
_TIME = "2026-09-21T14:13:20.000Z"
_REQUEST = "01a0c9b2d40070008000000000000001"

VALUES: Mapping[str, Any] = {
    "account_id": "acct_01a0c9b2d40070008000000000000002",
    "allowed_ips": [],
    "amount_micro_idr": 100_000_000_000,
    "attempt": 1,
    "attempts": 1,
    "balance_micro_idr": 100_000_000_000,
    "billing_kind": "payg",
    "cache_read": 105_000_000,
    "cache_write": 210_000_000,
    "cache_write_tokens": 0,
    "cache_saved_micro_idr": 0,
    "cached_tokens": 16,
    "cap_epoch": 0,
    "cap_period": "",
    "capabilities": [],
    "catalog_micro_idr": 1_450_000,
    "client_format": "openai_chat",
    "completion_tokens": 48,
    "context_length": 131_072,
    "cost_micro_idr": 1_450_000,
    "created_at_ms": _MOMENT_MS,
    "descriptor": "v1.eyJob2xkIjoxfQ.c2lnbmF0dXJl",
    "disabled": False,
    "duration_ms": 812,
    "endpoint": "chat",
    "ends_at_ms": _MOMENT_MS + 2_592_000_000,
    "endpoints": ["chat"],
    "error_code": None,
    "estimated": False,
    "expires_at_ms": 0,
    "first_byte_ms": 95,
    "free": False,
    "free_daily": None,
    "free_rpm": None,
    "free_token_budget": None,
    "id": "sim-1",
    "idempotency_key": "invoice-2026-0815",
    "input": 210_000_000,
    "input_modalities": ["text"],
    "key_hash": "5f2c8a1e9d3b4c6f7081a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7",
    "key_id": "key_01a0c9b2d40070008000000000000003",
    "label": "demo",
    "limit_micro_idr": 300_000_000_000,
    "line": 0,
    "market_input": None,
    "market_output": None,
    "max_input_tokens": 122_880,
    "max_output_tokens": 8_192,
    "media": None,
    "member_id": "",
    "model": "sim-1",
    "models": [],
    "name": "Sim 1",
    "output": 1_050_000_000,
    "output_modalities": ["text"],
    "output_tokens": 48,
    "paid_in_total_micro_idr": 100_000_000_000,
    "paid_micro_idr": 99_000_000_000,
    "parent_key_id": "",
    "pauses": 1,
    "plan": None,
    "plan_ends_at_ms": 0,
    "plan_free_daily": None,
    "plan_id": "plan_indie",
    "plan_name": "Indie",
    "prefix": "kn-984e1408",
    "price_version": "sim-1@1",
    "prompt_tokens": 21,
    "reason": "rate_limited",
    "reasoning": False,
    "reasoning_options": [],
    "reasoning_toggle": False,
    "ref": "demo-first-credit",
    "replaces_key_id": "",
    "request_id": _REQUEST,
    "requests_per_minute": 600,
    "resets_at_ms": _MOMENT_MS + 604_800_000,
    "retry_after_ms": None,
    "revision": None,
    "shared": False,
    "spend_cap_micro_idr": 0,
    "started_at_ms": _MOMENT_MS,
    "status": 200,
    "stream": True,
    "subject": "week:42",
    "subscribers_only": False,
    "successor": None,
    "sunset_at": None,
    "token_cap": 0,
    "tokens_per_minute": 0,
    "tool_call": True,
    "units": 0,
    "upcoming_price": None,
    "until_ms": _MOMENT_MS + 30_000,
    "upstream_id": "simulated/1",
    "used_micro_idr": 240_000_000_000,
    "vendor": "kenari",
    "version": 7,
    "price": Price(version="sim-1@1", input=210_000_000, output=1_050_000_000).model_dump(mode="json"),
    "price_lines": [
        PriceLine(endpoint="chat", billable="input", unit="1m_tokens", micro_idr=210_000_000).model_dump(mode="json")
    ],
}


# Whose order matters on the topic: the record's key. Elsewhere it is the account.
_SUBJECTS: Mapping[type[EventData], str] = {
    AttemptFinished: "upstream_id",
    UpstreamHealth: "upstream_id",
    KeyChanged: "key_id",
    ModelPublished: "id",
}


def example(model: type[EventData]) -> Envelope:
    """An event as it could lie on its topic; raises KeyError for a field that has no value here."""
    return Envelope(
        id="01a0c9b2d40070008000000000000009",
        type=model.TYPE,
        source="router" if model is Heartbeat else model.TYPE.split(".")[0],
        subject="heartbeat" if model is Heartbeat else str(VALUES[_SUBJECTS.get(model, "account_id")]),
        time=_TIME,
        data={name: _value(name, field) for name, field in model.model_fields.items()},
    )


def _value(name: str, field: FieldInfo) -> Any:
    if get_origin(field.annotation) is Literal:
        return get_args(field.annotation)[0]
    return VALUES[name]
