"""The whole model: every call of the ledger, at a time that is passed in.

Asked by the tests of this package, beside the ledger or alone.
"""

from tests.money.model import plans, sums
from tests.money.model.admission import admit, plan_left
from tests.money.model.answers import (
    Bought,
    Charged,
    Denied,
    Ended,
    Granted,
    Redirect,
    RefusedError,
    Released,
    Settled,
)
from tests.money.model.facts import Account, Allocation, Ask, Coupon, Hold, Job, Plan, Ref, Source
from tests.money.model.settling import Report, burn, give_back, settle

TTL = 120_000


class Book:
    """All accounts and plans. ``ttl`` is how long a hold lives without a touch, in milliseconds."""

    def __init__(self, *, ttl: int = TTL, charge_interrupted: bool = False) -> None:
        self.accounts: dict[str, Account] = {}
        self.plans: dict[str, Plan] = {}
        self._ttl = ttl
        self._charge_interrupted = charge_interrupted

    def account(self, account_id: str) -> Account:
        return self.accounts.setdefault(account_id, Account(account_id))

    def credit(self, account_id: str, amount: int, kind: str = "top_up") -> int:
        """Money from outside, or a bonus; return the balance."""
        account = self.account(account_id)
        if kind == "bonus":
            account.bonus += amount
        else:
            account.paid += amount
            account.paid_in += amount
        return sums.balance(account)

    def reserve(self, ask: Ask, now: int) -> Granted | Denied | Redirect:
        """Hold the worst case; a known id gets its stored answer. RefusedError: other_content, already_finished."""
        account = self.account(ask.account)
        known = account.holds.get(ask.ref)
        if known is not None:
            return self._again(account, known, ask, now)
        decided = admit(account, ask, now, self._ttl)
        if not isinstance(decided, Hold):
            return decided
        left = plan_left(account, now)
        account.holds[ask.ref] = decided
        return _granted(account, decided, left)

    def _again(self, account: Account, known: Hold, ask: Ask, now: int) -> Granted:
        if known.ask != ask:
            raise RefusedError("other_content")
        if known.state != "open":
            raise RefusedError("already_finished")
        return _granted(account, known, plan_left(account, now))

    def settle(self, ask: Ask, report: Report, now: int) -> Settled:
        """Charge what was used. Free requests and those on own keys need no hold. RefusedError: unknown_hold."""
        account = self.account(ask.account)
        hold = account.holds.get(ask.ref)
        if hold is None:
            if ask.funding not in ("free", "own_key"):
                raise RefusedError("unknown_hold")
            hold = self._holdless(account, ask)
        return settle(account, hold, report, now, charge_interrupted=self._charge_interrupted)

    @staticmethod
    def _holdless(account: Account, ask: Ask) -> Hold:
        row = account.rows.get(ask.ref)
        if row is not None:
            return row.hold
        source = Source("free" if ask.funding == "free" else "byok")
        return Hold(ask, source, 0, ask.max_tokens, 0, None, 0, 0, 0, 0)

    def release(self, account_id: str, ref: Ref) -> Released:
        """Give a hold back; what is settled or expired stays so."""
        hold = self.account(account_id).holds.get(ref)
        if hold is not None and hold.state == "open":
            hold.state = "released"
        return Released(hold is not None and hold.state == "released")

    def touch(self, refs: list[tuple[str, Ref]], now: int) -> list[Ref]:
        """Keep holds alive; return those that are not open."""
        gone = []
        for account_id, ref in refs:
            hold = self.account(account_id).holds.get(ref)
            if hold is None or hold.state != "open":
                gone.append(ref)
            else:
                hold.expires = now + self._ttl
        return gone

    def expire(self, now: int) -> list[Ref]:
        """End the holds nobody kept alive; return them."""
        due = [hold for account in self.accounts.values() for hold in sums.open_holds(account) if hold.expires <= now]
        for hold in due:
            hold.state = "expired"
        return [hold.ask.ref for hold in due]

    def charge(self, ask: Ask, now: int) -> Charged | Denied:
        """Take the full price of a job."""
        account = self.account(ask.account)
        known = account.jobs.get(ask.ref)
        if known is not None:
            if known.hold.ask != ask:
                raise RefusedError("other_content")
            return Charged(known.cost, sums.available(account), duplicate=True)
        decided = admit(account, ask, now, 0)
        if isinstance(decided, Denied):
            return decided
        assert isinstance(decided, Hold)
        decided.state = "settled"
        job = Job(decided, now, decided.amount, burn(account, decided.amount))
        account.jobs[ask.ref] = job
        return Charged(job.cost, sums.available(account))

    def complete(self, account_id: str, ref: Ref) -> Ended:
        """The job delivered. RefusedError: unknown_charge, already_finished."""
        job = self._job(account_id, ref)
        if job.state == "refunded":
            raise RefusedError("already_finished")
        duplicate, job.state = job.state == "done", "done"
        return Ended(job.cost, duplicate)

    def refund(self, account_id: str, ref: Ref) -> Ended:
        """The job failed: its price goes back where it came from. RefusedError: unknown_charge, already_finished."""
        job = self._job(account_id, ref)
        if job.state == "done":
            raise RefusedError("already_finished")
        if job.state == "refunded":
            return Ended(job.cost, duplicate=True)
        job.state = "refunded"
        give_back(self.account(account_id), job.cost, job.from_bonus)
        return Ended(job.cost)

    def _job(self, account_id: str, ref: Ref) -> Job:
        job = self.account(account_id).jobs.get(ref)
        if job is None:
            raise RefusedError("unknown_charge")
        return job

    def put_plan(self, plan: Plan) -> None:
        """Put a plan on sale, or change it for everybody who has it."""
        known = self.plans.setdefault(plan.plan_id, plan)
        vars(known).update(vars(plan))

    def purchase(
        self, account_id: str, plan_id: str, key: str, now: int, *, new_cycle: bool = False, expected: int | None = None
    ) -> Bought:
        """Buy a plan from the balance, once for each idempotency key."""
        account = self.account(account_id)
        content = ("purchase", plan_id, new_cycle)
        if key in account.done:
            return _stored(account, key, content)
        if plan_id not in self.plans:
            raise RefusedError("plan_not_found")
        bought = plans.purchase(account, self.plans[plan_id], now, new_cycle=new_cycle, expected=expected)
        account.done[key] = (content, bought)
        return bought

    def grant_plan(
        self, account_id: str, plan_id: str, key: str, now: int, *, source: str, days: int = 0, paid: int = 0
    ) -> Bought:
        """Give a plan, once for each idempotency key."""
        account = self.account(account_id)
        content = ("grant", plan_id, source, days, paid)
        if key in account.done:
            return _stored(account, key, content)
        if plan_id not in self.plans:
            raise RefusedError("plan_not_found")
        bought = plans.grant(account, self.plans[plan_id], source, now, days, paid)
        account.done[key] = (content, bought)
        return bought

    def auto_renew(self, account_id: str, wanted: bool, now: int) -> None:
        """Whether the plan in force goes on at its end. RefusedError: no_plan."""
        account = self.account(account_id)
        if sums.active(account, now) is None:
            raise RefusedError("no_plan")
        account.auto_renew = wanted

    def renew(self, now: int) -> list[str]:
        """What happens at the end of plans; return the accounts whose plan was renewed."""
        return [one.account_id for one in self.accounts.values() if plans.end_or_renew(one, now)]

    def grant_coupon(self, account_id: str, coupon: Coupon) -> None:
        self.account(account_id).coupons.append(coupon)

    def grant_tokens(self, account_id: str, allocation: Allocation) -> None:
        self.account(account_id).allocations.append(allocation)


def _granted(account: Account, hold: Hold, left: dict[str, int] | None) -> Granted:
    return Granted(
        kind=hold.source.kind,
        max_tokens=hold.max_tokens,
        lowered=hold.max_tokens < hold.ask.max_tokens,
        hold=hold.amount,
        available=sums.available(account),
        plan_left=left,
    )


def _stored(account: Account, key: str, content: object) -> Bought:
    known, bought = account.done[key]
    if known != content:
        raise RefusedError("other_content")
    assert isinstance(bought, Bought)
    return Bought(bought.subscription, bought.paid, bought.balance, duplicate=True)
