"""The operator's commands about routes beside running services."""

import pytest

from tests.e2e.test_admin import Admin
from tests.support.system import System


@pytest.fixture(scope="module")
def admin(system: System) -> Admin:
    return Admin(system.settings())


def test_a_route_is_made_changed_and_deleted(system: System, admin: Admin) -> None:
    person = system.person()
    account = person.account_id
    made = admin.json("routes", "create", account, "mine", "--step", "fx-oai", "--step", "fx-other=3")
    assert made == {"name": "mine", "strategy": "fallback", "steps": ["fx-oai=1", "fx-other=3"], "built_in": None}
    admin.json("routes", "change", account, "mine", "--strategy", "weighted", "--rename", "ours")
    assert [(row["name"], row["strategy"], row["steps"]) for row in admin.json("routes", "list", account)] == [
        ("kenari-free", "random", None),
        ("ours", "weighted", ["fx-oai=1", "fx-other=3"]),
    ]
    body = {"model": "ours", "messages": [{"role": "user", "content": "x"}]}
    with system.http(person) as client:
        assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert "not a chat model" in admin.refused("routes", "change", account, "ours", "--step", "fx-image")
    assert "reserved" in admin.refused("routes", "create", account, "kenari-free")
    admin.json("routes", "delete", account, "ours")
    assert [row["name"] for row in admin.json("routes", "list", account)] == ["kenari-free"]


def test_it_can_be_asked_why_a_request_goes_where_it_goes(system: System, admin: Admin) -> None:
    first, second = admin.json("routes", "explain", "fx-two")
    assert (first["upstream"], first["turn"], first["order"]) == ("p1/E2E_PROVIDER_KEY", 1, 0)
    assert (second["upstream"], second["turn"], second["order"]) == ("p2/E2E_PROVIDER_KEY", 2, 1)
    assert first["state"] == "takes requests"
    (gone,) = admin.json("routes", "explain", "fx-gone")
    assert gone == {"name": "fx-gone", "means": "nothing that is known"}
    assert {row["means"] for row in admin.json("routes", "explain", "kenari-free")} == {"free route"}
    out = admin.run("routes", "explain", "fx-two")[1]
    assert "sk-provider-secret" not in out
