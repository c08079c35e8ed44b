"""The commands about what an account pays with: its settings, caps of members and keys, refunds of jobs.

Registered in app.py. Plans, coupons and token allocations are given in plans.py.
"""

from typing import Any

import click
from kenari.accounts.v1 import accounts_pb2
from kenari.ledger.v1 import funding_pb2, ledger_pb2

from libs.core.errors import Permanent
from services.admin import show, show_funds
from services.admin.accounts import get
from services.admin.action import OrNone, Rupiah, action
from services.admin.members import person_of
from services.admin.peers import Peers


@click.group()
def funding() -> None:
    """What an account pays with, and what happens when it runs out."""


@action(funding, "show")
@click.argument("account_id")
async def show_funding(peers: Peers, account_id: str) -> dict[str, Any]:
    """Show settings, plan, coupons, token allocations and capped members of an account."""
    await get(peers, account_id)
    answer = await peers.funds("GetFunding", funding_pb2.GetFundingRequest(account_id=account_id))
    return show_funds.funding(account_id, answer)


@action(funding, "set")
@click.argument("account_id")
@click.option(
    "--keep-balance/--no-keep-balance", default=None, help="When quota is spent, go on at the expense of the balance."
)
@click.option("--free-fallback/--no-free-fallback", default=None, help="When quota is spent, go on with free models.")
@click.option(
    "--payg-limit",
    type=OrNone(Rupiah(zero=True)),
    help="The most that requests may take from the balance; none: no limit.",
)
@click.option("--payg-window", type=click.Choice(["day", "month"]), help="Of the limit: the last 24 hours or 30 days.")
@click.option("--alert-pct", type=click.Choice(["50", "80", "90"]), help="Percentage of a quota that raises the alert.")
@click.option("--low-balance", type=Rupiah(zero=True), help="Raise the alert below this balance; 0: never.")
async def set_funding(
    peers: Peers,
    account_id: str,
    payg_limit: int | None,
    payg_window: str | None,
    alert_pct: str | None,
    low_balance: int | None,
    **switches: bool | None,
) -> dict[str, Any]:
    """Change what its owner may choose of an account; what is not named stays."""
    if (payg_limit is None or payg_limit == OrNone.NONE) != (payg_window is None):
        raise click.UsageError("--payg-limit RUPIAH and --payg-window go together")
    await get(peers, account_id)
    request = funding_pb2.SetFundingRequest(
        account_id=account_id,
        payg_limit=_payg_limit(payg_limit, payg_window),
        alert_pct=None if alert_pct is None else int(alert_pct),
        low_balance_micro_idr=low_balance,
        **switches,
    )
    return show_funds.funding(account_id, await peers.funds("SetFunding", request))


@action(funding, "cap-member")
@click.argument("account_id")
@click.argument("email")
@click.argument("cap", type=OrNone(Rupiah(zero=True)))
async def cap_member(peers: Peers, account_id: str, email: str, cap: int) -> dict[str, Any]:
    """Set what a member may take from the balance in 30 days: CAP is an amount in Rupiah, or none."""
    person = await person_of(peers, email)
    lifted = cap == OrNone.NONE
    there = await peers.accounts("ListMembers", accounts_pb2.ListMembersRequest(account_id=account_id))
    if not lifted and person.person_id not in {one.person.person_id for one in there.members}:
        raise Permanent(f"{email} is no member of {account_id}", reason="not_found")
    request = funding_pb2.SetMemberCapRequest(
        account_id=account_id, member_id=person.person_id, cap_micro_idr=None if lifted else cap
    )
    kept = (await peers.funds("SetMemberCap", request)).member_cap
    return {
        "email": email,
        "member_id": person.person_id,
        "cap_micro_idr": None if lifted else kept.cap_micro_idr,
        "spent_micro_idr": None if lifted else kept.spent_micro_idr,
    }


@action(funding, "caps")
@click.argument("account_id")
async def key_caps(peers: Peers, account_id: str) -> list[dict[str, Any]]:
    """List what the account's capped keys have used of their caps in the present period."""
    answer = await peers.accounts("ListKeys", accounts_pb2.ListKeysRequest(account_id=account_id))
    rows = []
    for key in answer.keys:
        if not (key.spend_cap_micro_idr or key.token_cap):
            continue
        caps = ledger_pb2.KeyCaps(
            spend_micro_idr=key.spend_cap_micro_idr,
            tokens=key.token_cap,
            period=key.cap_period,
            epoch=key.cap_epoch,
        )
        request = funding_pb2.GetKeyUsageRequest(account_id=account_id, key_id=key.key_id, caps=caps)
        rows.append(show_funds.key_use(show.key(key), await peers.funds("GetKeyUsage", request)))
    return rows


@action(None, "refund")
@click.argument("request_id")
@click.option("--line", type=click.IntRange(0), default=0, show_default=True, help="Of a request with several charges.")
@click.option("--reason", type=click.Choice(["failed", "expired", "cancelled"]), default="failed", show_default=True)
async def refund(peers: Peers, request_id: str, line: int, reason: str) -> dict[str, Any]:
    """Give the charge of a job that was paid when accepted back; only before it is done, and once."""
    books = await peers.ledger("GetRequest", ledger_pb2.GetRequestRequest(request_id=request_id))
    hold = next((one for one in books.holds if one.line == line), None)
    if hold is None:
        raise Permanent(f"no such job: {request_id}, line {line}", reason="not_found")
    request = funding_pb2.RefundRequest(request_id=request_id, line=line, account_id=hold.account_id, reason=reason)
    answer = await peers.funds("Refund", request)
    return {
        "account_id": hold.account_id,
        "request_id": request_id,
        "line": line,
        "refunded_micro_idr": answer.refunded_micro_idr,
        "duplicate": answer.duplicate,
    }


def _payg_limit(amount: int | None, window: str | None) -> funding_pb2.PaygLimit | None:
    if amount is None:
        return None
    return funding_pb2.PaygLimit() if window is None else funding_pb2.PaygLimit(amount_micro_idr=amount, window=window)
