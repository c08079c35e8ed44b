"""Calls as the columns of one statement, and its answer as answers to the calls.

Called by posting.py only. The order of the columns is that of the function ``post_batch`` (migrations).
"""

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from libs.core.clock import rfc3339
from libs.core.errors import KenariError
from libs.core.ids import uuid7_hex
from libs.events.base import Envelope, encode
from libs.events.ledger import UsageSettled
from libs.events.topics import LEDGER_ENTRIES
from services.ledger.domain.calls import InvalidCallError, Release, Reserve, Settle, request_ms
from services.ledger.domain.charging import Charge, charge
from services.ledger.domain.pricing import WorstCase, worst_case
from services.ledger.job import Job

_DAY_MS = 86_400_000
_INT64 = 2**63 - 1
_NO_HASH = "0" * 32

_FINISH = (
    "int4",
    "uuid",
    "int4",
    "int2",
    "text",
    "text",
    "text",
    "text",
    "text",
    "text",
    "text",
    "text",
    "bool",
    "int4",
    "int4",
    "int4",
    "int4",
    "int8",
    "int8",
    "uuid",
    "int8",
    "text",
    "text",
)
_RESERVE = (
    "int8",
    "uuid",
    "int4",
    "text",
    "text",
    "text",
    "text",
    "text",
    "uuid",
    "int4",
    "int8",
    "int8",
    "int4",
    "int8",
    "int8",
)
_ACCOUNTS = ("text", "text", "int4", "int4")

POST = "select * from post_batch({}, $5, $6, $7, {})".format(
    ", ".join(f"${n}::text::{kind}[]" for n, kind in enumerate(_ACCOUNTS, 1)),
    ", ".join(f"${n}::text::{kind}[]" for n, kind in enumerate(_FINISH + _RESERVE, 8)),
)
"""Takes what ``Batch.columns`` gives."""


class Finished(IntEnum):
    """What became of a settle or release (``out_f_status``)."""

    DONE = 1
    BEFORE = 2
    CONFLICT = 3
    NO_HOLD = 4
    OTHER_ACCOUNT = 5
    OTHER_PRICE = 6
    NOTHING = 7


class Reserved(IntEnum):
    """What became of a reservation (``out_r_status``)."""

    GRANTED = 1
    BEFORE = 2
    NO_FUNDS = 3
    PAYG_LIMIT = 4
    FINISHED = 5
    OTHER_CONTENT = 6
    ID_TIME = 7


