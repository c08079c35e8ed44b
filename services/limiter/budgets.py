"""Budgets of tokens: what an input is believed to be is drawn before a request, what was used replaces it afterwards.

Called by service.py, before the windows of a question are asked: tokens can be given back, a place in a window cannot.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from libs.core.clock import Clock
from services.limiter import windows
from services.limiter.bounded import Bounded
from services.limiter.domain import Admit, Done, Limit, Refused
from services.limiter.limits import Budget, Rules, budgets, drawn
from services.limiter.minutes import Minutes
from services.limiter.store import Reply, Store, StoreAwayError

_MODELS = 10_000
# While the store is away, what was last heard of a budget that all accounts share is believed for so long.
BELIEVED_MS = 60_000


@dataclass(slots=True)
class Draws:
    """What became of the draws of some questions, by the place of the question among them."""

    refused: dict[int, Refused] = field(default_factory=dict)
    taken: dict[int, list[Budget]] = field(default_factory=dict)
    # Budgets used up that refuse nothing.
    passed: list[Limit] = field(default_factory=list)


class TokenBudgets:
    """Draws on budgets and settles. ``mark_ms`` is the longest a request takes."""

    def __init__(self, rules: Rules, mark_ms: int, processes: int, store: Store, clock: Clock) -> None:
        self._rules = rules
        self._mark_ms = mark_ms
        self._processes = processes
        self._store = store
        self._clock = clock
        self._shares = Minutes()
        self._heard: Bounded[str, tuple[int, int]] = Bounded(_MODELS)

    async def draw(self, asks: Sequence[object]) -> Draws:
        """Draw for every admission that has a budget; what one refused took elsewhere is given back."""
        wanted = [
            (place, ask, budget)
            for place, ask in enumerate(asks)
            if isinstance(ask, Admit) and (ask.key_tpm or ask.model_token_budget is not None)
            for budget in budgets(self._rules, ask)
        ]
        draws = Draws()
        if not wanted:
            return draws
        calls = [
            windows.draw_call(ask, budget, self._mark_ms, enforced=budget.limit not in self._rules.shadow)
            for _, ask, budget in wanted
        ]
        try:
            replies = await self._store.run(calls)
        except StoreAwayError:
            for place, ask, budget in wanted:
                self._draw_alone(draws, place, ask, budget)
            return draws
        for (place, _, budget), reply in zip(wanted, replies, strict=True):
            self._read(draws, place, budget, reply)
        await self.give_back(asks, draws, draws.refused)
        return draws

    async def give_back(self, asks: Sequence[object], draws: Draws, places: Collection[int]) -> None:
        """Undo what was drawn for the questions at these places: they were refused."""
        calls = [
            windows.settle_call(ask.request_id, budget, 0)
            for place in places
            if isinstance(ask := asks[place], Admit)
            for budget in draws.taken.get(place, ())
        ]
        if calls:
            try:
                await self._store.run(calls)
            except StoreAwayError:
                # It stays counted until its window ends.
                return

    def settle_calls(self, done: Done) -> list[bytes]:
        """The calls that put what a request has used in place of what it drew."""
        return [windows.settle_call(done.request_id, budget, done.tokens) for budget in drawn(self._rules, done)]

    def settled(self, done: Done, replies: Iterable[Reply]) -> None:
        """What the store answered to ``settle_calls``."""
        for budget, reply in zip(drawn(self._rules, done), replies, strict=True):
            assert isinstance(reply, list)
            self._hear(budget, reply[0])

    def reset(self) -> None:
        """The store is back: forget the shares."""
        self._shares.clear()

    def _read(self, draws: Draws, place: int, budget: Budget, reply: Reply) -> None:
        assert isinstance(reply, list)
        code, again_ms, counted = reply
        self._hear(budget, counted)
        if code == 1:
            draws.refused[place] = Refused(budget.limit, again_ms=again_ms)
            return
        draws.taken.setdefault(place, []).append(budget)
        if code == 2:
            draws.passed.append(budget.limit)

    def _hear(self, budget: Budget, counted: int) -> None:
        if budget.limit is Limit.MODEL_TOKENS:
            self._heard[budget.tag] = (counted, self._clock.now_ms())

    def _draw_alone(self, draws: Draws, place: int, ask: Admit, budget: Budget) -> None:
        now_ms = self._clock.now_ms()
        if budget.limit in self._rules.shadow or self._has_room(budget, ask.tokens, now_ms):
            draws.taken.setdefault(place, []).append(budget)
        else:
            draws.refused[place] = Refused(budget.limit)

    def _has_room(self, budget: Budget, tokens: int, now_ms: int) -> bool:
        if budget.limit is Limit.MODEL_TOKENS:
            counted, heard_ms = self._heard.get(budget.tag, (0, 0))
            if counted >= budget.most or now_ms - heard_ms > BELIEVED_MS:
                return False
            self._heard[budget.tag] = (counted + tokens, heard_ms)
            return True
        name = f"{budget.tag}:{budget.name}"
        if self._shares.state(name, now_ms)[0] >= max(1, budget.most // self._processes):
            return False
        self._shares.count(name, now_ms, tokens)
        return True
