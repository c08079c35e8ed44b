"""Keys that end, on every edge at once, and keys that go nowhere but to the edge: cases C065 and C067."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.cases.answers import says_ok
from tests.cases.caller import CHAT, MESSAGES, Caller, user
from tests.cases.catalog import PROVIDER_KEY
from tests.support.background import BackgroundProvider
from tests.support.provider import error
from tests.support.second_edge import FurtherEdge, further_edge
from tests.support.system import Person, System

KEYS = "/v1/account/keys"
FREE = {"model": "fx-free:free", "messages": [user("Hi")]}
PAID = {"model": "fx-oai", "messages": [user("Hi")]}


@pytest.fixture(scope="module")
def further(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FurtherEdge]:
    """Another edge, whose log says all it can say."""
    directory = tmp_path_factory.mktemp("further")
    with further_edge(system, directory, {"KENARI_TELEMETRY__LOG_LEVEL": "DEBUG"}) as edge:
        yield edge


def ask(base_url: str, key: str) -> httpx.Response:
    return httpx.post(base_url + CHAT, json=FREE, headers={"authorization": f"Bearer {key}"}, timeout=30)


def refused(answer: httpx.Response, text: str = "invalid key") -> bool:
    assert answer.headers["content-type"].startswith("text/plain")
    return (answer.status_code, answer.text) == (401, text)


def tool_key(client: httpx.Client, tool: str) -> dict[str, Any]:
    answer = client.post(KEYS, json={"tool": tool, "host": "laptop"})
    assert answer.status_code == 201
    made: dict[str, Any] = answer.json()
    assert made["key"].startswith(made["prefix"])
    assert made["label"] == f"kenari-cli · {tool} · laptop"
    return made


@pytest.mark.rule("AUTH-039", "AUTH-040", "KEY-026", "KEY-027", "KEY-028", "KEY-030", "KEY-036")
def test_c065_an_ended_key_is_refused_at_once_on_every_edge(
    system: System, p1: BackgroundProvider, further: FurtherEdge
) -> None:
    login = system.person(rupiahs=0, kind=accounts_pb2.KEY_KIND_LOGIN)
    edges = (system.base_url, further.base_url)
    with system.http(login) as client, system.accounts() as accounts:
        first, second = tool_key(client, "opencode"), tool_key(client, "codex")
        # Both edges have seen both keys work: what they remember of them is good.
        assert all(ask(edge, made["key"]).status_code == 200 for edge in edges for made in (first, second))
        gone = client.delete(f"{KEYS}/{first['id']}")
        assert (gone.status_code, gone.json()) == (200, {"id": first["id"], "revoked": True})
        assert all(refused(ask(edge, first["key"])) for edge in edges)
        assert all(ask(edge, second["key"]).status_code == 200 for edge in edges)
        again = client.delete(f"{KEYS}/{first['id']}")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
        accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=login.key_id), timeout=10)
    assert all(refused(ask(edge, key)) for edge in edges for key in (second["key"], login.key))
    assert refused(httpx.get(system.base_url + KEYS, headers={"authorization": f"Bearer {second['key']}"}))


@pytest.mark.rule("AUTH-046")
def test_c065_an_expired_key_is_refused_on_every_edge(
    system: System, p1: BackgroundProvider, further: FurtherEdge
) -> None:
    ends_ms = int(time.time() * 1000) + 3_000
    expiring = system.person(rupiahs=0, expires_at_ms=ends_ms)
    edges = (system.base_url, further.base_url)
    assert all(ask(edge, expiring.key).status_code == 200 for edge in edges)
    time.sleep(max(0.0, ends_ms / 1000 - time.time()) + 0.01)
    assert all(refused(ask(edge, expiring.key)) for edge in edges)


@pytest.mark.rule("AUTH-010", "AUTH-023", "AUTH-026", "AUTH-029", "AUTH-031")
def test_c067_a_key_goes_nowhere_but_to_the_edge(system: System, p1: BackgroundProvider, further: FurtherEdge) -> None:
    person = system.person()
    key = {"authorization": f"Bearer {person.key}"}
    p1.answers(error(401, "bad key"), says_ok)
    with httpx.Client(base_url=further.base_url, timeout=30) as client:
        in_the_url = client.post(CHAT, params={"api_key": person.key, "key": person.key}, json=FREE)
        assert refused(in_the_url, "missing authorization")
        assert not p1.requests
        rejected = client.post(CHAT, json=PAID, headers={**key, "cookie": "session=1"})
        spoken = client.post(
            MESSAGES, json={**PAID, "max_tokens": 20}, headers={"x-api-key": person.key, "x-custom": "custom-value"}
        )
        assert spoken.status_code == 200
        broken = client.post(CHAT, content=b"{bad json", headers={**key, "content-type": "application/json"})
        assert (broken.status_code, broken.json()["error"]["code"]) == (400, "bad_request")
        preflight = client.options(
            MESSAGES,
            headers={
                "origin": "https://app.example",
                "access-control-request-method": "POST",
                "access-control-request-headers": "x-api-key, anthropic-version",
            },
        )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    allowed = {name.strip() for name in preflight.headers["access-control-allow-headers"].split(",")}
    assert {"x-api-key", "anthropic-version"} <= allowed
    exposed = {name.strip() for name in rejected.headers["access-control-expose-headers"].split(",")}
    assert {"x-request-id", "request-id"} <= exposed
    for received in p1.requests:
        told = str((received.path, received.headers, received.body))
        assert person.key not in told
        assert "session=1" not in told and "custom-value" not in told
    assert p1.requests
    log = further.log_file.read_text()
    assert "attempt failed" in log
    for secret in (person.key, *PROVIDER_KEY.values()):
        assert secret not in log


@pytest.mark.rule("AUTH-010")
def test_c067_a_made_up_key_in_the_url_is_no_key_either(caller: Caller) -> None:
    with caller.system.http(Person("", "", f"kn-{secrets.token_urlsafe(32)}")) as client:
        assert refused(client.post(CHAT, params={"key": caller.person.key}, json=FREE))