class Batch:
    """One transaction's worth of calls, grouped by account; finishes and reserves stand as in the statement.

    Calls that do not fit the books' integers are in ``unfit`` with the reason and take no part.
    """

    def __init__(self, jobs: Sequence[Job], *, charge_interrupted: bool) -> None:
        self.finishes: list[Job] = []
        self.reserves: list[Job] = []
        self.charges: list[Charge | None] = []
        self.worst: list[WorstCase] = []
        self.unfit: list[tuple[Job, KenariError]] = []
        self._finish_rows: list[tuple[Any, ...]] = []
        self._reserve_rows: list[tuple[Any, ...]] = []
        self._accounts: list[str] = []
        self._paying: list[str] = []
        self._finish_end: list[int] = []
        self._reserve_end: list[int] = []
        self._now = rfc3339(time.time_ns() // 1_000_000)
        self._charge_interrupted = charge_interrupted
        self._build(jobs)

    def columns(self, ttl_ms: int, id_window_ms: int) -> tuple[Any, ...]:
        """The arguments of ``POST``."""
        lists: tuple[list[Any], ...] = (self._accounts, self._paying, self._finish_end, self._reserve_end)
        return (
            *(literal(column, kind) for column, kind in zip(lists, _ACCOUNTS, strict=True)),
            LEDGER_ENTRIES.name,
            ttl_ms,
            id_window_ms,
            *_literals(self._finish_rows, _FINISH),
            *_literals(self._reserve_rows, _RESERVE),
        )

    def _build(self, jobs: Sequence[Job]) -> None:
        by_account: dict[str, list[Job]] = {}
        for job in jobs:
            by_account.setdefault(job.call.account_id, []).append(job)
        for account in sorted(by_account):
            paying = False
            for job in by_account[account]:
                try:
                    paying |= self._add(job)
                except InvalidCallError as error:
                    self.unfit.append((job, error))
            self._accounts.append(account)
            if paying:
                self._paying.append(account)
            self._finish_end.append(len(self.finishes))
            self._reserve_end.append(len(self.reserves))

    def _add(self, job: Job) -> bool:
        """Add one call's row; return whether it concerns its account's wallet."""
        call = job.call
        if isinstance(call, Settle):
            self._add_settle(job, call)
            return call.billing_kind == "payg"
        if isinstance(call, Reserve):
            self._add_reserve(job, call)
        else:
            self._add_release(job, call)
        return True

    def _add_settle(self, job: Job, call: Settle) -> None:
        assert job.price is not None
        charged = charge(call, job.price, charge_interrupted=self._charge_interrupted)
        if charged.catalog > _INT64:
            raise InvalidCallError("the charge is out of range")
        ms = request_ms(call.request_id)
        self._finish_rows.append(
            (
                ms // _DAY_MS,
                call.request_id,
                call.line,
                2 if job.create else 1,
                call.account_id,
                call.key_id,
                call.endpoint,
                call.model,
                call.vendor,
                job.price.version,
                call.billing_kind,
                call.outcome,
                call.estimated,
                call.prompt_tokens,
                call.completion_tokens,
                call.cached_tokens,
                call.cache_write_tokens,
                charged.cost,
                charged.catalog,
                call.content_hash(),
                call.started_at_ms or ms,
                self._event(call, charged),
                job.trace,
            )
        )
        self.finishes.append(job)
        self.charges.append(charged)

    def _add_release(self, job: Job, call: Release) -> None:
        self._finish_rows.append(
            (
                request_ms(call.request_id) // _DAY_MS,
                call.request_id,
                call.line,
                0,
                call.account_id,
                "",
                "",
                "",
                "",
                "",
                "",
                "",
                False,
                0,
                0,
                0,
                0,
                0,
                0,
                _NO_HASH,
                0,
                "",
                "",
            )
        )
        self.finishes.append(job)
        self.charges.append(None)

    def _add_reserve(self, job: Job, call: Reserve) -> None:
        assert job.price is not None
        worst = worst_case(job.price, call.input_tokens, call.max_tokens)
        if worst.full > _INT64:
            raise InvalidCallError("the hold is out of range")
        self._reserve_rows.append(
            (
                request_ms(call.request_id),
                call.request_id,
                call.line,
                call.account_id,
                call.key_id,
                call.endpoint,
                call.model,
                call.price_version,
                call.content_hash(),
                call.max_tokens,
                worst.full,
                worst.least,
                call.input_tokens,
                worst.input_price,
                job.price.output,
            )
        )
        self.reserves.append(job)
        self.worst.append(worst)

    def _event(self, call: Settle, charged: Charge) -> str:
        data = {
            "request_id": call.request_id,
            "line": call.line,
            "account_id": call.account_id,
            "key_id": call.key_id,
            "model": call.model,
            "vendor": call.vendor,
            "endpoint": call.endpoint,
            "billing_kind": call.billing_kind,
            "prompt_tokens": call.prompt_tokens,
            "completion_tokens": call.completion_tokens,
            "cached_tokens": call.cached_tokens,
            "cache_write_tokens": call.cache_write_tokens,
            "cost_micro_idr": charged.cost,
            "catalog_micro_idr": charged.catalog,
        }
        return encode(Envelope(uuid7_hex(), UsageSettled.TYPE, "ledger", call.account_id, self._now, data)).decode()


def literal(values: Sequence[Any], kind: str) -> str:
    """An array as PostgreSQL writes it. The driver's own encoding of arrays takes ten times as long."""
    if kind != "text":
        return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"
    if not values:
        return "{}"
    joined = "\n".join(values)
    if '"' in joined or "\\" in joined:
        values = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(values) + '"}'


def _literals(rows: list[tuple[Any, ...]], kinds: tuple[str, ...]) -> list[str]:
    if not rows:
        return ["{}"] * len(kinds)
    return [literal(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
