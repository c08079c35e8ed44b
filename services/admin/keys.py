"""The commands about API keys. A key itself is printed once, by the command that made it.

Registered in app.py.
"""

from typing import Any

import click
from kenari.accounts.v1 import accounts_pb2

from services.admin import show
from services.admin.action import action
from services.admin.peers import Peers


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
async def create_key(
    peers: Peers,
    account_id: str,
    label: str,
    kind: str,
    expires_in_days: int | None,
    models: tuple[str, ...],
    capabilities: tuple[str, ...],
) -> dict[str, Any]:
    """Make a key; it is shown this once."""
    request = accounts_pb2.CreateKeyRequest(
        account_id=account_id,
        label=label,
        kind=show.KINDS[kind],
        expires_in_days=expires_in_days or 0,
        models=models,
        capabilities=[show.CAPABILITIES[one] for one in capabilities],
    )
    made = await peers.accounts("CreateKey", request, retry=False)
    return {"key": made.secret, **show.key(made.key)}


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
