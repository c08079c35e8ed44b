"""How the tests of limits ask, and what a refusal must look like in each client format. Used by this folder."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from kenari.accounts.v1 import accounts_pb2

from tests.support.system import Person, System

CHAT, MESSAGES, RESPONSES, KYARA = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/kyara/v1/chat/completions",
)
COUNT = f"{MESSAGES}/count_tokens"
FORMATS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}

_HI = [{"role": "user", "content": "Hi"}]
_BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": _HI},
    KYARA: {"messages": _HI},
    MESSAGES: {"messages": _HI, "max_tokens": 20},
    COUNT: {"messages": _HI},
    RESPONSES: {"input": "Hi"},
}


def ask(
    system: System, person: Person, path: str = CHAT, model: str = "fx-oai", address: str = "", base: str = ""
) -> httpx.Response:
    """One request, as if from ``address``; anything without a body of its own is read."""
    headers = person.headers | ({"x-forwarded-for": address} if address else {})
    url = (base or system.base_url) + path
    if path not in _BODIES:
        return httpx.get(url, headers=headers, timeout=30, verify=False)
    return httpx.post(url, json={"model": model, **_BODIES[path]}, headers=headers, timeout=30, verify=False)


def at_once(asks: list[tuple[Any, ...]], workers: int = 12) -> list[httpx.Response]:
    """All of these requests by a few askers, in any order; each is what ``ask`` takes."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda arguments: ask(*arguments), asks))


def pace(system: System, person: Person, rpm: int) -> None:
    """Set the account's own requests a minute; in force once the limiter has heard of it."""
    with system.accounts() as accounts:
        request = accounts_pb2.SetAccountLimitsRequest(account_id=person.account_id, requests_per_minute=rpm)
        accounts.SetAccountLimits(request, timeout=10)


def shared_key(system: System, owner: Person, **fields: Any) -> Person:
    """A key of that account in somebody else's hands."""
    fields = {"models": ["fx-oai", "fx-free:free"], "expires_in_days": 1, **fields}
    with system.accounts() as accounts:
        made = accounts.CreateKey(
            accounts_pb2.CreateKeyRequest(
                account_id=owner.account_id, label="share", kind=accounts_pb2.KEY_KIND_SHARED, **fields
            ),
            timeout=10,
        )
    return Person(owner.account_id, made.key.key_id, made.secret)


def check_refused(answer: httpx.Response, format: str, code: str) -> None:
    """The answer is a 429 of that code in the format's envelope, and nothing else."""
    assert answer.status_code == 429, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    body = answer.json()
    if format == "messages":
        message = body["error"].pop("message")
        assert body == {"type": "error", "error": {"type": "rate_limit_error"}}
    else:
        message = body["error"].pop("message")
        assert body == {"error": {"type": "rate_limit_exceeded", "code": code, "param": None}}
    assert message
    assert not {name for name in answer.headers if name.startswith("x-ratelimit")}
