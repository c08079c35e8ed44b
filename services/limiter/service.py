"""The limiter's use cases: answer all questions of a message in one round trip, and mend what an outage left.

Called by rpc.py and, periodically, by app.py.
"""

from collections.abc import Sequence
from itertools import product
from typing import Protocol

from libs.core.clock import Clock
from libs.core.money import Micros
from libs.ops.telemetry import Telemetry
from services.limiter import windows
from services.limiter.backlog import Backlog
from services.limiter.domain import (
    Admit,
    Allowed,
    Answer,
    Code,
    Done,
    FreeLimits,
    FreeRules,
    Subject,
    daily_scope,
    free_limits,
)
from services.limiter.local import LocalShares
from services.limiter.memory import DayCounts
from services.limiter.store import Reply, Store, StoreAwayError
from services.limiter.telemetry import ADMISSIONS, DONES, PACED

_REPLAY_AT_ONCE = 200


class AccountFacts(Protocol):
    """What other services have said about an account."""

    def requests_per_minute(self, account_id: str) -> int:
        """Its limit on paid models; 0 when it has none of its own."""
        ...

    def paid_in(self, account_id: str) -> Micros: ...

    def has_plan(self, account_id: str) -> bool: ...


class Limiter:
    """Admits requests by all limits. Idempotent by request id; never fails because the store is away."""

    def __init__(
        self,
        rules: FreeRules,
        *,
        account_rpm: int,
        usage_rpm: int,
        processes: int,
        accounts: AccountFacts,
        store: Store,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._rules = rules
        self._account_rpm = account_rpm
        self._usage_rpm = usage_rpm
        self._accounts = accounts
        self._store = store
        self._clock = clock
        self._counts = DayCounts()
        self._local = LocalShares(rules, processes, self._counts)
        self._backlog = Backlog(telemetry)
        admissions = telemetry.metrics.counter(ADMISSIONS)
        outcomes = ("allowed", *Code)
        # Looking a child up by its labels costs as much as a question's way to the wire.
        self._admissions = {
            labels: admissions.labels(*labels) for labels in product(Subject, outcomes, ("store", "local"))
        }
        self._dones = telemetry.metrics.counter(DONES)
        self._paced = telemetry.metrics.histogram(PACED)

    async def answer(self, asks: Sequence[Admit | Done]) -> list[Answer | None]:
        """Answer every question, in order; None is the answer to a Done. One round trip for all of them."""
        owed = [isinstance(ask, Done) and self._local.finish(ask.request_id, ask.success) for ask in asks]
        try:
            replies = await self._store.run([self._call(*pair) for pair in zip(asks, owed, strict=True)])
        except StoreAwayError:
            now_ms = self._clock.now_ms()
            return [self._alone(ask, due, now_ms) for ask, due in zip(asks, owed, strict=True)]
        return [self._read(ask, reply) for ask, reply in zip(asks, replies, strict=True)]

    async def mend(self) -> None:
        """Look whether an absent store is back, and tell it what ended meanwhile."""
        if self._store.away:
            if not await self._store.probe():
                return
            self._local.reset()
        while len(self._backlog):
            ended = self._backlog.take(_REPLAY_AT_ONCE)
            try:
                replies = await self._store.run([self._call(*pair) for pair in ended])
            except StoreAwayError:
                for done, due in ended:
                    self._backlog.add(done, due)
                return
            for (done, _), reply in zip(ended, replies, strict=True):
                self._heard(done, reply)

    def _call(self, ask: Admit | Done, owed: bool) -> bytes:
        if isinstance(ask, Done):
            scope = daily_scope(ask)
            return windows.done_call(ask, scope, owed, self._counts.last(ask.account_id, scope))
        match ask.subject:
            case Subject.PAID_CHAT:
                return windows.minute_call("rpm", ask, self._paid_limit(ask))
            case Subject.USAGE_READ:
                return windows.minute_call("usage", ask, self._usage_rpm)
            case Subject.FREE_CHAT:
                limits = self._free_limits(ask)
                known = self._counts.last(ask.account_id, limits.daily_scope)
                return windows.free_call(ask, limits, self._rules, known)

    def _read(self, ask: Admit | Done, reply: Reply) -> Answer | None:
        if isinstance(ask, Done):
            self._dones.labels(str(ask.success)).inc()
            self._heard(ask, reply)
            return None
        if isinstance(reply, list):
            self._heard(ask, reply)
            return self._counted(ask, windows.free_answer(reply), "store")
        return self._counted(ask, windows.minute_answer(reply), "store")

    def _alone(self, ask: Admit | Done, owed: bool, now_ms: int) -> Answer | None:
        if isinstance(ask, Done):
            self._dones.labels(str(ask.success)).inc()
            self._backlog.add(ask, owed)
            return None
        match ask.subject:
            case Subject.PAID_CHAT:
                answer = self._local.paid(ask.account_id, self._paid_limit(ask), now_ms)
            case Subject.USAGE_READ:
                answer = self._local.usage_read(ask.account_id, self._usage_rpm, now_ms)
            case Subject.FREE_CHAT:
                answer = self._local.free(ask, self._free_limits(ask), now_ms)
        return self._counted(ask, answer, "local")

    def _heard(self, ask: Admit | Done, reply: Reply) -> None:
        assert isinstance(reply, list)
        day, successes = reply[-2:]
        self._counts.heard(ask.account_id, daily_scope(ask), day, successes)

    def _counted(self, ask: Admit, answer: Answer, source: str) -> Answer:
        if isinstance(answer, Allowed):
            outcome = "allowed"
            if ask.subject is Subject.FREE_CHAT:
                self._paced.observe(answer.wait_ms / 1000)
        else:
            outcome = answer.code
        self._admissions[ask.subject, outcome, source].inc()
        return answer

    def _paid_limit(self, ask: Admit) -> int:
        return self._accounts.requests_per_minute(ask.account_id) or self._account_rpm

    def _free_limits(self, ask: Admit) -> FreeLimits:
        account_id = ask.account_id
        return free_limits(
            self._rules,
            ask,
            paid_in=self._accounts.paid_in(account_id),
            has_plan=self._accounts.has_plan(account_id),
        )
