"""One transaction's worth of calls: what they have to see, what becomes of each, and what that changes.

Called by posting.py only. Inside an account finishes come first, then reservations in order of arrival.
"""

from collections import Counter
from collections.abc import Sequence
from enum import Enum

import msgspec

from libs.core.errors import KenariError
from libs.core.pricing import Price
from services.ledger.books import Opened, Wanted
from services.ledger.domain import movements, paid_jobs, windows
from services.ledger.domain.calls import (
    Charged,
    Granted,
    InvalidCallError,
    Redirected,
    Release,
    Released,
    Reserve,
    Settle,
    Settled,
)
from services.ledger.domain.descriptor import Signer, granted_as, lost_hold
from services.ledger.domain.effects import Effects
from services.ledger.domain.funding import Redirect, Refusal, utc_day
from services.ledger.domain.meters import WorstCase, worst_case, worth
from services.ledger.domain.refusals import denied
from services.ledger.domain.state import Account, Hold
from services.ledger.job import Answer, Job
from services.ledger.settings import LedgerSettings

_DAY_MS = 86_400_000
_INT64 = 2**63 - 1
_UNPAID = frozenset({"free", "byok"})


class Result(Enum):
    """What became of a call, for the metrics."""

    DONE = "done"
    GRANTED = "granted"
    BEFORE = "before"
    CONFLICT = "conflict"
    NOTHING = "nothing"
    REDIRECTED = "redirected"
    FAILED = "failed"
    OTHER_PRICE = "other_price"


class Outcome(msgspec.Struct, gc=False):
    """``answer`` for whoever waits; or why there is none (``reason``), or the price version to try again with."""

    job: Job
    result: Result | str
    answer: Answer | None = None
    reason: str = ""


class HoldsLostError(KenariError):
    """Settlements come with a signed descriptor for holds that are not there: a failover lost them."""

    def __init__(self, holds: list[Hold]) -> None:
        super().__init__("holds lost", reason="holds_lost")
        self.holds = holds


