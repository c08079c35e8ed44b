"""POST and GET /v1/account/keys, DELETE /v1/account/keys/{id} (contract: Per-tool keys).

Part of the reading application, made by app.py; the keys' owner decides, and its reasons become the contract's codes.
"""

import asyncio
import contextlib
import json
import re
import time
from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from libs.core.errors import KenariError, Permanent, Transient
from libs.core.ids import prefixed_id
from services.edge.body import BodyReader, ClientLeftError
from services.edge.clients import AccountsClient, ToolKey
from services.edge.endpoints.reading import KeyManager
from services.edge.errors import INTERNAL, PlainRefusedError, RefusedError, refuse
from services.edge.exchange import Exchange
from services.edge.keys import KeyDirectory
from services.edge.live import Live, LiveRequests

router = APIRouter()

_REMEMBERED_MS = 90 * 86_400_000
_KEY_ID = re.compile(r"key_[A-Za-z0-9_-]{1,64}")
_REFUSALS = {
    "invalid": (400, "bad_request"),
    "key_limit": (400, "bad_request"),
    "child_key_cap": (409, "child_key_cap"),
    "key_creation_rate": (429, "rate_limit_exceeded"),
}
_NOT_FOUND = (404, "not_found", "there is no active per-tool key of this key with that id")


class CreatedKey(BaseModel):
    """A key told this once. ``created_at`` in epoch seconds."""

    id: str
    key: str
    prefix: str
    label: str
    created_at: int


class ListedKey(BaseModel):
    """An active key. Times in epoch seconds; null when no use within 90 days is known."""

    id: str
    prefix: str
    label: str
    created_at: int
    last_used_at: int | None


class KeyList(BaseModel):
    """All active per-tool keys of the calling key, newest first."""

    object: Literal["list"] = "list"
    data: list[ListedKey]


class RevokedKey(BaseModel):
    """The end of a key."""

    id: str
    revoked: Literal[True] = True


@router.post("/v1/account/keys", status_code=201, summary="Create a per-tool key")
async def create_key(request: Request, caller: KeyManager) -> CreatedKey:
    """A new key under the calling one; the same tool and host again make another."""
    tool, host = _wanted(await _body(request))
    accounts: AccountsClient = request.app.state.accounts
    key_id = prefixed_id("key")
    try:
        key, secret = await accounts.create_tool_key(caller.key_id, tool, host, key_id)
    except Transient as error:
        # It may have been made all the same, and nobody would ever know its secret.
        with contextlib.suppress(KenariError):
            await accounts.revoke_tool_key(caller.key_id, key_id)
        raise RefusedError(INTERNAL) from error
    except Permanent as error:
        raise _refused(error) from error
    return CreatedKey(
        id=key.key_id, key=secret, prefix=key.prefix, label=key.label, created_at=key.created_at_ms // 1000
    )


@router.get("/v1/account/keys", summary="List the per-tool keys of the calling key")
async def list_keys(request: Request, caller: KeyManager) -> KeyList:
    """The active ones, newest first; never the keys themselves."""
    accounts: AccountsClient = request.app.state.accounts
    try:
        keys = await accounts.tool_keys(caller.key_id)
    except KenariError as error:
        raise RefusedError(INTERNAL) from error
    now_ms = time.time_ns() // 1_000_000
    return KeyList(data=[_listed(key, now_ms) for key in keys])


@router.delete("/v1/account/keys/{key_id}", summary="Revoke a per-tool key")
async def revoke_key(request: Request, caller: KeyManager, key_id: str) -> RevokedKey:
    """Ends the key for good; any id but an active per-tool key's of the calling key is not found."""
    if not _KEY_ID.fullmatch(key_id):
        raise refuse(*_NOT_FOUND)
    accounts: AccountsClient = request.app.state.accounts
    keys: KeyDirectory = request.app.state.keys
    try:
        keys.learn(await accounts.revoke_tool_key(caller.key_id, key_id))
    except KenariError as error:
        raise (refuse(*_NOT_FOUND) if error.reason == "not_found" else RefusedError(INTERNAL)) from error
    return RevokedKey(id=key_id)


async def _body(request: Request) -> bytes:
    """The body, within the limits of every other; raise PlainRefusedError."""
    exchange: Exchange = request.state.exchange
    requests: LiveRequests = request.app.state.live
    bodies: BodyReader = request.app.state.bodies
    with Live(requests, exchange) as live:
        try:
            return await bodies.read(exchange, live)
        except ClientLeftError as error:
            raise PlainRefusedError(400, "the request ended before its body did") from error
        except asyncio.CancelledError:
            if not live.absorb_cancel():
                raise
            raise PlainRefusedError(408, "request body timed out") from None


def _wanted(body: bytes) -> tuple[str, str]:
    message = "the body must be a JSON object with the strings `tool` and `host`, both of ASCII characters"
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise refuse(400, "bad_request", message) from error
    match fields:
        # Half a surrogate pair is a string in JSON and none on the wire; which characters may be is the owner's to say.
        case {"tool": str(tool), "host": str(host)} if tool.isascii() and host.isascii():
            return tool, host
    raise refuse(400, "bad_request", message)


def _refused(error: Permanent) -> RefusedError | PlainRefusedError:
    if error.reason == "not_found":
        # The calling key has just been revoked.
        return PlainRefusedError(401, "invalid key")
    if error.reason not in _REFUSALS:
        return RefusedError(INTERNAL)
    status, code = _REFUSALS[error.reason]
    return refuse(status, code, str(error))


def _listed(key: ToolKey, now_ms: int) -> ListedKey:
    known = key.last_used_at_ms > now_ms - _REMEMBERED_MS
    return ListedKey(
        id=key.key_id,
        prefix=key.prefix,
        label=key.label,
        created_at=key.created_at_ms // 1000,
        last_used_at=key.last_used_at_ms // 1000 if known else None,
    )
