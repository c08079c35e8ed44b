"""Where a key may be used from and what it may name, in every client format, and shares with their public links."""

import grpc
import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.system import Person, System, eventually

FORMATS = {
    "chat": ("/v1/chat/completions", "messages"),
    "messages": ("/v1/messages", "messages"),
    "responses": ("/v1/responses", "input"),
}
SHARED = {"kind": accounts_pb2.KEY_KIND_SHARED, "models": ["sim-1:free"], "expires_in_days": 1}


def ask(system: System, person: Person, format: str, model: str = "sim-1:free", **headers: str) -> httpx.Response:
    path, turns = FORMATS[format]
    body = {"model": model, turns: [{"role": "user", "content": "x"}], "max_tokens": 1}
    with system.http(person) as client:
        return client.post(path, json=body, headers=headers)


def refusal(answer: httpx.Response, format: str) -> tuple[int, str, str]:
    """Status, type and code; Messages has no code."""
    error = answer.json()["error"]
    assert set(error) == ({"type", "message"} if format == "messages" else {"type", "message", "param", "code"})
    return answer.status_code, error["type"], error.get("code", "")


@pytest.mark.parametrize("format", FORMATS)
def test_a_key_is_refused_from_elsewhere_in_the_callers_format(system: System, format: str) -> None:
    here = system.person(rupiahs=0, allowed_ips=["127.0.0.0/8", "2001:db8::/48"])
    elsewhere = system.person(rupiahs=0, allowed_ips=["203.0.113.9"])
    assert ask(system, here, format).status_code == 200
    code = "" if format == "messages" else "ip_not_allowed"
    # Nobody is trusted to say who the client is: the header changes nothing.
    for headers in ({}, {"x-forwarded-for": "203.0.113.9"}):
        assert refusal(ask(system, elsewhere, format, **headers), format) == (403, "permission_error", code)
    assert ask(system, here, format, **{"x-forwarded-for": "198.51.100.1"}).status_code == 200


def test_reads_and_the_strict_dialect_refuse_a_key_from_elsewhere_too(system: System) -> None:
    elsewhere = system.person(rupiahs=0, kind=accounts_pb2.KEY_KIND_LOGIN, allowed_ips=["203.0.113.9"])
    with system.http(elsewhere) as client:
        for answer in (
            client.get("/v1/account/balance"),
            client.get("/v1/usage"),
            client.get("/v1/account/keys"),
            client.post("/kyara/v1/chat/completions", json={}),
        ):
            assert refusal(answer, "chat") == (403, "permission_error", "ip_not_allowed")
        counted = client.post("/v1/messages/count_tokens", json={})
    assert refusal(counted, "messages") == (403, "permission_error", "")


def test_a_change_of_addresses_holds_from_the_next_request_on(system: System) -> None:
    person = system.person(rupiahs=0)
    for entries, status in ((["203.0.113.9"], 403), (["127.0.0.1"], 200), (["2001:db8::1"], 403), ([], 200)):
        with system.accounts() as accounts:
            request = accounts_pb2.SetKeyLimitsRequest(
                key_id=person.key_id, allowed_ips=accounts_pb2.AllowedIps(entries=entries)
            )
            accounts.SetKeyLimits(request, timeout=10)
        assert ask(system, person, "chat").status_code == status


@pytest.mark.rule("AUTH-062", "AUTH-063", "AUTH-078", "FREE-012")
@pytest.mark.parametrize("format", FORMATS)
def test_restricted_keys_name_no_routes_and_spend_capped_ones_no_own_providers(system: System, format: str) -> None:
    spend = system.person(rupiahs=0, spend_cap_micro_idr=1)
    kinds = ("invalid_request_error", "") if format == "messages" else ("bad_request", "bad_request")
    for restricted in (spend, system.person(rupiahs=0, token_cap=1), system.person(rupiahs=0, **SHARED)):
        assert refusal(ask(system, restricted, format, "kenari-free"), format) == (400, *kinds)
    code = "" if format == "messages" else "byok_spend_capped_key"
    assert refusal(ask(system, spend, format, "byok/openai/x"), format) == (403, "permission_error", code)


@pytest.mark.rule("AUTH-072", "AUTH-075")
def test_revoking_a_share_ends_its_key_and_its_link_at_once(system: System) -> None:
    person = system.person(rupiahs=0, **SHARED, note="For the class", token_cap=5_000)
    with system.accounts() as accounts:
        (key,) = accounts.ListKeys(accounts_pb2.ListKeysRequest(account_id=person.account_id), timeout=10).keys
        link = accounts_pb2.GetSharedKeyRequest(link_token=key.link_token)
        shown = accounts.GetSharedKey(link, timeout=10)
        assert (shown.label, shown.note, shown.owner_name) == ("test", "For the class", "Test")
        assert (list(shown.models), shown.token_cap) == (["sim-1:free"], 5_000)
        assert shown.expires_at_ms == key.expires_at_ms
        assert person.key not in str(shown) and key.key_hash not in str(shown)
        assert ask(system, person, "chat").status_code == 200
        accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=person.key_id), timeout=10)
        answer = ask(system, person, "chat")
        assert (answer.status_code, answer.text) == (401, "invalid key")
        with pytest.raises(grpc.RpcError) as gone:
            accounts.GetSharedKey(link, timeout=10)
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND


def test_who_leaves_a_workspace_takes_their_keys_along(system: System) -> None:
    owner = system.person(rupiahs=0)
    account = owner.account_id
    with system.accounts() as accounts:
        ids = []
        for name, role in (("ann", accounts_pb2.ROLE_OWNER), ("bob", accounts_pb2.ROLE_MEMBER)):
            wanted = accounts_pb2.CreatePersonRequest(email=f"{name}@{account[5:]}.example", name=name)
            ids.append(accounts.CreatePerson(wanted, timeout=10).person.person_id)
            added = accounts_pb2.AddMemberRequest(account_id=account, person_id=ids[-1], role=role)
            accounts.AddMember(added, timeout=10)
        made = accounts.CreateKey(accounts_pb2.CreateKeyRequest(account_id=account, member_id=ids[1]), timeout=10)
        theirs = Person(account, made.key.key_id, made.secret)
        assert ask(system, theirs, "chat").status_code == ask(system, owner, "chat").status_code == 200
        left = accounts_pb2.RemoveMemberRequest(account_id=account, person_id=ids[1])
        accounts.RemoveMember(left, timeout=10)
    assert ask(system, theirs, "chat").status_code == 401
    assert ask(system, owner, "chat").status_code == 200


@pytest.mark.rule("KEY-023")
def test_a_use_from_elsewhere_is_none(system: System) -> None:
    login = system.person(rupiahs=0, kind=accounts_pb2.KEY_KIND_LOGIN)
    with system.http(login) as client, system.accounts() as accounts:
        made = [client.post("/v1/account/keys", json={"tool": "codex", "host": "laptop"}).json() for _ in range(2)]
        elsewhere, here = (Person(login.account_id, one["id"], one["key"]) for one in made)
        limited = accounts_pb2.SetKeyLimitsRequest(
            key_id=elsewhere.key_id, allowed_ips=accounts_pb2.AllowedIps(entries=["203.0.113.9"])
        )
        accounts.SetKeyLimits(limited, timeout=10)
        assert [ask(system, one, "chat").status_code for one in (elsewhere, here)] == [403, 200]

        def uses() -> list[bool]:
            """Whether a use is known, of the newest key first: both are reported at the same time."""
            return [one["last_used_at"] is not None for one in client.get("/v1/account/keys").json()["data"]]

        eventually(lambda: any(uses()))
        assert uses() == [True, False]
