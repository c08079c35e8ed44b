"""One account's traffic through a bad network: an edge, a bus, the clock and the real ledger in one thread, by seed.

Played by test_weather.py. Calls get lost on the way there or back, come twice or late; events come late, twice and in
any order; the edge dies and comes back with what it had written down; nobody touches a hold for a while.
"""

import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.money.dice import Dice
from tests.money.model.answers import Granted, Settled
from tests.money.model.facts import MINUTE, Ask, Caps, Plan
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.world import CHAT_MODELS, RUPIAH

TIMEOUT = 300
TOUCH_EVERY = 30_000


@dataclass
class Request:
    """One request of a client. ``edge`` is the life of the edge that works on it."""

    ask: Ask
    edge: int
    report: Report | None = None
    written_down: bool = False


class Weather:
    """Things that are due, in the order of their time; ``play`` lets them happen."""

    def __init__(self, pair: Pair, dice: Dice) -> None:
        self._pair = pair
        self._dice = dice
        self._due: list[tuple[int, int, Callable[[], Awaitable[None]]]] = []
        self._number = 0
        self._edge = 0
        self._granted: dict[str, Request] = {}
        self._spool: list[Request] = []
        self._bus: list[Request] = []

    async def play(self, steps: int) -> None:
        """Let ``steps`` things happen, then let the weather clear and all that is on its way arrive."""
        await self._prepare()
        for step in range(steps):
            if step % 5 == 0:
                self._later(self._dice.number(0, 2_000), self._begin)
            if not self._due:
                continue
            due, _, action = heapq.heappop(self._due)
            await self._pair.pass_ms(max(0, due - self._pair.now))
            await action()
        self._edge += 1
        self._publish_spool()
        while self._bus:
            await self._deliver()
        await self._pair.pass_ms(3 * MINUTE)
        await self._judge()

    async def _prepare(self) -> None:
        await self._pair.credit(400 * RUPIAH)
        await self._pair.credit(20 * RUPIAH, "bonus")
        plan = Plan(f"{self._pair.account}-plan", 9 * RUPIAH, {"five_hour": 40 * RUPIAH}, ("alpha",), ("alpha",))
        await self._pair.put_plan(plan)
        await self._pair.purchase(plan.plan_id)
        await self._pair.choose(keep_balance=True, free_fallback=False)
        await self._pair.cap_member("mem_a", 90 * RUPIAH)
        self._later(TOUCH_EVERY, self._touch)
        self._later(7_000, self._deliver_some)
        self._later(60_000, self._edge_dies)

    def _later(self, milliseconds: int, action: Callable[[], Awaitable[None]]) -> None:
        self._number += 1
        heapq.heappush(self._due, (self._pair.now + milliseconds, self._number, action))

    async def _begin(self) -> None:
        model = self._dice.pick(list(CHAT_MODELS))
        capped = self._dice.number(0, 1)
        ask = Ask(
            ref=self._pair.new_ref(),
            account=self._pair.account,
            key=f"key_{self._pair.account}_{capped}",
            endpoint="chat",
            model=model,
            price=CHAT_MODELS[model],
            est_input=self._dice.number(1, 300),
            max_tokens=self._dice.pick((400, 2_000, 5_000)),
            member=self._dice.pick(("", "mem_a")),
            caps=Caps(spend=150 * RUPIAH) if capped else Caps(),
        )
        await self._reserve(Request(ask, self._edge), tries=3)

    async def _reserve(self, request: Request, tries: int) -> None:
        if request.edge != self._edge or not tries:
            return
        answered = await self._travel(lambda: self._ask(request))
        if not answered:
            self._later(TIMEOUT, lambda: self._reserve(request, tries - 1))
        elif request.ask.ref[0] in self._granted:
            self._later(self._dice.pick((50, 4_000, 100_000, 200_000)), lambda: self._finish(request))

    async def _ask(self, request: Request) -> None:
        if isinstance(await self._pair.reserve(request.ask), Granted):
            self._granted[request.ask.ref[0]] = request

    async def _travel(self, call: Callable[[], Awaitable[None]]) -> bool:
        """A call through the network; whether its answer came back."""
        fate = self._dice.number(0, 9)
        if fate == 0:
            return False
        await call()
        if fate == 1:
            await call()
        return fate != 2

    async def _finish(self, request: Request) -> None:
        """The provider is done (or the client, or nobody wants to know): write it down, tell the ledger both ways."""
        if request.edge != self._edge:
            return
        if self._dice.number(0, 9) == 0:
            self._granted.pop(request.ask.ref[0])
            await self._travel(lambda: self._release(request))
            return
        used = Used(self._dice.number(1, 300), self._dice.number(0, request.ask.max_tokens), self._dice.number(0, 50))
        request.report = Report(used, self._dice.pick(("completed", "client_closed", "interrupted")))
        request.written_down = True
        self._spool.append(request)
        self._later(self._dice.pick((0, 500, 20_000, 400_000)), self._publish)
        await self._settle(request, tries=2)

    async def _release(self, request: Request) -> None:
        await self._pair.release(request.ask.ref)

    async def _settle(self, request: Request, tries: int) -> None:
        report = request.report
        if request.edge != self._edge or not tries or report is None:
            return

        async def tell() -> None:
            settled = await self._pair.settle(request.ask, report)
            assert isinstance(settled, Settled) and not settled.conflict, settled

        if not await self._travel(tell):
            self._later(TIMEOUT, lambda: self._settle(request, tries - 1))

    async def _publish(self) -> None:
        self._publish_spool()

    def _publish_spool(self) -> None:
        """Everything written down goes to the bus, some of it twice."""
        for request in self._spool:
            place = self._dice.number(0, len(self._bus))
            self._bus[place:place] = [request] * self._dice.pick((1, 1, 2))
        self._spool = []

    async def _deliver_some(self) -> None:
        self._later(self._dice.pick((500, 7_000, 300_000)), self._deliver_some)
        if self._bus:
            await self._deliver()

    async def _deliver(self) -> None:
        size = self._dice.number(1, 8)
        batch, self._bus = self._bus[:size], self._bus[size:]
        told = [(one.ask, one.report) for one in batch if one.report is not None]
        await self._pair.hear(told)
        if self._dice.number(0, 5) == 0:
            # The reader died before it told the bus how far it had come.
            await self._pair.hear(told)

    async def _touch(self) -> None:
        self._later(TOUCH_EVERY, self._touch)
        if self._dice.number(0, 3):
            holds = self._pair.book.account(self._pair.account).holds
            alive = [ref for ref in holds if ref[0] in self._granted and self._granted[ref[0]].edge == self._edge]
            await self._pair.touch(alive[-8:])

    async def _edge_dies(self) -> None:
        """All it worked on is lost; what it had written down is published by the next one."""
        self._later(self._dice.pick((20_000, 90_000, 600_000)), self._edge_dies)
        self._edge += 1
        self._publish_spool()

    async def _judge(self) -> None:
        """What was written down is charged once, and nothing else; nothing is held any more."""
        await self._pair.compare()
        account = self._pair.book.account(self._pair.account)
        evident = {request.ask.ref for request in self._granted.values() if request.written_down}
        assert set(account.rows) == evident
        assert all(hold.state != "open" for hold in account.holds.values())
        spent = sum(row.cost for row in account.rows.values())
        assert account.paid + account.bonus == 411 * RUPIAH - spent
        usage = await self._pair.real.usage(self._pair.account)
        assert usage == {ref: (row.cost, row.catalog) for ref, row in account.rows.items()}
