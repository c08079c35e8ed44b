"""The commands about accounts, their limits and their money.

Registered in app.py.
"""

from typing import Any

import click
from kenari.accounts.v1 import accounts_pb2
from kenari.ledger.v1 import ledger_pb2

from libs.core.ids import prefixed_id
from services.admin import show
from services.admin.action import Rupiah, action
from services.admin.peers import Peers, told_key

_PAGE = 1_000


@click.group()
def accounts() -> None:
    """Accounts: the workspaces that own balance and keys."""


@click.group()
def limits() -> None:
    """How fast an account may ask for paid models."""


@action(accounts, "list")
async def list_accounts(peers: Peers) -> list[dict[str, Any]]:
    """List all accounts by id."""
    rows: list[dict[str, Any]] = []
    last = ""
    while True:
        request = accounts_pb2.ListAccountsRequest(after_account_id=last, limit=_PAGE)
        page = (await peers.accounts("ListAccounts", request)).accounts
        rows += [show.account(account) for account in page]
        if len(page) < _PAGE:
            return rows
        last = page[-1].account_id


@action(accounts, "show")
@click.argument("account_id")
async def show_account(peers: Peers, account_id: str) -> dict[str, Any]:
    """Show an account with its balance."""
    account = await get(peers, account_id)
    balance = await peers.ledger("GetBalance", ledger_pb2.GetBalanceRequest(account_id=account_id))
    return {
        **show.account(account),
        "balance_micro_idr": balance.balance_micro_idr,
        "reserved_micro_idr": balance.reserved_micro_idr,
        "available_micro_idr": balance.available_micro_idr,
    }


@action(accounts, "create")
@click.argument("name")
@click.option("--id", "account_id", help="acct_ and up to 64 letters, digits, _ or -; makes a repeat harmless.")
async def create_account(peers: Peers, name: str, account_id: str | None) -> dict[str, Any]:
    """Make an account; the same --id and name again show the one there is."""
    request = accounts_pb2.CreateAccountRequest(account_id=account_id or prefixed_id("acct"), name=name)
    return show.account((await peers.accounts("CreateAccount", request)).account)


@action(accounts, "suspend")
@click.argument("account_id")
async def suspend(peers: Peers, account_id: str) -> dict[str, Any]:
    """Refuse all keys of an account from the next request on."""
    return await _set_status(peers, account_id, accounts_pb2.ACCOUNT_STATUS_SUSPENDED)


@action(accounts, "resume")
@click.argument("account_id")
async def resume(peers: Peers, account_id: str) -> dict[str, Any]:
    """Let the keys of a suspended account work again."""
    return await _set_status(peers, account_id, accounts_pb2.ACCOUNT_STATUS_ACTIVE)


@action(limits, "show")
@click.argument("account_id")
async def show_limits(peers: Peers, account_id: str) -> dict[str, Any]:
    """Show an account's own limits; - is the default."""
    return _limits(await get(peers, account_id))


@action(limits, "set")
@click.argument("account_id")
@click.option(
    "--requests-per-minute", required=True, type=click.IntRange(0, 1_000_000), help="On paid models; 0 is the default."
)
async def set_limits(peers: Peers, account_id: str, requests_per_minute: int) -> dict[str, Any]:
    """Set an account's own limits."""
    request = accounts_pb2.SetAccountLimitsRequest(account_id=account_id, requests_per_minute=requests_per_minute)
    return _limits((await peers.accounts("SetAccountLimits", request)).account)


@action(None, "credit")
@click.argument("account_id")
@click.argument("rupiah", type=Rupiah())
@click.option("--idempotency-key", help="The same key again credits nothing twice; chosen when missing.")
@click.option("--kind", type=click.Choice(["top_up", "bonus"]), default="top_up", show_default=True)
@click.option("--note", default="", help="Why, for the books.")
async def credit(
    peers: Peers, account_id: str, rupiah: int, idempotency_key: str | None, kind: str, note: str
) -> dict[str, Any]:
    """Add RUPIAH to an account's balance, once per idempotency key."""
    await get(peers, account_id)
    once = idempotency_key or prefixed_id("admin")
    request = ledger_pb2.CreditRequest(
        account_id=account_id, amount_micro_idr=rupiah, idempotency_key=once, kind=kind, note=note
    )
    async with told_key(once):
        answer = await peers.ledger("Credit", request)
    return {
        "account_id": account_id,
        "credited_micro_idr": 0 if answer.duplicate else rupiah,
        "balance_micro_idr": answer.balance_micro_idr,
        "duplicate": answer.duplicate,
        "idempotency_key": once,
    }


async def get(peers: Peers, account_id: str) -> accounts_pb2.Account:
    """The account, or Permanent with reason not_found."""
    request = accounts_pb2.GetAccountRequest(account_id=account_id)
    account: accounts_pb2.Account = (await peers.accounts("GetAccount", request)).account
    return account


async def _set_status(peers: Peers, account_id: str, status: "accounts_pb2.AccountStatus.ValueType") -> dict[str, Any]:
    request = accounts_pb2.SetAccountStatusRequest(account_id=account_id, status=status)
    return show.account((await peers.accounts("SetAccountStatus", request)).account)


def _limits(account: accounts_pb2.Account) -> dict[str, Any]:
    return {"account_id": account.account_id, "requests_per_minute": account.requests_per_minute or None}
