"""What an account of a running kenari pays with beside money: plans, coupons, tokens, caps; and a hand on the clock.
Used by the end-to-end tests and fault cases of money.
"""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
from kenari.accounts.v1 import accounts_pb2
from kenari.ledger.v1 import funding_pb2

from libs.core.settings import KafkaSettings
from libs.events import topics
from libs.events.base import EventData
from libs.kafka.reading import read_to_end
from tests.support.system import Person, System

E = TypeVar("E", bound=EventData)
RUPIAH = 1_000_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Purse:
    """The funds of one account. Amounts are micro-Rupiah, but where a name says otherwise."""

    system: System
    person: Person

    def put_plan(self, plan_id: str = "", **fields: Any) -> str:
        """Sell a plan (without ceilings, for ``fx-oai``, unless told otherwise) or change one; return its id."""
        plan_id = plan_id or f"plan_{secrets.token_hex(4)}"
        usual: dict[str, Any] = {
            "name": plan_id,
            "models": ["fx-oai"],
            "price_micro_idr": 50_000 * RUPIAH,
            "on_sale": True,
        }
        plan = funding_pb2.Plan(plan_id=plan_id, **(usual | fields))
        with self.system.funds() as funds:
            funds.PutPlan(funding_pb2.PutPlanRequest(plan=plan), timeout=10)
        return plan_id

    def give_plan(self, source: str = "granted", days: int = 30, **fields: Any) -> str:
        """Sell a plan and give it to the account; return its id."""
        plan_id = self.put_plan(**fields)
        self.grant(plan_id, source, days)
        return plan_id

    def grant(self, plan_id: str, source: str = "granted", days: int = 30, paid: int = 0) -> None:
        request = funding_pb2.GrantPlanRequest(
            account_id=self.person.account_id,
            plan_id=plan_id,
            idempotency_key=secrets.token_hex(8),
            source=source,
            days=days,
            paid_micro_idr=paid,
        )
        with self.system.funds() as funds:
            funds.GrantPlan(request, timeout=10)

    def buy(self, plan_id: str, *, new_cycle: bool = False) -> int:
        """Buy a plan from the balance; return what was paid."""
        request = funding_pb2.PurchasePlanRequest(
            account_id=self.person.account_id,
            plan_id=plan_id,
            idempotency_key=secrets.token_hex(8),
            new_cycle=new_cycle,
        )
        with self.system.funds() as funds:
            return int(funds.PurchasePlan(request, timeout=10).paid_micro_idr)

    def auto_renew(self) -> None:
        request = funding_pb2.SetAutoRenewRequest(account_id=self.person.account_id, auto_renew=True)
        with self.system.funds() as funds:
            funds.SetAutoRenew(request, timeout=10)

    def coupon(
        self, budget: int | None, name: str = "Welcome", days: int = 7, models: tuple[str, ...] = ("fx-oai",)
    ) -> None:
        request = funding_pb2.GrantCouponRequest(
            account_id=self.person.account_id,
            idempotency_key=secrets.token_hex(8),
            name=name,
            models=models,
            budget_micro_idr=budget,
            expires_at_ms=_in_days(days),
        )
        with self.system.funds() as funds:
            funds.GrantCoupon(request, timeout=10)

    def tokens(self, count: int, *models: str) -> None:
        request = funding_pb2.GrantTokensRequest(
            account_id=self.person.account_id,
            idempotency_key=secrets.token_hex(8),
            models=models,
            tokens=count,
            expires_at_ms=_in_days(7),
        )
        with self.system.funds() as funds:
            funds.GrantTokens(request, timeout=10)

    def choose(self, *, payg: tuple[int, str] | None = None, **settings: Any) -> None:
        """Change settings of the account; ``payg`` is a limit and its window."""
        limit = funding_pb2.PaygLimit(amount_micro_idr=payg[0], window=payg[1]) if payg else None
        request = funding_pb2.SetFundingRequest(account_id=self.person.account_id, payg_limit=limit, **settings)
        with self.system.funds() as funds:
            funds.SetFunding(request, timeout=10)

    def cap_member(self, member_id: str, cap: int | None) -> None:
        request = funding_pb2.SetMemberCapRequest(
            account_id=self.person.account_id, member_id=member_id, cap_micro_idr=cap
        )
        with self.system.funds() as funds:
            funds.SetMemberCap(request, timeout=10)

    def member(self) -> Person:
        """A new member of the account, with a key of their own."""
        with self.system.accounts() as accounts:
            for role in (accounts_pb2.ROLE_OWNER, accounts_pb2.ROLE_MEMBER):
                email = f"p{secrets.token_hex(6)}@example.com"
                made = accounts.CreatePerson(accounts_pb2.CreatePersonRequest(email=email, name="Ann"), timeout=10)
                joins = accounts_pb2.AddMemberRequest(
                    account_id=self.person.account_id, person_id=made.person.person_id, role=role
                )
                accounts.AddMember(joins, timeout=10)
        return self.key(member_id=made.person.person_id)

    def key(self, **fields: Any) -> Person:
        """One more key of the account; ``fields`` are those of CreateKeyRequest."""
        with self.system.accounts() as accounts:
            request = accounts_pb2.CreateKeyRequest(account_id=self.person.account_id, label="other", **fields)
            made = accounts.CreateKey(request, timeout=10)
        return Person(self.person.account_id, made.key.key_id, made.secret)

    def read(self) -> funding_pb2.GetFundingResponse:
        """Everything the account can pay with."""
        with self.system.funds() as funds:
            request = funding_pb2.GetFundingRequest(account_id=self.person.account_id)
            answer: funding_pb2.GetFundingResponse = funds.GetFunding(request, timeout=10)
            return answer

    def windows(self) -> dict[str, tuple[int, int]]:
        """Used and reserved of each window of the plan that has a ceiling."""
        found = self.read().subscription.windows
        return {one.window: (one.used_micro_idr, one.reserved_micro_idr) for one in found}

    def later(self, ms: int) -> None:
        """Let plan, coupons, tokens and spending of the account be that much older."""
        account, minutes = self.person.account_id, ms // 60_000
        for change in (
            "plan_sub set cycle = cycle - $2, ends_ms = ends_ms - $2",
            "plan_window set cycle = cycle - $2",
            "hold set cycle = cycle - $2",
            "coupon set ends_ms = ends_ms - $2",
            "token_alloc set ends_ms = ends_ms - $2",
        ):
            self.sql(f"update {change} where account_id = $1", account, ms)
        for table in ("wallet", "member_spend"):
            self.sql(f"update {table} set mark_minute = mark_minute - $2 where account_id = $1", account, minutes)
        self.sql("update spend_mark set minute = minute - $2 where split_part(scope_id, '/', 1) = $1", account, minutes)

    def sql(self, statement: str, *values: Any) -> None:
        """Change the ledger's database as its superuser."""
        asyncio.run(_execute(f"{self.system.postgres.dsn().rpartition('/')[0]}/ledger", statement, values))

    def told(self, kind: type[E]) -> list[E]:
        """The account's events of that type on the ledger's topic, in order."""
        events = asyncio.run(_read(self.system.kafka.address))
        return [
            kind.model_validate(data)
            for type, data in events
            if type == kind.TYPE and data["account_id"] == self.person.account_id
        ]


async def _execute(dsn: str, statement: str, values: tuple[Any, ...]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def _read(bootstrap: str) -> list[tuple[str, dict[str, Any]]]:
    read = read_to_end(KafkaSettings(bootstrap=bootstrap), (topics.LEDGER_ENTRIES,), 0)
    return [(received.envelope.type, received.envelope.data) async for received in read]


def _in_days(days: int) -> int:
    return time.time_ns() // 1_000_000 + days * DAY_MS
