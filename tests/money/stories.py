"""Random lives of one account: every step is taken by model and ledger, and then everything is compared.

Used by test_stories.py and mutants.py.
"""

from dataclasses import replace

from tests.money.dice import Dice
from tests.money.model.facts import DAY, HOUR, MINUTE, Ask, Caps, Hold, Plan, Ref
from tests.money.model.prices import Used
from tests.money.model.settling import Report
from tests.money.pair import Pair
from tests.money.world import CHAT_MODELS, ENDPOINTS, PIECE, RUPIAH, plans

_STEPS = (
    *["reserve"] * 9,
    *["settle"] * 9,
    *["pass_time"] * 4,
    *["together"] * 3,
    *["credit"] * 2,
    *["plan"] * 3,
    *["choose"] * 4,
    *["release", "touch", "again", "job", "end_job", "grant"],
)
_PASSES = (0, 1, 1_000, 20_000, MINUTE, 90_000, 3 * MINUTE, HOUR, 5 * HOUR, DAY, 7 * DAY, 15 * DAY)
_LONGEST = 50 * DAY
_KEYS = {
    "open": Caps(),
    "spend": Caps(spend=20 * RUPIAH),
    "tokens": Caps(tokens=6_000),
    "daily": Caps(spend=9 * RUPIAH, tokens=15_000, period="day"),
    "weekly": Caps(spend=25 * RUPIAH, period="week"),
    "monthly": Caps(tokens=20_000, period="month"),
}


