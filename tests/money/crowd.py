"""Sixty-four workers on a few accounts with plans, coupons, capped keys and members; they keep books of their own.

Used by test_crowds.py. Nothing is reported that is more than was held, so that no cap may ever be passed.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from kenari.ledger.v1 import ledger_pb2

from libs.core.clock import SystemClock
from libs.core.ids import uuid7_hex
from libs.db.database import Database
from services.ledger.funding_settings import Choice, FundingSettings, PlanTerms
from services.ledger.subscriptions import Subscriptions
from tests.service.ledger.traffic import INPUT, OUTPUT, PRICE, Clients

RUPIAH = 1_000_000
LEAST = 1_000
CREDIT = 900 * RUPIAH
KEY_SPEND = 60 * RUPIAH
KEY_TOKENS = 9_000
MEMBER = 45 * RUPIAH
CAPS = {
    "spend": ledger_pb2.KeyCaps(spend_micro_idr=KEY_SPEND),
    "tokens": ledger_pb2.KeyCaps(tokens=KEY_TOKENS),
    "open": ledger_pb2.KeyCaps(),
}


async def furnish(database: Database, accounts: list[str]) -> None:
    """A plan with a tight window, a coupon and a capped member for each account; the balance goes on after them."""
    chosen, grants = FundingSettings(database), Subscriptions(database, SystemClock())
    await chosen.put_plan(
        PlanTerms(
            plan_id="crowd",
            name="Crowd",
            price=0,
            five_hour=30 * RUPIAH,
            week=None,
            month=90 * RUPIAH,
            models=("sim-1",),
            free_cache=(),
            free_daily=None,
            daily_searches=0,
            on_sale=True,
        )
    )
    ends = SystemClock().now_ms() + 86_400_000
    for account in accounts:
        await grants.grant(account, "crowd", f"{account}-plan", "granted", 30, 0)
        await grants.grant_coupon(account, f"{account}-coupon", "Launch", ["sim-2"], 20 * RUPIAH, ends)
        await chosen.choose(account, Choice(keep_balance=True))
        await chosen.cap_member(account, "mem_a", MEMBER)


@dataclass(frozen=True)
class Done:
    """A settlement that was acknowledged."""

    account: str
    key: str
    member: str
    kind: str
    tokens: int
    value: int


class Crowd:
    """The workers and what they know to have happened."""

    def __init__(self, clients: Clients, accounts: list[str], dice: random.Random) -> None:
        self._clients = clients
        self._accounts = accounts
        self._dice = dice
        self.done: dict[str, Done] = {}
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()

    async def run(self, workers: int, seconds: float) -> None:
        """That long, and longer where a busy machine has not got through ``LEAST`` requests by then."""
        until = time.monotonic() + seconds
        await asyncio.gather(*(self._worker(until) for _ in range(workers)))

    async def _worker(self, until: float) -> None:
        while time.monotonic() < until or self.counts.total() < LEAST:
            hot = self._dice.random() < 0.7
            await self._request(self._dice.choice(self._accounts[:4] if hot else self._accounts))

    async def _request(self, account: str) -> None:
        capped = self._dice.choice(list(CAPS))
        call = ledger_pb2.ReserveRequest(
            request_id=uuid7_hex(),
            account_id=account,
            key_id=f"key_{account}_{capped}",
            endpoint="chat",
            model=self._dice.choice(("sim-1", "sim-1", "sim-2", "sim-3")),
            vendor="Simulated",
            price_version=PRICE,
            estimated_input_tokens=self._dice.randint(1, 100),
            max_tokens=self._dice.choice((50, 300, 2_000)),
            key_caps=CAPS[capped],
            member_id=self._dice.choice(("", "mem_a")),
        )
        answer = await self._clients.ask("reserve", call, 2.0)
        if answer is None or not answer.HasField("granted"):
            self.counts["unknown" if answer is None else answer.denied.code] += 1
            return
        granted = answer.granted
        self.counts[granted.billing_kind] += 1
        if granted.available_micro_idr < 0 or granted.max_tokens > call.max_tokens:
            self.wrong.append(f"{call.request_id} granted {granted}")
        await asyncio.sleep(self._dice.uniform(0, 0.03))
        way = self._dice.random()
        if way < 0.05:
            self.counts["abandoned"] += 1
        elif way < 0.15:
            release = ledger_pb2.ReleaseRequest(request_id=call.request_id, account_id=account)
            await self._clients.ask("release", release, 60.0)
        else:
            await self._settle(call, granted, again=way > 0.8)

    async def _settle(self, call: Any, granted: Any, *, again: bool) -> None:
        prompt = self._dice.randint(1, call.estimated_input_tokens)
        completion = self._dice.randint(0, granted.max_tokens)
        value = prompt * INPUT + completion * OUTPUT if completion else 0
        said = ledger_pb2.SettleRequest(
            request_id=call.request_id,
            account_id=call.account_id,
            key_id=call.key_id,
            endpoint=call.endpoint,
            model=call.model,
            vendor=call.vendor,
            price_version=PRICE,
            billing_kind=granted.billing_kind,
            outcome=ledger_pb2.OUTCOME_COMPLETED,
            prompt_tokens=prompt,
            completion_tokens=completion,
            descriptor=granted.descriptor,
            started_at_ms=int(time.time() * 1000),
        )
        cost = value if granted.billing_kind == "payg" else 0
        for _ in range(1 + again):
            answer = await self._clients.ask("settle", said, 120.0)
            if answer is None or answer.conflict or (answer.cost_micro_idr, answer.catalog_micro_idr) != (cost, value):
                self.wrong.append(f"{call.request_id} cost {cost} of {value}, answered {answer}")
        tokens = prompt + completion if completion else 0
        self.done[call.request_id] = Done(
            call.account_id, call.key_id, call.member_id, granted.billing_kind, tokens, value
        )

    def sums(self, *fields: str, kinds: tuple[str, ...], of: str = "value") -> dict[tuple[str, ...], int]:
        """Sums over what was acknowledged of those kinds, by the values of ``fields``."""
        found: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for one in self.done.values():
            if one.kind in kinds:
                found[tuple(getattr(one, field) for field in fields)] += getattr(one, of)
        return {key: amount for key, amount in found.items() if amount}
