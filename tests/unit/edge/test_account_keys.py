"""Per-tool keys when their owner does not answer: a clear 500, and no key is left behind that nobody knows."""

import json
import time
from typing import Any

import pytest
from fastapi import FastAPI

from libs.core.errors import KenariError, Permanent, Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.edge.body import BodyReader
from services.edge.clients import ToolKey
from services.edge.endpoints import account_keys, reading
from services.edge.exchange import Exchange
from services.edge.http import PublicApp
from services.edge.keys import Caller
from services.edge.live import LiveRequests
from services.edge.settings import BodyLimits, Waits

BODY = b'{"tool": "codex", "host": "laptop"}'


class Keys:
    """Every caller is a login key."""

    async def caller(self, _: Exchange) -> Caller:
        return Caller("key_login", "acct_a", kind="login")

    def learn(self, key: Any) -> None:
        raise AssertionError(f"nothing was answered about {key}")


class Owner:
    """Answers everything with one error, or a list with keys, and notes what it was asked."""

    def __init__(self, error: KenariError, *keys: ToolKey) -> None:
        self._error = error
        self._keys = keys
        self.made: list[str] = []
        self.revoked: list[str] = []

    async def create_tool_key(self, login_key_id: str, tool: str, host: str, key_id: str) -> Any:
        self.made.append(key_id)
        raise self._error

    async def revoke_tool_key(self, login_key_id: str, key_id: str) -> Any:
        self.revoked.append(key_id)
        raise self._error

    async def tool_keys(self, login_key_id: str) -> Any:
        if self._keys:
            return self._keys
        raise self._error


class Connection:
    """A client that sends one body and takes the answer, as the server's connection object."""

    disconnected = False

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": BODY}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


async def ask(owner: Owner, method: str, path: str) -> tuple[int, bytes]:
    telemetry = Telemetry("edge", TelemetrySettings())
    app = FastAPI()
    app.include_router(account_keys.router)
    reading.install_handlers(app)
    app.state.keys = app.state.callers = Keys()
    app.state.accounts = owner
    app.state.live, app.state.bodies = LiveRequests(Waits(), telemetry), BodyReader(BodyLimits())
    public = PublicApp({}, app, frozenset(), telemetry.tracing)
    client = Connection()
    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "raw_path": b""}
    await public(scope, client.receive, client.send)
    return client.status, client.body


@pytest.mark.rule("KEY-039")
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/account/keys"), ("GET", "/v1/account/keys"), ("DELETE", "/v1/account/keys/key_a")],
)
async def test_an_owner_that_does_not_answer_is_a_500_in_json(method: str, path: str) -> None:
    status, body = await ask(Owner(Transient("away")), method, path)
    error = json.loads(body)["error"]
    assert (status, error["code"], error["type"]) == (500, "internal_error", "internal_error")


@pytest.mark.rule("KEY-039")
async def test_a_key_that_may_have_been_made_unanswered_is_revoked() -> None:
    owner = Owner(Transient("deadline"))
    await ask(owner, "POST", "/v1/account/keys")
    assert owner.made and owner.revoked == owner.made


async def test_a_login_key_that_has_just_ended_is_no_longer_a_key() -> None:
    owner = Owner(Permanent("gone", reason="not_found"))
    assert await ask(owner, "POST", "/v1/account/keys") == (401, b"invalid key")
    assert owner.revoked == []


async def test_a_refusal_nobody_described_says_nothing_of_its_cause() -> None:
    status, body = await ask(Owner(Permanent("secret detail", reason="odd")), "POST", "/v1/account/keys")
    assert status == 500 and b"secret" not in body


@pytest.mark.rule("KEY-032", "KEY-034", "KEY-035")
@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        ("child_key_cap", 409, "child_key_cap"),
        ("key_limit", 400, "bad_request"),
        ("key_creation_rate", 429, "rate_limit_exceeded"),
    ],
)
async def test_what_the_owner_refuses_is_told_in_the_contracts_codes(reason: str, status: int, code: str) -> None:
    owner = Owner(Permanent("why", reason=reason))
    told, body = await ask(owner, "POST", "/v1/account/keys")
    error = json.loads(body)["error"]
    assert (told, error["code"], error["type"], error["message"]) == (status, code, code, "why")
    assert owner.revoked == []


@pytest.mark.rule("KEY-023", "KEY-024")
async def test_a_use_of_more_than_90_days_ago_is_none() -> None:
    now_ms = int(time.time() * 1000)
    moments = [0, now_ms - 91 * 86_400_000, now_ms - 89 * 86_400_000]
    keys = [ToolKey(f"key_{moment}", "kn-aaaaaaaa", "label", 1_999, moment) for moment in moments]
    _, body = await ask(Owner(Transient("away"), *keys), "GET", "/v1/account/keys")
    data = json.loads(body)["data"]
    assert [key["last_used_at"] for key in data] == [None, None, moments[2] // 1000]
    assert [key["created_at"] for key in data] == [1, 1, 1]
