"""The commands about API keys. A key itself is printed once, by the command that made it.

Registered in app.py.
"""

from typing import Any

import click
from kenari.accounts.v1 import accounts_pb2

from services.admin import show
from services.admin.action import Rupiah, action
from services.admin.members import person_of
from services.admin.peers import Peers

_PERIOD = click.Choice(list(show.PERIODS))
_RATE = click.IntRange(0, 1_000_000_000)


@click.group()
def keys() -> None:
    """API keys of an account."""


@action(keys, "list")
@click.argument("account_id")
async def list_keys(peers: Peers, account_id: str) -> list[dict[str, Any]]:
    """List all keys of an account, revoked ones too, oldest first."""
    answer = await peers.accounts("ListKeys", accounts_pb2.ListKeysRequest(account_id=account_id))
    return [show.key(key) for key in answer.keys]


@action(keys, "create")
@click.argument("account_id")
@click.option("--label", default="", help="To tell keys apart.")
@click.option("--kind", type=click.Choice(list(show.KINDS)), default="dashboard", show_default=True)
@click.option("--expires-in-days", type=click.IntRange(1, 36_500), help="Never when missing; 1 to 90 for a shared key.")
@click.option("--model", "models", multiple=True, help="A model it may use; all when missing. Can be repeated.")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    type=click.Choice(list(show.CAPABILITIES)),
    help="A paid feature that a key with models may use. Can be repeated.",
)
@click.option("--spend-cap", type=Rupiah(), help="The most it may spend, at catalogue prices.")
@click.option("--token-cap", type=click.IntRange(1), help="The most tokens, prompt and answer together.")
@click.option(
    "--cap-period", type=_PERIOD, default="never", show_default=True, help="When its caps start anew, in UTC."
)
@click.option(
    "--allow-ip", "allowed_ips", multiple=True, help="An address or network it may come from. Can be repeated."
)
@click.option("--requests-per-minute", type=_RATE, default=0, help="Its own limit; none when missing.")
@click.option("--tokens-per-minute", type=_RATE, default=0, help="Its own limit; none when missing.")
@click.option("--member", "member_email", help="The member, by address, whose key it is.")
@click.option("--note", default="", help="Words for the public page of a shared key.")
async def create_key(
    peers: Peers,
    account_id: str,
    expires_in_days: int | None,
    kind: str,
    capabilities: tuple[str, ...],
    spend_cap: int | None,
    token_cap: int | None,
    cap_period: str,
    member_email: str | None,
    **plain: Any,
) -> dict[str, Any]:
    """Make a key; it is shown this once."""
    request = accounts_pb2.CreateKeyRequest(
        account_id=account_id,
        kind=show.KINDS[kind],
        expires_in_days=expires_in_days or 0,
        capabilities=[show.CAPABILITIES[one] for one in capabilities],
        spend_cap_micro_idr=spend_cap or 0,
        token_cap=token_cap or 0,
        cap_period=show.PERIODS[cap_period],
        member_id=(await person_of(peers, member_email)).person_id if member_email else "",
        **plain,
    )
    made = await peers.accounts("CreateKey", request, retry=False)
    return {"key": made.secret, **show.key(made.key)}


@action(keys, "limit")
@click.argument("key_id")
@click.option("--spend-cap", type=Rupiah(), help="The most it may spend, at catalogue prices.")
@click.option("--no-spend-cap", is_flag=True, help="Lift the spend cap.")
@click.option("--cap-period", type=_PERIOD, help="When its caps start anew, in UTC.")
@click.option("--allow-ip", "allowed_ips", multiple=True, help="The addresses and networks instead of those it has.")
@click.option("--any-ip", is_flag=True, help="Let it come from any address.")
@click.option("--requests-per-minute", type=_RATE, help="0: no limit of its own.")
@click.option("--tokens-per-minute", type=_RATE, help="0: no limit of its own.")
async def limit_key(
    peers: Peers,
    key_id: str,
    spend_cap: int | None,
    no_spend_cap: bool,
    cap_period: str | None,
    allowed_ips: tuple[str, ...],
    any_ip: bool,
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
) -> dict[str, Any]:
    """Change what limits a key that is not shared; what is not named stays. Token caps are fixed."""
    if (spend_cap and no_spend_cap) or (allowed_ips and any_ip):
        raise click.UsageError("a limit is either set or lifted")
    request = accounts_pb2.SetKeyLimitsRequest(
        key_id=key_id,
        spend_cap_micro_idr=0 if no_spend_cap else spend_cap,
        cap_period=None if cap_period is None else show.PERIODS[cap_period],
        allowed_ips=accounts_pb2.AllowedIps(entries=allowed_ips) if allowed_ips or any_ip else None,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
    )
    return show.key((await peers.accounts("SetKeyLimits", request)).key)


@action(keys, "reset-caps")
@click.argument("key_id")
async def reset_caps(peers: Peers, key_id: str) -> dict[str, Any]:
    """Start the count of a key's caps anew; not for shared keys, nor without a spend cap."""
    answer = await peers.accounts("ResetKeyCaps", accounts_pb2.ResetKeyCapsRequest(key_id=key_id), retry=False)
    return show.key(answer.key)


@action(keys, "share")
@click.argument("link_token")
async def show_share(peers: Peers, link_token: str) -> dict[str, Any]:
    """Show what the public page of a shared key shows."""
    return show.share(await peers.accounts("GetSharedKey", accounts_pb2.GetSharedKeyRequest(link_token=link_token)))


@action(keys, "rotate")
@click.argument("key_id")
async def rotate_key(peers: Peers, key_id: str) -> dict[str, Any]:
    """Replace a key by a new one with the same settings; it is shown this once. A login key's per-tool keys end."""
    made = await peers.accounts("RotateKey", accounts_pb2.RotateKeyRequest(key_id=key_id), retry=False)
    return {"key": made.secret, **show.key(made.key)}


@action(keys, "rename")
@click.argument("key_id")
@click.argument("label")
async def rename_key(peers: Peers, key_id: str, label: str) -> dict[str, Any]:
    """Change the label of a key."""
    request = accounts_pb2.RenameKeyRequest(key_id=key_id, label=label)
    return show.key((await peers.accounts("RenameKey", request)).key)


@action(keys, "revoke")
@click.argument("key_id")
async def revoke_key(peers: Peers, key_id: str) -> dict[str, Any]:
    """End a key for good, a login key with its per-tool keys."""
    return show.key((await peers.accounts("RevokeKey", accounts_pb2.RevokeKeyRequest(key_id=key_id))).key)


@action(keys, "disable")
@click.argument("key_id")
async def disable_key(peers: Peers, key_id: str) -> dict[str, Any]:
    """Refuse this one key until it is enabled again."""
    return await _set_disabled(peers, key_id, disabled=True)


@action(keys, "enable")
@click.argument("key_id")
async def enable_key(peers: Peers, key_id: str) -> dict[str, Any]:
    """Let a disabled key work again."""
    return await _set_disabled(peers, key_id, disabled=False)


async def _set_disabled(peers: Peers, key_id: str, *, disabled: bool) -> dict[str, Any]:
    request = accounts_pb2.SetKeyDisabledRequest(key_id=key_id, disabled=disabled)
    return show.key((await peers.accounts("SetKeyDisabled", request)).key)
