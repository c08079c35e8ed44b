"""Keys that end: revoked, suspended, expired; refused by the very next request."""

import time

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.system import Person, System

CHAT = "/v1/chat/completions"


def status(system: System, person: Person) -> tuple[int, str]:
    body = {"model": "sim-1:free", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    answer = httpx.post(system.base_url + CHAT, json=body, headers=person.headers)
    return answer.status_code, answer.text


def second_key(system: System, person: Person) -> Person:
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(account_id=person.account_id, label="second")
        made = accounts.CreateKey(request, timeout=10)
    return Person(person.account_id, made.key.key_id, made.secret)


def set_status(system: System, person: Person, value: accounts_pb2.AccountStatus.ValueType) -> None:
    with system.accounts() as accounts:
        request = accounts_pb2.SetAccountStatusRequest(account_id=person.account_id, status=value)
        accounts.SetAccountStatus(request, timeout=10)


@pytest.mark.rule("AUTH-012", "AUTH-013", "AUTH-015", "AUTH-039", "ERR-029")
def test_a_revoked_key_is_refused_by_the_next_request_and_the_others_work(system: System) -> None:
    for _ in range(5):
        person = system.person()
        other = second_key(system, person)
        assert person.key.startswith("kn-")
        assert status(system, person)[0] == status(system, other)[0] == 200
        with system.accounts() as accounts:
            accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=person.key_id), timeout=10)
        assert status(system, person) == (401, "invalid key")
        assert status(system, other)[0] == 200


@pytest.mark.rule("AUTH-042", "AUTH-043", "ERR-031")
def test_a_suspended_account_is_refused_on_all_its_keys_and_on_new_ones(system: System) -> None:
    person = system.person()
    other = second_key(system, person)
    assert status(system, person)[0] == status(system, other)[0] == 200
    set_status(system, person, accounts_pb2.ACCOUNT_STATUS_SUSPENDED)
    refused = (401, "invalid key")
    assert status(system, person) == status(system, other) == refused
    set_status(system, person, accounts_pb2.ACCOUNT_STATUS_ACTIVE)
    assert status(system, person)[0] == 200


@pytest.mark.rule("AUTH-046", "ERR-030")
def test_an_expired_key_is_refused(system: System) -> None:
    soon = int(time.time() * 1000) + 1_500
    person = system.person(expires_at_ms=soon)
    assert status(system, person)[0] == 200
    time.sleep(1.6)
    assert status(system, person) == (401, "invalid key")


@pytest.mark.rule("AUTH-027")
def test_a_cookie_is_no_key(system: System, person: Person) -> None:
    answer = httpx.post(system.base_url + CHAT, json={}, cookies={"session": person.key})
    assert (answer.status_code, answer.text) == (401, "missing authorization")


PUBLIC = {"/v1/models"}


@pytest.mark.rule("AUTH-011", "AUTH-033", "AUTH-034")
def test_every_endpoint_but_the_public_ones_needs_a_key(system: System) -> None:
    bad = {"authorization": "Bearer kn-bad"}
    with system.http() as client:
        paths = client.get("/openapi.json").json()["paths"]
        asked = 0
        for path, methods in paths.items():
            if "/v1/" not in path or path.removeprefix("/kyara") in PUBLIC:
                continue
            for method in methods:
                url = path.replace("{key_id}", "x").replace("{request_id}", "x")
                asked += 1
                for headers, text in (({}, "missing authorization"), (bad, "invalid key")):
                    answer = client.request(method, url, headers=headers)
                    assert answer.status_code == 401, (method, path)
                    assert text in answer.text
        assert asked >= 12
        for modality in ("", "?modality=embedding", "?modality=rerank", "?modality=moderation", "?modality=systemone"):
            for headers in ({}, bad):
                assert client.get(f"/v1/models{modality}", headers=headers).status_code == 200
