"""Per-tool keys over HTTP: who may manage them, what is answered, and that a revoked one is refused at once."""

import secrets
import time
from functools import partial
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.system import Person, System, eventually

KEYS = "/v1/account/keys"
CHAT = "/v1/chat/completions"
LOGIN = accounts_pb2.KEY_KIND_LOGIN
SHARED = accounts_pb2.KEY_KIND_SHARED
WANTED = {"tool": "opencode", "host": "laptop"}
INVALID = (401, "invalid key")


@pytest.fixture
def login(system: System) -> Person:
    """A login key of a fresh account."""
    return system.person(rupiahs=0, kind=LOGIN)


def key_of(system: System, account: Person, **fields: Any) -> Person:
    """Another key of that account."""
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(account_id=account.account_id, **fields)
        made = accounts.CreateKey(request, timeout=10)
    return Person(account.account_id, made.key.key_id, made.secret)


def create(system: System, person: Person, body: Any = WANTED) -> httpx.Response:
    with system.http(person) as client:
        return client.post(KEYS, json=body)


def tool(system: System, person: Person) -> Person:
    """A per-tool key made over HTTP."""
    answer = create(system, person)
    assert answer.status_code == 201, answer.text
    return Person(person.account_id, answer.json()["id"], answer.json()["key"])


def listed(system: System, person: Person) -> list[dict[str, Any]]:
    with system.http(person) as client:
        answer = client.get(KEYS)
    assert answer.status_code == 200
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def delete(system: System, person: Person, key_id: str) -> httpx.Response:
    with system.http(person) as client:
        return client.delete(f"{KEYS}/{key_id}")


