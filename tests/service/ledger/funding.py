"""What tests give accounts beside money: plans, coupons, tokens, caps; and a hand on the database's idea of time."""

from typing import Any, TypeVar

from kenari.ledger.v1 import funding_pb2

from libs.core.clock import SystemClock
from libs.events.base import EventData, decode
from services.ledger.charges import Charges
from services.ledger.funding_messages import funding, terms
from services.ledger.funding_reads import FundingReads
from services.ledger.funding_settings import FundingSettings
from services.ledger.subscriptions import Subscriptions
from tests.service.ledger.conftest import Books, reserve, settle

RUPIAH = 1_000_000
DAY_MS = 86_400_000
E = TypeVar("E", bound=EventData)


class Funds:
    """The ledger's funding calls on the books of a test."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.charges = Charges(books.database, SystemClock())
        self.subscriptions = Subscriptions(books.database, SystemClock())
        self.settings = FundingSettings(books.database)
        self.reads = FundingReads(books.database)

    async def plan(self, plan_id: str = "plan_a", price: int = 100 * RUPIAH, **more: Any) -> None:
        """Put a plan that lists sim-1, on sale, without ceilings unless told."""
        values: dict[str, Any] = {"name": plan_id, "models": ["sim-1"], "on_sale": True, "price_micro_idr": price}
        await self.settings.put_plan(terms(funding_pb2.Plan(plan_id=plan_id, **(values | more))))

    async def buy(self, account: str, plan_id: str = "plan_a", key: str = "buy-1", **more: Any) -> Any:
        return await self.subscriptions.purchase(account, plan_id, key, **more)

    async def grant(self, account: str, plan_id: str = "plan_a", source: str = "granted", key: str = "grant-1") -> Any:
        return await self.subscriptions.grant(account, plan_id, key, source, 30, 0)

    async def of(self, account: str) -> funding_pb2.GetFundingResponse:
        """All the account can pay with, as its owner reads it."""
        read: funding_pb2.GetFundingResponse = funding(await self.reads.funding(account))
        return read

    async def later(self, account: str, ms: int) -> None:
        """Let the account's plan and coupons be that much older."""
        await self._books.admin.execute(
            "update plan_sub set cycle = cycle - $2, ends_ms = ends_ms - $2 where account_id = $1", account, ms
        )
        await self._books.admin.execute(
            "update plan_window w set cycle = w.cycle - $2 where account_id = $1", account, ms
        )
        await self._books.admin.execute("update hold set cycle = cycle - $2 where account_id = $1", account, ms)
        await self._books.admin.execute("update coupon set ends_ms = ends_ms - $2 where account_id = $1", account, ms)

    async def used(self, account: str) -> dict[str, int]:
        """Used quota by window."""
        return {one.window: one.used_micro_idr for one in (await self.of(account)).subscription.windows}


def amount(name: str, rupiahs: int) -> dict[str, Any]:
    """A field of a plan in whole Rupiah."""
    return {f"{name}_micro_idr": rupiahs * RUPIAH}


async def spend(books: Books, account: str, completion: int = 50, **more: Any) -> str:
    """One whole request; return who paid."""
    call = reserve(account, **more)
    granted = await books.granted(call)
    await books.settle(settle(call, granted.descriptor, completion=completion, billing_kind=granted.billing_kind))
    return granted.billing_kind


async def told(books: Books, kind: type[E]) -> list[E]:
    """The events of that type in the outbox, in order."""
    rows = await books.admin.fetch(
        "select body from outbox where topic in ('ledger.entries.v1', 'ledger.states.v1') order by id"
    )
    events = [decode(row["body"]) for row in rows]
    return [kind.model_validate(one.data) for one in events if one.type == kind.TYPE]