class Story:
    """One account's life. ``play`` raises AssertionError where model and ledger part."""

    def __init__(self, pair: Pair, dice: Dice) -> None:
        self._pair = pair
        self._dice = dice
        self._account = pair.book.account(pair.account)
        self._plans = plans(pair.account)
        self._asked: list[Ask] = []
        self._jobs: list[Ask] = []
        self._epoch = 0
        self._began = pair.now
        # Two keys a story, or their caps are never reached.
        self._keys = [dice.pick(list(_KEYS)), dice.pick(list(_KEYS))]

    async def play(self, steps: int) -> None:
        for plan in self._plans:
            await self._pair.put_plan(plan)
        await self._open()
        for _ in range(steps):
            await getattr(self, f"_{self._dice.pick(_STEPS)}")()
            await self._pair.compare()
        await self._finish()

    def told(self) -> str:
        """The last steps, newest at the end."""
        return "\n".join(self._pair.told[-12:])

    async def _open(self) -> None:
        """Mostly with money and often with a plan, so that a story begins where something can happen."""
        if self._dice.number(0, 4):
            await self._pair.credit(self._dice.number(1, 20) * 10 * RUPIAH)
        if self._dice.number(0, 1):
            await self._pair.purchase(self._dice.pick(self._plans).plan_id)
        if self._dice.number(0, 1):
            await self._choose()
        await self._pair.compare()

    async def _finish(self) -> None:
        """Leave nothing open: the next story shares the clock and the sweeper."""
        for ref, hold in self._account.holds.items():
            if hold.state == "open":
                await self._pair.release(ref)
        for job in self._jobs:
            if self._account.jobs[job.ref].state == "running":
                await self._pair.complete(job.ref)
        if self._account.auto_renew:
            await self._pair.auto_renew(False)
        await self._pair.compare()

    async def _reserve(self) -> None:
        ask = self._chat() if self._dice.number(0, 3) else self._other()
        self._asked.append(ask)
        await self._pair.reserve(ask)

    def _chat(self) -> Ask:
        model = self._dice.pick(list(CHAT_MODELS))
        return self._ask(
            self._dice.pick(("chat", "messages", "responses")),
            model,
            price=CHAT_MODELS[model],
            est_input=self._dice.number(0, 900),
            max_tokens=self._dice.pick((1, 500, 1_024, 1_025, 2_000, 4_096, 6_000)),
            funding=self._dice.pick(("order",) * 6 + ("balance", "free", "own_key")),
            subscribers_only=not self._dice.number(0, 15),
        )

    def _other(self) -> Ask:
        endpoint = self._dice.pick(list(ENDPOINTS))
        price = ENDPOINTS[endpoint]
        by_unit = price.unit is not None
        fee = endpoint in ("web_search", "page_fetch", "x_search")
        return self._ask(
            endpoint,
            endpoint,
            price=price,
            est_input=0 if by_unit else self._dice.number(1, 900),
            units=(1 if fee else self._dice.number(1, 9)) if by_unit else 0,
            subscribers_only=not self._dice.number(0, 15),
        )

    def _ask(self, endpoint: str, model: str, **more: object) -> Ask:
        key = self._dice.pick(self._keys)
        return Ask(
            ref=self._pair.new_ref(),
            account=self._pair.account,
            key=f"key_{self._pair.account}_{key}",
            endpoint=endpoint,
            model=model,
            member=self._dice.pick(("", "mem_a", "mem_b")),
            caps=replace(_KEYS[key], epoch=self._epoch) if key != "open" else Caps(),
            **more,  # type: ignore[arg-type]
        )

    def _some(self, *states: str) -> Hold | None:
        found = [hold for hold in self._account.holds.values() if hold.state in states]
        return self._dice.pick(found) if found else None

    async def _settle(self) -> None:
        """Mostly running requests; sometimes such as have ended in any way."""
        states = ("open",) if self._dice.number(0, 3) else ("open", "settled", "released", "expired")
        hold = self._some(*states)
        if hold is not None:
            await self._pair.settle(hold.ask, self._report(hold.ask, hold.max_tokens))
        elif self._asked:
            ask = self._asked[-1]
            if ask.funding in ("free", "own_key") and ask.ref not in self._account.holds and not ask.caps.tokens:
                await self._pair.settle(ask, self._report(ask, ask.max_tokens))

    def _report(self, ask: Ask, max_tokens: int) -> Report:
        row = self._account.rows.get(ask.ref)
        if row is not None and self._dice.number(0, 1):
            assert isinstance(row.said, Report)
            return row.said
        prompt = self._dice.number(0, 2 * ask.est_input + 5)
        cached = self._dice.number(0, prompt)
        completion = 0 if self._dice.number(0, 9) == 0 else self._dice.number(1, max_tokens + max_tokens // 4 + 1)
        return Report(
            Used(
                prompt,
                completion if ask.max_tokens else 0,
                cached if ask.max_tokens else 0,
                self._dice.number(0, prompt - cached) if ask.max_tokens else 0,
                self._dice.number(0, ask.units) if ask.units else 0,
            ),
            self._dice.pick(
                ("completed", "completed", "client_closed", "interrupted") if ask.max_tokens else ("completed",)
            ),
        )

    async def _together(self) -> None:
        """Several calls in one transaction of the ledger."""
        running = [hold for hold in self._account.holds.values() if hold.state == "open"]
        ending = self._dice.some(running, 3)
        ends = [
            (hold.ask, self._report(hold.ask, hold.max_tokens) if self._dice.number(0, 3) else None) for hold in ending
        ]
        asks = [self._chat() if self._dice.number(0, 2) else self._other() for _ in range(self._dice.number(1, 3))]
        self._asked += asks
        await self._pair.together(ends, asks)

    async def _release(self) -> None:
        hold = self._some("open", "open", "settled", "released", "expired")
        if hold is not None:
            await self._pair.release(hold.ask.ref)

    async def _touch(self) -> None:
        refs: list[Ref] = sorted(self._account.holds)[-6:]
        await self._pair.touch(refs)

    async def _again(self) -> None:
        """The same question again, or another one under its id."""
        if not self._asked:
            return
        ask = self._asked[-1] if self._dice.number(0, 1) else self._dice.pick(self._asked)
        if self._pair.now - int(ask.ref[0][:12], 16) > 4 * MINUTE or ask.ref not in self._account.holds:
            return
        await self._pair.reserve(ask if self._dice.number(0, 2) else replace(ask, est_input=ask.est_input + 1))

    async def _pass_time(self) -> None:
        left = self._began + _LONGEST - self._pair.now
        await self._pair.pass_ms(min(self._dice.pick(_PASSES), left))

    async def _credit(self) -> None:
        await self._pair.credit(self._dice.number(1, 60) * 700_000, self._dice.pick(("top_up", "top_up", "bonus")))

    async def _job(self) -> None:
        ask = self._ask("videos", "videos", price=PIECE, units=self._dice.number(1, 9))
        await self._pair.charge(ask)
        if ask.ref in self._account.jobs:
            self._jobs.append(ask)
            if self._dice.number(0, 2) == 0:
                await self._pair.charge(ask)

    async def _end_job(self) -> None:
        if self._jobs:
            job = self._dice.pick(self._jobs)
            await (self._pair.complete if self._dice.number(0, 1) else self._pair.refund)(job.ref)

    async def _plan(self) -> None:
        plan = self._dice.pick(self._plans)
        what = self._dice.number(0, 5)
        if what <= 2:
            known = what < 2 and not self._dice.number(0, 3)
            expected = self._dice.number(0, 3) * 9 * RUPIAH if known else None
            await self._pair.purchase(plan.plan_id, new_cycle=what == 2, expected=expected)
        elif what == 3:
            await self._pair.auto_renew(bool(self._dice.number(0, 2)))
        elif what == 4:
            source, days = self._dice.pick(("trial", "gift", "granted", "paid")), self._dice.pick((0, 3))
            paid = self._dice.number(0, 9) * RUPIAH if source == "paid" else 0
            await self._pair.grant(plan.plan_id, source, days=days, paid=paid)
        else:
            await self._change(plan)

    async def _change(self, plan: Plan) -> None:
        changed = replace(
            plan, on_sale=bool(self._dice.number(0, 3)), price=plan.price + self._dice.pick((0, 0, 0, RUPIAH, 13))
        )
        self._plans = [changed if one.plan_id == plan.plan_id else one for one in self._plans]
        await self._pair.put_plan(changed)

    async def _choose(self) -> None:
        what = self._dice.number(0, 4)
        if what <= 1:
            await self._pair.choose(
                keep_balance=bool(self._dice.number(0, 1)), free_fallback=bool(self._dice.number(0, 1))
            )
        elif what == 2:
            window = self._dice.pick(("day", "month", ""))
            await self._pair.limit(self._dice.number(0, 9) * 2 * RUPIAH if window else 0, window)
        elif what == 3:
            cap = None if self._dice.number(0, 3) == 0 else self._dice.number(0, 9) * 2 * RUPIAH
            await self._pair.cap_member(self._dice.pick(("mem_a", "mem_b")), cap)
        else:
            self._epoch += 1

    async def _grant(self) -> None:
        expires = self._pair.now + self._dice.pick((HOUR, 3 * DAY, 20 * DAY))
        models = self._dice.pick((("alpha",), ("beta", "gamma"), ("alpha", "beta")))
        if self._dice.number(0, 1):
            budget = None if self._dice.number(0, 4) == 0 else self._dice.number(1, 9) * RUPIAH
            await self._pair.grant_coupon(models, budget, expires)
        else:
            await self._pair.grant_tokens(self._dice.pick((models, ())), self._dice.number(1, 9) * 1_000, expires)
