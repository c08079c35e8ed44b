"""The limiter's use cases: answer all questions of a message in one round trip, and mend what an outage left.

Called by rpc.py and, periodically, by app.py.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from libs.core.clock import Clock
from libs.ops.telemetry import Telemetry
from services.limiter import limits, windows
from services.limiter.backlog import Backlog
from services.limiter.budgets import Draws, TokenBudgets
from services.limiter.counted import Counted
from services.limiter.domain import (
    ADMITTED,
    Admit,
    Allowed,
    Answer,
    Done,
    FreeLimits,
    FreeRules,
    Refused,
    Standing,
    Subject,
    daily_scope,
    free_limits,
)
from services.limiter.local import LocalShares
from services.limiter.memory import DayCounts
from services.limiter.store import Reply, Store, StoreAwayError

_REPLAY_AT_ONCE = 200


class AccountFacts(Protocol):
    """What other services have said about an account."""

    def requests_per_minute(self, account_id: str) -> int:
        """Its limit on paid models; 0 when it has none of its own."""
        ...

    def standing(self, account_id: str, now_ms: int) -> Standing:
        """What decides its free tier, at Unix milliseconds ``now_ms``."""
        ...


class Limiter:
    """Admits requests by all limits. Idempotent by request id; never fails because the store is away."""

    def __init__(
        self,
        rules: limits.Rules,
        free: FreeRules,
        *,
        processes: int,
        accounts: AccountFacts,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._rules = rules
        self._free = free
        self._accounts = accounts
        self._store = store
        self._clock = clock
        self._counts = DayCounts()
        self._local = LocalShares(free, processes, self._counts)
        self._budgets = TokenBudgets(rules, free.lease_ms, processes, store, clock)
        self._backlog = Backlog(telemetry)
        self._counted = Counted(telemetry)

    async def answer(self, asks: Sequence[Admit | Done]) -> list[Answer | None]:
        """Answer every question, in order; None is the answer to a Done.

        One round trip for all of them, a second where tokens are limited.
        """
        draws = await self._budgets.draw(asks)
        self._counted.passed(draws.passed)
        if not draws.refused and not draws.taken:
            return await self._answer(asks)
        return await self._answer_drawn(asks, draws)

    async def _answer_drawn(self, asks: Sequence[Admit | Done], draws: Draws) -> list[Answer | None]:
        answers: list[Answer | None] = [draws.refused.get(place) for place in range(len(asks))]
        rest = [place for place in range(len(asks)) if place not in draws.refused]
        refused = []
        for place, answer in zip(rest, await self._answer([asks[place] for place in rest]), strict=True):
            if place in draws.taken and isinstance(answer, Allowed):
                answers[place] = replace(answer, leased=True)
                continue
            answers[place] = answer
            if isinstance(answer, Refused):
                refused.append(place)
        await self._budgets.give_back(asks, draws, refused)
        for place, refusal in draws.refused.items():
            ask = asks[place]
            assert isinstance(ask, Admit)
            self._counted.admission(ask.subject, refusal, local=self._store.away)
        return answers

    async def _answer(self, asks: Sequence[Admit | Done]) -> list[Answer | None]:
        owed = [
            isinstance(ask, Done)
            and ask.subject is Subject.FREE_CHAT
            and self._local.finish(ask.request_id, ask.success)
            for ask in asks
        ]
        calls = [self._calls(ask, due) for ask, due in zip(asks, owed, strict=True)]
        flat = [call for some in calls for call in some]
        try:
            replies = await self._store.run(flat) if flat else []
        except StoreAwayError:
            now_ms = self._clock.now_ms()
            return [self._alone(ask, due, now_ms) for ask, due in zip(asks, owed, strict=True)]
        return [self._read(ask, own) for ask, own in zip(asks, _shared_out(replies, calls), strict=True)]

    async def mend(self) -> None:
        """Look whether an absent store is back, and tell it what ended meanwhile."""
        if self._store.away:
            if not await self._store.probe():
                return
            self._local.reset()
            self._budgets.reset()
        while len(self._backlog):
            ended = self._backlog.take(_REPLAY_AT_ONCE)
            calls = [self._calls(done, due) for done, due in ended]
            try:
                replies = await self._store.run([call for some in calls for call in some])
            except StoreAwayError:
                for done, due in ended:
                    self._backlog.add(done, due)
                return
            for (done, _), own in zip(ended, _shared_out(replies, calls), strict=True):
                self._heard_end(done, own)

    def _calls(self, ask: Admit | Done, owed: bool) -> list[bytes]:
        if isinstance(ask, Done):
            return self._end_calls(ask, owed)
        if ask.subject is Subject.FREE_CHAT:
            applied = self._free_limits(ask)
            known = self._counts.last(ask.account_id, applied.daily_scope)
            return [windows.free_call(ask, applied, self._free, known)]
        if (places := limits.places(self._rules, ask)) is not None:
            return [windows.place_call(ask, places)]
        asked = self._windows(ask)
        return [windows.windows_call(ask, asked, self._rules.shadow)] if asked else []

    def _end_calls(self, done: Done, owed: bool) -> list[bytes]:
        if (places := limits.places(self._rules, done)) is not None:
            return [windows.leave_call(done, places)]
        calls = self._budgets.settle_calls(done)
        if done.subject is Subject.FREE_CHAT:
            scope = daily_scope(done)
            calls.append(windows.done_call(done, scope, owed, self._counts.last(done.account_id, scope)))
        return calls

    def _read(self, ask: Admit | Done, replies: list[Reply]) -> Answer | None:
        if isinstance(ask, Done):
            self._counted.end(success=ask.success)
            self._heard_end(ask, replies)
            return None
        answer = self._read_admission(ask, replies)
        self._counted.admission(ask.subject, answer, local=False)
        return answer

    def _read_admission(self, ask: Admit, replies: list[Reply]) -> Answer:
        if not replies:
            return ADMITTED
        reply = replies[0]
        if ask.subject is Subject.FREE_CHAT:
            assert isinstance(reply, list)
            self._heard_day(ask, reply)
            return windows.free_answer(reply)
        if (places := limits.places(self._rules, ask)) is not None:
            return self._unless_shadowed(windows.place_answer(reply, places))
        if reply == 0:
            return ADMITTED
        answer, passed = windows.windows_answer(reply, self._windows(ask))
        self._counted.passed(passed)
        return answer

    def _unless_shadowed(self, answer: Answer) -> Answer:
        if isinstance(answer, Refused) and answer.limit in self._rules.shadow:
            self._counted.passed([answer.limit])
            return ADMITTED
        return answer

    def _alone(self, ask: Admit | Done, owed: bool, now_ms: int) -> Answer | None:
        if isinstance(ask, Done):
            self._counted.end(success=ask.success)
            self._local.leave(ask.request_id)
            self._backlog.add(ask, owed)
            return None
        if ask.subject is Subject.FREE_CHAT:
            answer = self._local.free(ask, self._free_limits(ask), now_ms)
        elif (places := limits.places(self._rules, ask)) is not None:
            answer = self._unless_shadowed(self._local.place(ask.request_id, places, now_ms))
        else:
            answer = self._local.windows(ask.account_id, self._windows(ask), self._rules.shadow, now_ms)
        self._counted.admission(ask.subject, answer, local=True)
        return answer

    def _heard_end(self, done: Done, replies: list[Reply]) -> None:
        if done.subject is Subject.FREE_CHAT:
            self._heard_day(done, replies.pop())
        if limits.places(self._rules, done) is None:
            self._budgets.settled(done, replies)

    def _heard_day(self, ask: Admit | Done, reply: Reply) -> None:
        assert isinstance(reply, list)
        day, successes = reply[-2:]
        self._counts.heard(ask.account_id, daily_scope(ask), day, successes)

    def _windows(self, ask: Admit) -> list[limits.Window]:
        account_rpm = self._accounts.requests_per_minute(ask.account_id) or self._rules.account_rpm
        return limits.windows(self._rules, ask, account_rpm)

    def _free_limits(self, ask: Admit) -> FreeLimits:
        standing = self._accounts.standing(ask.account_id, self._clock.now_ms())
        return free_limits(self._free, ask, standing)


def _shared_out(replies: list[Reply], calls: Sequence[Sequence[bytes]]) -> list[list[Reply]]:
    """Each question's own replies; ``replies`` are those to all of its calls in one row."""
    left = iter(replies)
    return [list(islice(left, len(some))) for some in calls]
