"""Between the books' rows and the state the rules work on: what open_books reads, what close_books is given.

Called by posting.py and charges.py inside one transaction. All JSON of those two functions is made and read here; its
fields are those of the tables (migrations/0007_open_close.sql).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from libs.core.clock import rfc3339
from libs.core.ids import uuid7_hex
from libs.events.base import Envelope, encode, envelope
from libs.events.ledger import UsageSettled
from libs.events.topics import LEDGER_ENTRIES
from libs.ops.tracing import current_traceparent
from services.ledger.domain.effects import Effects, UsageRow
from services.ledger.domain.state import (
    Account,
    Allocation,
    Allowance,
    Coupon,
    Hold,
    KeySpend,
    MemberSpend,
    Plan,
    Wallet,
    Window,
)

SOURCE = "ledger"
OPEN = "select * from open_books($1, $2, $3, $4, $5, $6, $7, $8, $9)"
"""Takes what ``Wanted.arguments`` gives."""
CLOSE = "select close_books({})".format(", ".join(f"${number}" for number in range(1, 15)))
"""Takes what ``close_arguments`` gives."""

Ref = tuple[str, int]


class Wanted(msgspec.Struct):
    """What a batch has to see. ``calls`` are (day since 1970, request, line); ``settles`` positions in it from 1.

    ``create``: accounts that get a wallet if they have none; ``lost``: holds to be made again before looking.
    """

    paying: list[str]
    create: list[str]
    calls: list[tuple[int, str, int]]
    settles: list[int]
    keys: list[str]
    members: list[str]
    lost: Sequence[Hold] = ()

    def arguments(self) -> tuple[Any, ...]:
        days, requests, lines = zip(*self.calls, strict=True) if self.calls else ((), (), ())
        lost = [_hold_row(hold, rfc3339(hold.created_ms)) for hold in self.lost]
        made = msgspec.json.encode(lost).decode() if lost else None
        return self.paying, self.create, days, requests, lines, self.settles, self.keys, self.members, made


class SettledRow(msgspec.Struct, gc=False):
    """What stands in the books for a request that was settled before."""

    request_id: str
    line: int
    account_id: str
    cost: int
    catalog: int
    settle_hash: str


class _CumFrom(msgspec.Struct):
    account: str
    cum_from: int | None


class Opened:
    """The books as a transaction sees them, its accounts' wallets locked."""

    def __init__(self, row: Any) -> None:
        self.now_ms: int = row["now_ms"]
        self.accounts: dict[str, Account] = {}
        self.holds = {_ref(hold): hold for hold in _rows(row["holds"], list[Hold])}
        self.settled = {_ref(one): one for one in _rows(row["settled"], list[SettledRow])}
        for hold in self.holds.values():
            hold.request_id, hold.request_hash = _hex(hold.request_id), _hex(hold.request_hash)
        for one in self.settled.values():
            one.settle_hash = _hex(one.settle_hash)
        self._fill(row)

    def account(self, account_id: str) -> Account:
        found = self.accounts.get(account_id)
        if found is None:
            found = self.accounts[account_id] = Account(account_id)
        return found

    def _fill(self, row: Any) -> None:
        for wallet in _rows(row["wallets"], list[Wallet]):
            self.account(wallet.account).wallet = wallet
        for plan in _rows(row["plans"], list[Plan]):
            self.account(plan.account).plan = plan
        for window in _rows(row["windows"], list[Window]):
            self.account(window.account).windows[window.cycle, window.kind, window.idx] = window
        for coupon in _rows(row["coupons"], list[Coupon]):
            self.account(coupon.account).coupons.append(coupon)
        for allocation in _rows(row["allocations"], list[Allocation]):
            self.account(allocation.account).allocations.append(allocation)
        for allowance in _rows(row["allowances"], list[Allowance]):
            self.account(allowance.account).allowances[allowance.day] = allowance
        for key in _rows(row["keys"], list[KeySpend]):
            self.account(key.account).keys[key.key, key.epoch, key.starts] = key
        for member in _rows(row["members"], list[MemberSpend]):
            self.account(member.account).members[member.member] = member
        for limit in _rows(row["limits"], list[_CumFrom]):
            wallet_of = self.account(limit.account).wallet
            assert wallet_of is not None
            wallet_of.cum_from = limit.cum_from


