"""The real ledger as the model sees it: its RPCs with the model's types, and one account's state as plain values.

Used by pair.py; made by conftest.py. Refusals come out as the model's RefusedError with the ledger's reason.
"""

from typing import Any

from kenari.ledger.v1 import funding_pb2, ledger_pb2

from libs.core.errors import KenariError
from libs.events.base import decode
from libs.events.ledger import AlertRaised
from services.ledger import invariants, messages
from services.ledger.funding_rpc import FundingRpc
from services.ledger.jobs import Jobs, Renewals
from services.ledger.rpc import LedgerRpc
from services.ledger.service import Ledger
from tests.money import wire
from tests.money.clock import StoppedClock
from tests.money.model.answers import Charged, Denied, Ended, Granted, Redirect, RefusedError, Released, Settled
from tests.money.model.facts import Ask, KeySlot, Plan, Ref
from tests.money.model.settling import Report


class RealLedger:
    """One ledger process with a clock in the test's hands."""

    def __init__(
        self,
        ledger: Ledger,
        services: tuple[LedgerRpc, FundingRpc],
        jobs: Jobs,
        renewals: Renewals,
        clock: StoppedClock,
        admin: Any,
    ) -> None:
        self._ledger = ledger
        self._services = services
        self.jobs = jobs
        self.renewals = renewals
        self.clock = clock
        self.admin = admin
        self.ttl: dict[Ref, int] = {}
        self._descriptors: dict[Ref, str] = {}

    async def call(self, name: str, message: Any) -> Any:
        """One RPC, whoever answers it."""
        try:
            return await getattr(next(one for one in self._services if hasattr(one, name)), name)(message, None)
        except KenariError as error:
            raise RefusedError(error.reason) from error

    async def credit(self, account: str, amount: int, kind: str, key: str) -> int:
        call = ledger_pb2.CreditRequest(account_id=account, amount_micro_idr=amount, idempotency_key=key, kind=kind)
        return int((await self.call("Credit", call)).balance_micro_idr)

    async def reserve(self, ask: Ask) -> Granted | Denied | Redirect:
        message = await self.call("Reserve", wire.reserve(ask))
        if message.HasField("granted"):
            self._descriptors[ask.ref] = message.granted.descriptor
            self.ttl[ask.ref] = message.granted.ttl_ms
        return wire.reserved(message)

    async def settle(self, ask: Ask, kind: str, report: Report) -> Settled:
        call = wire.settle(ask, kind, report, self._descriptors.get(ask.ref, ""), self.clock.now_ms())
        return wire.settled(await self.call("Settle", call))

    async def hear(self, told: list[tuple[Ask, str, Report]]) -> None:
        """Settlements as they come from the bus, in that order."""
        now = self.clock.now_ms()
        calls = [
            messages.settle(wire.settle(ask, kind, report, self._descriptors.get(ask.ref, ""), now))
            for ask, kind, report in told
        ]
        await self._ledger.settle_all([(call, "") for call in dict.fromkeys(calls)])

    async def release(self, account: str, ref: Ref) -> Released:
        call = ledger_pb2.ReleaseRequest(request_id=ref[0], line=ref[1], account_id=account, reason="test")
        return Released((await self.call("Release", call)).released)

    async def touch(self, refs: list[Ref]) -> list[Ref]:
        call = ledger_pb2.TouchRequest(holds=[ledger_pb2.HoldRef(request_id=ref[0], line=ref[1]) for ref in refs])
        return [(gone.request_id, gone.line) for gone in (await self.call("Touch", call)).gone]

    async def charge(self, ask: Ask) -> Charged | Denied:
        return wire.charged(await self.call("Charge", funding_pb2.ChargeRequest(job=wire.reserve(ask))))

    async def complete(self, account: str, ref: Ref) -> Ended:
        call = funding_pb2.CompleteChargeRequest(request_id=ref[0], line=ref[1], account_id=account, vendor="Simulated")
        told = await self.call("CompleteCharge", call)
        return Ended(told.cost_micro_idr, told.duplicate)

    async def refund(self, account: str, ref: Ref) -> Ended:
        call = funding_pb2.RefundRequest(request_id=ref[0], line=ref[1], account_id=account, reason="failed")
        told = await self.call("Refund", call)
        return Ended(told.refunded_micro_idr, told.duplicate)

    async def put_plan(self, plan: Plan) -> None:
        await self.call("PutPlan", funding_pb2.PutPlanRequest(plan=wire.plan(plan)))

    async def state(self, account: str, slots: list[KeySlot]) -> dict[str, Any]:
        """Everything the reads tell about an account, and how its wallet is split."""
        balance = await self.call("GetBalance", ledger_pb2.GetBalanceRequest(account_id=account))
        funding = await self.call("GetFunding", funding_pb2.GetFundingRequest(account_id=account))
        wallet = await self.admin.fetchrow(
            "select paid, bonus, paid_in_total from wallet where account_id = $1", account
        )
        return {
            "balance": (balance.balance_micro_idr, balance.reserved_micro_idr, balance.available_micro_idr),
            "wallet": tuple(wallet) if wallet else (0, 0, 0),
            **_funding(funding),
            "keys": [await self._key(account, slot) for slot in slots],
        }

    async def alerts(self, account: str) -> list[str]:
        """Kinds of the alerts raised for an account, oldest first."""
        rows = await self.admin.fetch("select body from outbox where key = $1 order by id", account)
        events = [decode(row["body"]) for row in rows]
        return [event.data["kind"] for event in events if event.type == AlertRaised.TYPE]

    async def lose(self, account: str) -> None:
        """Undo the only reservation of an account that is open, as a failover does that lost its transaction."""
        await self.admin.execute("delete from hold where account_id = $1 and state = 'open'", account)
        for table in ("wallet", "member_spend", "plan_window", "coupon", "token_alloc", "search_allowance"):
            await self.admin.execute(f"update {table} set reserved = 0 where account_id = $1", account)
        await self.admin.execute(
            "update key_spend set reserved = 0, tokens_reserved = 0 where account_id = $1", account
        )

    async def broken(self) -> dict[str, list[Any]]:
        """The invariants of the books that do not hold, with the rows that break them."""
        rows = {one.name: await self.admin.fetch(one.breaks) for one in invariants.ALL}
        return {name: found for name, found in rows.items() if found}

    async def usage(self, account: str) -> dict[Ref, tuple[int, int]]:
        """Cost and list value of every usage row of an account."""
        rows = await self.admin.fetch(
            "select request_id, line, cost, catalog from usage_row where account_id = $1", account
        )
        return {(row["request_id"].hex, row["line"]): (row["cost"], row["catalog"]) for row in rows}

    async def _key(self, account: str, slot: KeySlot) -> tuple[int, int, int, int]:
        """Spent, reserved, tokens, tokens reserved; 0 for what the key has no cap of."""
        caps = slot.caps
        told = await self.call(
            "GetKeyUsage",
            funding_pb2.GetKeyUsageRequest(
                account_id=account,
                key_id=slot.key,
                caps=ledger_pb2.KeyCaps(
                    spend_micro_idr=caps.spend, tokens=caps.tokens, period=caps.period, epoch=caps.epoch
                ),
            ),
        )
        spend = (told.spent_micro_idr, told.spend_reserved_micro_idr) if caps.spend else (0, 0)
        tokens = (told.tokens, told.tokens_reserved) if caps.tokens else (0, 0)
        return *spend, *tokens


def _funding(told: Any) -> dict[str, Any]:
    chosen, sub = told.settings, told.subscription
    limit = chosen.payg_limit
    return {
        "settings": (chosen.keep_balance, chosen.free_fallback),
        "limit": (limit.amount_micro_idr, limit.window) if chosen.HasField("payg_limit") else None,
        "payg_spent": told.payg_spent_micro_idr if chosen.HasField("payg_limit") else 0,
        "plan": (sub.plan_id, sub.source, sub.started_at_ms, sub.ends_at_ms, sub.active, sub.auto_renew)
        if told.HasField("subscription")
        else None,
        "windows": {
            one.window: (one.ceiling_micro_idr, one.used_micro_idr, one.reserved_micro_idr, one.resets_at_ms)
            for one in (sub.windows if sub.active else ())
        },
        "searches": (sub.daily_searches, sub.searches_used),
        "coupons": {one.coupon_id: one.used_micro_idr for one in told.coupons},
        "allocations": {one.allocation_id: one.used for one in told.token_allocations},
        "members": {one.member_id: (one.cap_micro_idr, one.spent_micro_idr) for one in told.member_caps},
    }
