"""The commands about plans: what is sold, and who has one. Coupons and token allocations are given here as well.

Registered in app.py.
"""

from typing import Any

import click
from kenari.ledger.v1 import funding_pb2

from libs.core.errors import Permanent
from libs.core.ids import prefixed_id
from services.admin import show_funds
from services.admin.accounts import get
from services.admin.action import Moment, OrNone, Rupiah, action
from services.admin.peers import Peers, told_key

_ONCE = click.option("--idempotency-key", help="The same key again does nothing twice; chosen when missing.")
_UNTIL = click.option("--until", "expires_at_ms", required=True, type=Moment(), help="Its end in UTC.")
_CEILINGS = {"five_hour": "five hours", "week": "7 days", "month": "30 days"}


@click.group()
def plans() -> None:
    """Plans on sale, and the plans of accounts."""


@click.group()
def coupons() -> None:
    """Time-limited access to models, used before a plan."""


@click.group()
def tokens() -> None:
    """Token allocations, used after coupons and before a plan."""


@action(plans, "list")
@click.option("--all", "everything", is_flag=True, help="Those no longer sold too.")
async def list_plans(peers: Peers, everything: bool) -> list[dict[str, Any]]:
    """List the plans on sale, the cheapest first."""
    answer = await peers.funds("ListPlans", funding_pb2.ListPlansRequest(all=everything))
    return [show_funds.plan(plan) for plan in answer.plans]


def _ceilings(command: Any) -> Any:
    for name, length in _CEILINGS.items():
        help_text = f"What may be used in {length}, in Rupiah; none: no ceiling."
        command = click.option(f"--{name.replace('_', '-')}", name, type=OrNone(Rupiah()), help=help_text)(command)
    return command


@action(plans, "put")
@click.argument("plan_id")
@click.option("--name", help="As people see it.")
@click.option("--price", type=Rupiah(zero=True), help="Of 30 days.")
@_ceilings
@click.option("--model", "models", multiple=True, help="A model it covers. Can be repeated; replaces the list.")
@click.option("--free-cache", multiple=True, help="A covered model whose cache tokens spend nothing; likewise.")
@click.option(
    "--free-daily",
    type=OrNone(click.IntRange(0, 1_000_000)),
    help="Free requests a day, 0: no limit, none: the default of plans.",
)
@click.option("--daily-searches", type=click.IntRange(0, 1_000_000), help="Searches and page fetches a UTC day.")
async def put_plan(peers: Peers, plan_id: str, **wanted: Any) -> dict[str, Any]:
    """Sell a plan, or change it for everybody who has it; what is not named stays. Puts a retired plan on sale."""
    plan = await _plan(peers, plan_id)
    if plan is None:
        if wanted["name"] is None or wanted["price"] is None or not wanted["models"]:
            raise click.UsageError(f"there is no plan {plan_id} yet: a new one needs --name, --price and --model")
        plan = funding_pb2.Plan(plan_id=plan_id)
    _change(plan, wanted)
    plan.on_sale = True
    return show_funds.plan((await peers.funds("PutPlan", funding_pb2.PutPlanRequest(plan=plan))).plan)


def _change(plan: Any, wanted: dict[str, Any]) -> None:
    fields = {f"{name}_micro_idr": wanted[name] for name in ("price", *_CEILINGS)}
    fields |= {name: wanted[name] for name in ("name", "free_daily", "daily_searches")}
    for name, value in fields.items():
        if value == OrNone.NONE:
            plan.ClearField(name)
        elif value is not None:
            setattr(plan, name, value)
    for name in ("models", "free_cache"):
        if wanted[name]:
            plan.ClearField(name)
            getattr(plan, name).extend(wanted[name])


@action(plans, "retire")
@click.argument("plan_id")
async def retire_plan(peers: Peers, plan_id: str) -> dict[str, Any]:
    """Sell a plan no longer; whoever has it keeps it to the end of what is paid."""
    plan = await _plan(peers, plan_id)
    if plan is None:
        raise Permanent(f"there is no plan {plan_id}", reason="plan_not_found")
    plan.on_sale = False
    return show_funds.plan((await peers.funds("PutPlan", funding_pb2.PutPlanRequest(plan=plan))).plan)


@action(plans, "buy")
@click.argument("account_id")
@click.argument("plan_id")
@click.option("--expected-price", type=Rupiah(zero=True), help="Refuse when it costs anything else.")
@_ONCE
async def buy_plan(
    peers: Peers, account_id: str, plan_id: str, expected_price: int | None, idempotency_key: str | None
) -> dict[str, Any]:
    """Buy a plan from the balance: a first one, 30 more days of the same, or an upgrade."""
    await get(peers, account_id)
    return await _purchase(peers, idempotency_key, account_id, plan_id, expected_price_micro_idr=expected_price)