def chat(system: System, person: Person) -> tuple[int, str]:
    body = {"model": "sim-1:free", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    with system.http(person) as client:
        answer = client.post(CHAT, json=body)
    return answer.status_code, answer.text


def answers(system: System, person: Person, status: int) -> bool:
    return chat(system, person)[0] == status


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    assert error["param"] is None
    return answer.status_code, error["code"], error["type"]


@pytest.mark.rule("KEY-001", "KEY-009", "KEY-013", "KEY-014", "KEY-015", "KEY-017", "KEY-021", "KEY-024", "KEY-026")
def test_a_per_tool_key_from_making_to_revoking(system: System, login: Person) -> None:
    answer = create(system, login)
    made = answer.json()
    assert answer.status_code == 201
    assert list(made) == ["id", "key", "prefix", "label", "created_at"]
    assert made["key"].startswith(made["prefix"]) and made["prefix"].startswith("kn-") and len(made["prefix"]) == 11
    assert made["label"] == "kenari-cli · opencode · laptop"
    assert type(made["created_at"]) is int and abs(made["created_at"] - time.time()) < 10
    with system.http(login) as client:
        shown = client.get(KEYS)
    entry = {name: made[name] for name in ("id", "prefix", "label", "created_at")}
    assert shown.json() == {"object": "list", "data": [{**entry, "last_used_at": None}]}
    assert made["key"] not in shown.text
    revoked = delete(system, login, made["id"])
    assert (revoked.status_code, revoked.json()) == (200, {"id": made["id"], "revoked": True})
    assert listed(system, login) == []


@pytest.mark.rule("KEY-013", "KEY-018", "KEY-027", "KEY-030", "KEY-038", "ACC-020")
def test_a_per_tool_key_works_at_once_and_is_refused_by_the_next_request_once_revoked(system: System) -> None:
    login = system.person(kind=LOGIN)
    before = system.balance(login)
    for _ in range(5):
        first, second = tool(system, login), tool(system, login)
        assert chat(system, first)[0] == chat(system, second)[0] == 200
        assert system.balance(first) == before
        assert delete(system, login, first.key_id).status_code == 200
        assert chat(system, first) == INVALID
        assert chat(system, second)[0] == chat(system, login)[0] == 200


@pytest.mark.rule("KEY-023")
def test_the_last_use_shows_within_seconds(system: System, login: Person) -> None:
    used, _ = tool(system, login), tool(system, login)
    began = int(time.time())
    assert chat(system, used)[0] == 200
    eventually(lambda: any(key["last_used_at"] is not None for key in listed(system, login)))
    newest, oldest = listed(system, login)
    assert newest["last_used_at"] is None
    assert began <= oldest["last_used_at"] <= time.time()


@pytest.mark.rule("KEY-019", "KEY-038")
def test_requests_of_a_per_tool_key_are_the_accounts_and_name_it(system: System) -> None:
    login = system.person(kind=LOGIN)
    child = tool(system, login)
    assert system.usage(login) == []
    with system.http(child) as client:
        assert client.post(CHAT, json={"model": "fx-oai", "messages": [{"role": "user", "content": "x"}]}).is_success
    rows = eventually(lambda: system.usage(login))
    assert [row["api_key_id"] for row in rows] == [child.key_id]
    assert rows[0]["cost_micro_idr"] > 0


@pytest.mark.rule("KEY-002", "KEY-003", "KEY-004", "KEY-005", "KEY-006", "KEY-007", "KEY-008")
def test_only_an_unrestricted_login_key_manages_keys(system: System, login: Person) -> None:
    child = tool(system, login)
    wrong = "cli_login_key_required"
    restricted = "restricted_key_not_allowed"
    callers = [
        (key_of(system, login), wrong),
        (child, wrong),
        (key_of(system, login, models=["sim-1:free"]), restricted),
        (key_of(system, login, spend_cap_micro_idr=1_000_000), restricted),
        (key_of(system, login, token_cap=1), restricted),
        (
            key_of(system, login, kind=SHARED, models=["sim-1:free"], expires_in_days=1, token_cap=1),
            "shared_key_not_allowed",
        ),
    ]
    for caller, code in callers:
        with system.http(caller) as client:
            answers = [client.post(KEYS, json=WANTED), client.get(KEYS), client.delete(f"{KEYS}/{child.key_id}")]
            # Who may call is judged before what was sent.
            answers += [client.post(KEYS, content=b"no json"), client.delete(f"{KEYS}/x")]
        for answer in answers:
            assert refusal(answer) == (403, code, "permission_error")
    for headers in ({}, {"authorization": f"Bearer kn-{'x' * 43}"}):
        with httpx.Client(base_url=system.base_url, headers=headers) as client:
            for answer in (client.post(KEYS, json=WANTED), client.get(KEYS), client.delete(f"{KEYS}/x")):
                assert (answer.status_code, answer.text) in [(401, "missing authorization"), INVALID]
                assert answer.headers["content-type"].startswith("text/plain")
    assert [key["id"] for key in listed(system, login)] == [child.key_id]


@pytest.mark.rule("ACC-005", "AUTH-071")
def test_a_shared_key_reads_no_account_data_and_uses_only_its_models(system: System, login: Person) -> None:
    shared = key_of(system, login, kind=SHARED, models=["sim-1:free", "sim-1"], expires_in_days=90, token_cap=100)
    assert chat(system, shared)[0] == 200
    with system.http(shared) as client:
        refused = client.post(CHAT, json={"model": "fx-oai", "messages": [{"role": "user", "content": "x"}]})
        reads = [client.get("/v1/account/balance"), client.get("/v1/usage/log")]
    assert refusal(refused) == (400, "bad_request", "bad_request")
    assert "sim-1, sim-1:free" in refused.json()["error"]["message"]
    assert [refusal(read) for read in reads] == [(403, "shared_key_not_allowed", "permission_error")] * 2


@pytest.mark.rule("ACC-002", "ACC-006", "ACC-020")
def test_caps_and_scope_restrict_a_key_and_expiry_and_label_do_not(system: System, login: Person) -> None:
    scoped = {"models": ["sim-1"]}
    for restriction in (scoped, {"spend_cap_micro_idr": 1}, {"token_cap": 1}):
        with system.http(key_of(system, login, **restriction)) as client:
            answer = client.get("/v1/account/balance")
            assert refusal(answer) == (403, "restricted_key_not_allowed", "permission_error")
            assert client.get("/v1/usage/log").status_code == 200
    plain = key_of(system, login, label="laptop", expires_in_days=3)
    for person in (plain, login, tool(system, login)):
        with system.http(person) as client:
            assert client.get("/v1/account/balance").status_code == 200
            assert client.get("/v1/usage/log").status_code == 200


@pytest.mark.rule("KEY-010", "KEY-011", "KEY-012")
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"tool": "a"}', b'{"host": "a"}', b'{"tool": 1, "host": "a"}', b"\xff" * 9,
     b'{"tool": "", "host": "a"}', b'{"tool": "A", "host": "a"}', b'{"tool": "a_b", "host": "a"}',
     b'{"tool": "a", "host": ""}', b'{"tool": "a", "host": "a b"}', b'{"tool": "\\ud800", "host": "a"}',
     b'{"tool": "a", "host": "\\u0000"}', b'{"tool": null, "host": "a"}', b"[" * 100_000,
     b'{"tool": "' + b"a" * 41 + b'", "host": "a"}', b'{"tool": "a", "host": "' + b"a" * 65 + b'"}'],
)  # fmt: skip
def test_a_wrong_body_is_a_400_in_json(system: System, login: Person, body: bytes) -> None:
    with system.http(login) as client:
        answer = client.post(KEYS, content=body, headers={"content-type": "application/json"})
    assert refusal(answer) == (400, "bad_request", "bad_request")
    assert listed(system, login) == []