def close_arguments(opened: Opened, effects: Effects) -> tuple[str | None, ...] | None:
    """What the batch changed, as ``CLOSE`` takes it; None when it changed nothing."""
    now = rfc3339(opened.now_ms)
    accounts = opened.accounts.values()
    wallets = [one.wallet for one in accounts if one.wallet is not None and one.wallet.changed]
    parts: tuple[list[Any], ...] = (
        [_hold_row(hold, now) for hold in effects.holds],
        [
            {"day": h.day, "request_id": h.request_id, "line": h.line, "state": h.state, "cost": h.cost}
            for h in effects.ended
        ],
        [_usage_row(row) for row in effects.usage],
        [{**msgspec.structs.asdict(one), "booked_at": now} for one in effects.transfers],
        _events(effects, opened.now_ms, now),
        effects.conflicts,
        [mark for one in accounts for mark in one.marks],
        wallets,
        [_keyed(window) for one in accounts for window in one.windows.values() if window.changed],
        [coupon for one in accounts for coupon in one.coupons if coupon.changed],
        [allocation for one in accounts for allocation in one.allocations if allocation.changed],
        [_keyed(day) for one in accounts for day in one.allowances.values() if day.changed],
        [{**_keyed(key), "key_id": key.key} for one in accounts for key in one.keys.values() if key.changed],
        [
            {**_keyed(member), "member_id": member.member, "mark_minute": member.mark}
            for one in accounts
            for member in one.members.values()
            if member.changed
        ],
    )
    if not any(parts):
        return None
    return tuple(msgspec.json.encode(part).decode() if part else None for part in parts)


def _rows(text: str | None, kind: Any) -> Any:
    return msgspec.json.decode(text, type=kind) if text is not None else ()


def _hex(uuid: str) -> str:
    return uuid.replace("-", "")


def _ref(row: Hold | SettledRow) -> Ref:
    return _hex(row.request_id), row.line


def _keyed(row: msgspec.Struct) -> dict[str, Any]:
    values = msgspec.structs.asdict(row)
    values["account_id"] = values["account"]
    return values


def _hold_row(hold: Hold, now: str) -> dict[str, Any]:
    values = msgspec.structs.asdict(hold)
    values["created_at"] = now
    values["expires_at"] = rfc3339(hold.expires_ms)
    return values


def _usage_row(row: UsageRow) -> dict[str, Any]:
    values = msgspec.structs.asdict(row)
    values["created_at"] = rfc3339(row.started_ms)
    return values


def _events(effects: Effects, now_ms: int, now: str) -> list[dict[str, str]]:
    told = [_event(row.account_id, _settled(row, now), row.trace) for row in effects.usage]
    trace = current_traceparent() if effects.events else ""
    for account_id, data in effects.events:
        event = encode(envelope(data, source=SOURCE, subject=account_id, now_ms=now_ms))
        told.append(_event(account_id, event, trace))
    return told


def _event(account_id: str, body: bytes, trace: str) -> dict[str, str]:
    return {"topic": LEDGER_ENTRIES.name, "key": account_id, "body": body.decode(), "trace": trace}


def _settled(row: UsageRow, now: str) -> bytes:
    # Not through the model: checking what was just priced here would cost more than all the rest of the event.
    data = {
        "request_id": row.request_id,
        "line": row.line,
        "account_id": row.account_id,
        "key_id": row.key_id,
        "model": row.model,
        "vendor": row.vendor,
        "endpoint": row.endpoint,
        "billing_kind": row.billing_kind,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cached_tokens": row.cached_tokens,
        "cache_write_tokens": row.cache_write_tokens,
        "cost_micro_idr": row.cost,
        "catalog_micro_idr": row.catalog,
        "cache_saved_micro_idr": row.cache_saved,
        "units": row.units,
        "member_id": row.member_id,
    }
    return encode(Envelope(uuid7_hex(), UsageSettled.TYPE, SOURCE, row.account_id, now, data))