@action(plans, "restart")
@click.argument("account_id")
@_ONCE
async def restart_plan(peers: Peers, account_id: str, idempotency_key: str | None) -> dict[str, Any]:
    """Start the plan in force anew for its full price from the balance; the days left are forfeited."""
    await get(peers, account_id)
    funding = await peers.funds("GetFunding", funding_pb2.GetFundingRequest(account_id=account_id))
    if not funding.HasField("subscription"):
        raise Permanent(f"{account_id} never had a plan", reason="no_plan")
    return await _purchase(peers, idempotency_key, account_id, funding.subscription.plan_id, new_cycle=True)


async def _purchase(peers: Peers, key: str | None, account_id: str, plan_id: str, **more: Any) -> dict[str, Any]:
    once = key or prefixed_id("admin")
    request = funding_pb2.PurchasePlanRequest(account_id=account_id, plan_id=plan_id, idempotency_key=once, **more)
    async with told_key(once):
        return show_funds.bought(await peers.funds("PurchasePlan", request), once)


@action(plans, "grant")
@click.argument("account_id")
@click.argument("plan_id")
@click.option(
    "--source",
    type=click.Choice(["paid", "gift", "trial", "granted"]),
    default="granted",
    show_default=True,
    help="paid: paid outside of kenari.",
)
@click.option("--days", type=click.IntRange(1, 3_660), default=30, show_default=True)
@click.option("--paid", type=Rupiah(), help="What was paid outside; with --source paid only.")
@_ONCE
async def grant_plan(
    peers: Peers, account_id: str, plan_id: str, source: str, days: int, paid: int | None, idempotency_key: str | None
) -> dict[str, Any]:
    """Give a plan without taking anything from the balance; extends the same plan in force."""
    if paid and source != "paid":
        raise click.UsageError("--paid goes with --source paid")
    await get(peers, account_id)
    once = idempotency_key or prefixed_id("admin")
    request = funding_pb2.GrantPlanRequest(
        account_id=account_id,
        plan_id=plan_id,
        idempotency_key=once,
        source=source,
        days=days,
        paid_micro_idr=paid or 0,
    )
    async with told_key(once):
        return show_funds.bought(await peers.funds("GrantPlan", request), once)


@action(plans, "auto-renew")
@click.argument("account_id")
@click.argument("wanted", type=click.Choice(["on", "off"]))
async def set_auto_renew(peers: Peers, account_id: str, wanted: str) -> dict[str, Any]:
    """Renew an account's plan from its balance when it ends, or let it end."""
    await get(peers, account_id)
    request = funding_pb2.SetAutoRenewRequest(account_id=account_id, auto_renew=wanted == "on")
    return show_funds.subscription((await peers.funds("SetAutoRenew", request)).subscription)


@action(coupons, "grant")
@click.argument("account_id")
@click.argument("name")
@click.option("--model", "models", multiple=True, required=True, help="A model it pays for. Can be repeated.")
@click.option("--budget", type=Rupiah(), help="The most it pays; without limit when missing.")
@_UNTIL
@_ONCE
async def grant_coupon(
    peers: Peers, account_id: str, budget: int | None, idempotency_key: str | None, **plain: Any
) -> dict[str, Any]:
    """Give a coupon: the same key and content again give no second one."""
    await get(peers, account_id)
    once = idempotency_key or prefixed_id("admin")
    request = funding_pb2.GrantCouponRequest(
        account_id=account_id, idempotency_key=once, budget_micro_idr=budget, **plain
    )
    async with told_key(once):
        answer = await peers.funds("GrantCoupon", request)
    return {**show_funds.coupon(answer.coupon), "idempotency_key": once}


@action(tokens, "grant")
@click.argument("account_id")
@click.argument("tokens", type=click.IntRange(1, 10**15))
@click.option("--model", "models", multiple=True, help="A model it pays for; every model when missing.")
@_UNTIL
@_ONCE
async def grant_tokens(peers: Peers, account_id: str, idempotency_key: str | None, **plain: Any) -> dict[str, Any]:
    """Give TOKENS tokens, prompt and answer together: the same key and content again give no second ones."""
    await get(peers, account_id)
    once = idempotency_key or prefixed_id("admin")
    request = funding_pb2.GrantTokensRequest(account_id=account_id, idempotency_key=once, **plain)
    async with told_key(once):
        answer = await peers.funds("GrantTokens", request)
    return {**show_funds.allocation(answer.allocation), "idempotency_key": once}


async def _plan(peers: Peers, plan_id: str) -> funding_pb2.Plan | None:
    answer = await peers.funds("ListPlans", funding_pb2.ListPlansRequest(all=True))
    return next((plan for plan in answer.plans if plan.plan_id == plan_id), None)