@pytest.mark.rule("KEY-022", "KEY-028", "KEY-029", "KEY-031")
def test_any_other_id_is_not_found_with_the_same_body(system: System, login: Person) -> None:
    other_login = key_of(system, login, kind=LOGIN)
    stranger = system.person(rupiahs=0, kind=LOGIN)
    mine = tool(system, login)
    ended = tool(system, login)
    with system.accounts() as accounts:
        accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=ended.key_id), timeout=10)
    assert [key["id"] for key in listed(system, login)] == [mine.key_id]
    assert listed(system, other_login) == []
    ids = [
        "key_" + secrets.token_hex(16),
        ended.key_id,
        tool(system, stranger).key_id,
        tool(system, other_login).key_id,
        key_of(system, login).key_id,
        login.key_id,
        "e72755dd-ea6b-4d93-9e96-eb4c817824d0",
        "%00",
        "a%20b",
        "x" * 2_000,
    ]
    answers = [delete(system, login, key_id) for key_id in ids]
    assert {refusal(answer) for answer in answers} == {(404, "not_found", "not_found")}
    assert len({answer.text for answer in answers}) == 1
    assert chat(system, mine)[0] == 200


@pytest.mark.rule("KEY-025")
def test_the_list_takes_no_parameters_and_is_whole(system: System, login: Person) -> None:
    # Twice as many as a page of anything here, and as many as may be asked for within a minute.
    made = [tool(system, login).key_id for _ in range(20)]
    with system.http(login) as client:
        for query in ("", "?limit=1&page=2", "?limit=none"):
            shown = client.get(KEYS + query).json()
            assert set(shown) == {"object", "data"}
            assert [key["id"] for key in shown["data"]] == made[::-1]


@pytest.mark.rule("KEY-035", "LIMIT-018", "LIMIT-020")
def test_the_21st_request_within_a_minute_is_a_429_without_retry_after(system: System, login: Person) -> None:
    with system.http(login) as client:
        made = [client.post(KEYS, json=WANTED).status_code for _ in range(20)]
        refused = client.post(KEYS, json=WANTED)
        assert len(client.get(KEYS).json()["data"]) == 20
    assert made == [201] * 20
    assert refusal(refused) == (429, "rate_limit_exceeded", "rate_limit_exceeded")
    assert "retry-after" not in refused.headers
    assert create(system, key_of(system, login, kind=LOGIN)).status_code == 201


@pytest.mark.rule("KEY-034")
def test_at_the_accounts_limit_creation_is_refused_with_its_message(system: System, login: Person) -> None:
    with system.accounts() as accounts:
        for _ in range(99):
            accounts.CreateKey(accounts_pb2.CreateKeyRequest(account_id=login.account_id), timeout=10)
    answer = create(system, login)
    assert refusal(answer) == (400, "bad_request", "bad_request")
    assert answer.json()["error"]["message"] == "key limit reached"


@pytest.mark.rule("AUTH-040", "KEY-036", "KEY-037")
@pytest.mark.parametrize("ending", ["revoke", "rotate"])
def test_a_login_key_takes_its_per_tool_keys_along(system: System, login: Person, ending: str) -> None:
    child = tool(system, login)
    assert chat(system, child)[0] == 200
    with system.accounts() as accounts:
        if ending == "revoke":
            accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=login.key_id), timeout=10)
        else:
            made = accounts.RotateKey(accounts_pb2.RotateKeyRequest(key_id=login.key_id), timeout=10)
            new = Person(login.account_id, made.key.key_id, made.secret)
            assert refusal(create(system, new))[1] == "cli_login_key_required"
            assert chat(system, new)[0] == 200
    assert chat(system, child) == chat(system, login) == INVALID


def test_a_paused_key_is_refused_until_it_is_enabled_again(system: System, login: Person) -> None:
    for disabled, status in ((True, 401), (False, 200)):
        with system.accounts() as accounts:
            request = accounts_pb2.SetKeyDisabledRequest(key_id=login.key_id, disabled=disabled)
            accounts.SetKeyDisabled(request, timeout=10)
        eventually(partial(answers, system, login, status))


@pytest.mark.rule("AUTH-025")
def test_methods_nobody_described_are_a_405(system: System, login: Person) -> None:
    with system.http(login) as client:
        for method, path in (("GET", f"{KEYS}/x"), ("PUT", KEYS), ("DELETE", KEYS), ("DELETE", f"{KEYS}/x/y")):
            assert client.request(method, path).status_code == 405
        preflight = client.options(f"{KEYS}/x", headers={"access-control-request-method": "DELETE"})
    assert preflight.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"


def test_the_description_shows_the_endpoints(system: System) -> None:
    paths = httpx.get(f"{system.base_url}/openapi.json").json()["paths"]
    assert set(paths[KEYS]) == {"get", "post"}
    assert set(paths[KEYS]["post"]["responses"]) == {"201", "400", "401", "403", "409", "429", "500"}
    assert set(paths[KEYS + "/{key_id}"]["delete"]["responses"]) == {"200", "401", "403", "404", "429", "500"}