class Batch:
    """Calls grouped by account; those that do not fit the books' integers are in ``unfit`` and take no part."""

    def __init__(self, jobs: Sequence[Job], signer: Signer, settings: LedgerSettings) -> None:
        self.unfit: list[tuple[Job, KenariError]] = []
        self.jobs: list[Job] = []
        self._signer = signer
        self._settings = settings
        self._ttl_ms = int(settings.hold_ttl_s * 1000)
        self._worst: dict[Job, WorstCase] = {}
        self._lost: list[Hold] = []
        for job in jobs:
            try:
                self._check(job)
            except InvalidCallError as error:
                self.unfit.append((job, error))
            else:
                self.jobs.append(job)
        # Stable: finishes before reservations, each in the order in which they came.
        self.jobs.sort(key=lambda job: isinstance(job.call, Reserve))

    def _check(self, job: Job) -> None:
        call = job.call
        if isinstance(call, Reserve):
            assert job.price is not None
            worst = worst_case(call, job.price)
            if worst.full > _INT64:
                raise InvalidCallError("the hold is out of range")
            self._worst[job] = worst
        elif isinstance(call, Settle):
            assert job.price is not None
            # No charge is above this: all tokens, and all units, at the dearest price.
            tokens = call.prompt_tokens + call.completion_tokens + call.cached_tokens + call.cache_write_tokens
            if tokens * _dearest(job.price) // 1_000_000 + call.units * (job.price.unit or 0) > _INT64:
                raise InvalidCallError("the charge is out of range")

    def wanted(self, lost: Sequence[Hold]) -> Wanted:
        """What the transaction has to lock and read; ``lost`` are holds that ``work`` has missed."""
        wanted = Wanted([], [], [], [], [], [], lost)
        paying, keys, members = set(), set(), set()
        made = {hold.account_id for hold in lost}
        for number, job in enumerate(self.jobs, 1):
            call = job.call
            wanted.calls.append((int(call.request_id[:12], 16) // _DAY_MS, call.request_id, call.line))
            if isinstance(call, Settle):
                wanted.settles.append(number)
                if call.billing_kind in _UNPAID and not call.descriptor:
                    continue
            elif isinstance(call, Reserve):
                if call.caps:
                    keys.add(call.key_id)
                    # Its wallet's row is the mutex of its keys as well.
                    made.add(call.account_id)
                if call.member_id:
                    members.add(f"{call.account_id}/{call.member_id}")
            paying.add(call.account_id)
        wanted.paying, wanted.create = sorted(paying), sorted(made)
        wanted.keys, wanted.members = sorted(keys), sorted(members)
        return wanted

    def work(self, opened: Opened, effects: Effects) -> list[Outcome]:
        """Do all calls on the opened books; raise HoldsLostError. Nothing is written yet."""
        self._lost = []
        outcomes = [self._one(job, opened, effects) for job in self.jobs]
        if self._lost:
            raise HoldsLostError(self._lost)
        return outcomes

    def _one(self, job: Job, opened: Opened, effects: Effects) -> Outcome:
        call = job.call
        hold = opened.holds.get((call.request_id, call.line))
        if isinstance(call, Reserve):
            return self._reserve(job, call, hold, opened, effects)
        if hold is not None and hold.account_id != call.account_id:
            return Outcome(job, Result.FAILED, reason="other_account")
        if isinstance(call, Settle):
            return self._settle(job, call, hold, opened, effects)
        return self._release(job, call, hold, opened, effects)

    def _reserve(self, job: Job, call: Reserve, hold: Hold | None, opened: Opened, effects: Effects) -> Outcome:
        ms = int(call.request_id[:12], 16)
        if abs(ms - opened.now_ms) > self._settings.id_window_s * 1000:
            return Outcome(job, Result.FAILED, reason="request_id_time")
        account = opened.account(call.account_id)
        if hold is not None:
            return self._again(job, call, hold, account)
        left = None
        if account.plan is not None and account.plan.active(opened.now_ms):
            left = windows.left(account, account.plan, opened.now_ms)
        worst = self._worst[job]
        taken = movements.reserve(
            account, call, worst, effects, day=utc_day(ms), now_ms=opened.now_ms, ttl_ms=self._ttl_ms
        )
        if isinstance(taken, Refusal):
            answer = denied(taken.code, call, account, worst.full, self._settings.top_up_url)
            return Outcome(job, taken.code, answer)
        if isinstance(taken, Redirect):
            return Outcome(job, Result.REDIRECTED, Redirected(taken.reason))
        if call.on_acceptance:
            paid_jobs.accept(account, taken, effects, opened.now_ms)
        return Outcome(job, Result.GRANTED, self._answer(call, taken, account, left, duplicate=False))

    def _again(self, job: Job, call: Reserve, hold: Hold, account: Account) -> Outcome:
        if hold.request_hash != call.content_hash() or hold.account_id != call.account_id:
            return Outcome(job, Result.FAILED, reason="other_content")
        if hold.state not in ("open", "posted"):
            return Outcome(job, Result.FAILED, reason="already_finished")
        return Outcome(job, Result.BEFORE, self._answer(call, hold, account, None, duplicate=True))

    def _answer(
        self, call: Reserve, hold: Hold, account: Account, left: list[tuple[str, int]] | None, *, duplicate: bool
    ) -> Answer:
        available = account.wallet.available if account.wallet is not None else 0
        if call.on_acceptance:
            return Charged(hold.amount, available, duplicate)
        descriptor = self._signer.sign(granted_as(hold)) if hold.state else ""
        lowered = hold.max_tokens < call.max_tokens
        return Granted(
            hold.funding,
            hold.max_tokens,
            lowered,
            hold.amount,
            self._ttl_ms,
            descriptor,
            available,
            left,
            hold.free_cache,
        )

    def _settle(self, job: Job, call: Settle, hold: Hold | None, opened: Opened, effects: Effects) -> Outcome:
        assert job.price is not None
        stands = opened.settled.get((call.request_id, call.line))
        if stands is not None:
            if stands.account_id != call.account_id:
                return Outcome(job, Result.FAILED, reason="other_account")
            same = stands.settle_hash == call.content_hash()
            if not same:
                self._conflict(job, call, hold, "settled", effects)
            return self._settled(job, opened, stands.cost, stands.catalog, duplicate=same, conflict=not same)
        if hold is not None and (hold.state in ("released", "posted", "refunded") or hold.funding != call.billing_kind):
            self._conflict(job, call, hold, hold.state, effects)
            return self._settled(job, opened, hold.cost or 0, 0, duplicate=False, conflict=True)
        if hold is None and (call.descriptor or call.billing_kind not in _UNPAID):
            lost = self._rebuilt(call)
            if lost is not None:
                self._lost.append(lost)
            if lost is not None or call.billing_kind not in _UNPAID:
                return Outcome(job, Result.FAILED, reason="unknown_hold")
        if hold is not None and hold.price_version != job.price.version:
            return Outcome(job, Result.OTHER_PRICE, reason=hold.price_version)
        value = worth(call, hold, job.price, charge_interrupted=self._settings.charge_interrupted)
        day = utc_day(int(call.request_id[:12], 16))
        account = opened.account(call.account_id)
        cost = movements.settle(account, hold, call, value, effects, day=day, now_ms=opened.now_ms, trace=job.trace)
        return self._settled(job, opened, cost, value.value, duplicate=False, conflict=False)

    def _settled(
        self, job: Job, opened: Opened, cost: int, catalog: int, *, duplicate: bool, conflict: bool
    ) -> Outcome:
        wallet = opened.account(job.call.account_id).wallet
        available = wallet.available if wallet is not None else 0
        result = Result.CONFLICT if conflict else Result.BEFORE if duplicate else Result.DONE
        return Outcome(job, result, Settled(cost, catalog, available, duplicate, conflict))

    def _conflict(self, job: Job, call: Settle, hold: Hold | None, reason: str, effects: Effects) -> None:
        assert job.price is not None
        value = worth(call, hold, job.price, charge_interrupted=self._settings.charge_interrupted)
        movements.conflict(call, reason, value, effects)

    def _rebuilt(self, call: Settle) -> Hold | None:
        """The hold as its descriptor remembers it; None when we did not sign that for this request."""
        granted = self._signer.read(call.descriptor)
        if granted is None or (granted.request_id, granted.line, granted.account_id, granted.billing_kind) != (
            call.request_id,
            call.line,
            call.account_id,
            call.billing_kind,
        ):
            return None
        return lost_hold(granted, call)

    @staticmethod
    def _release(job: Job, call: Release, hold: Hold | None, opened: Opened, effects: Effects) -> Outcome:
        if hold is None or hold.state not in ("open", "released"):
            return Outcome(job, Result.NOTHING, Released(released=False))
        if hold.state == "released":
            return Outcome(job, Result.BEFORE, Released(released=True))
        movements.release(opened.account(call.account_id), hold, effects)
        return Outcome(job, Result.DONE, Released(released=True))


def count(outcomes: Sequence[Outcome], kind: type) -> Counter[str]:
    """How often calls of that kind came to each result."""
    return Counter(
        one.result.value if isinstance(one.result, Result) else one.result
        for one in outcomes
        if isinstance(one.job.call, kind)
    )


def _dearest(price: Price) -> int:
    return max(price.input, price.output, price.cache_read or 0, price.cache_write or 0)
