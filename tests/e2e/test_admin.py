"""The operator's command line beside running services: what it makes works, and what fails says so in one line."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.system import Person, System, eventually
from tests.support.tools import ROOT

CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Admin:
    """Runs commands with the settings of a running system."""

    environment: dict[str, str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        done = subprocess.run(
            [sys.executable, "-m", "services", "admin", *arguments],
            cwd=ROOT, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def json(self, *arguments: str) -> Any:
        code, out, told = self.run(*arguments, "--json")
        assert code == 0, told
        return json.loads(out)

    def refused(self, *arguments: str) -> str:
        """The one line a refused command ends with."""
        code, out, told = self.run(*arguments)
        assert (code, out) == (1, "")
        assert told.startswith("kenari: ") and told.count("\n") == 1
        return told


@pytest.fixture(scope="module")
def admin(system: System) -> Admin:
    return Admin(system.settings())


def status(system: System, key: str) -> int:
    body = {"model": "sim-1:free", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}
    with system.http(Person("", "", key)) as client:
        return client.post(CHAT, json=body).status_code


def becomes(system: System, key: str, wanted: int) -> None:
    assert eventually(lambda: status(system, key) == wanted)


def test_an_account_with_money_and_a_key_can_call(system: System, admin: Admin) -> None:
    account = admin.json("accounts", "create", "Seeded", "--id", "acct_seeded")
    assert admin.json("accounts", "create", "Seeded", "--id", "acct_seeded") == account
    first = admin.json("credit", "acct_seeded", "50000.5", "--idempotency-key", "once")
    again = admin.json("credit", "acct_seeded", "50000.5", "--idempotency-key", "once")
    assert (first["credited_micro_idr"], first["duplicate"]) == (50_000_500_000, False)
    assert (again["credited_micro_idr"], again["duplicate"]) == (0, True)
    shown = admin.json("accounts", "show", "acct_seeded")
    assert (shown["balance_micro_idr"], shown["status"]) == (50_000_500_000, "active")
    made = admin.json("keys", "create", "acct_seeded", "--label", "laptop")
    assert status(system, made["key"]) == 200
    listing = admin.run("keys", "list", "acct_seeded")[1]
    assert made["key_id"] in listing and made["prefix"] in listing and made["key"] not in listing
    assert "acct_seeded" in [row["account_id"] for row in admin.json("accounts", "list")]


def test_keys_are_limited_and_their_caps_reset(system: System, admin: Admin) -> None:
    account = admin.json("accounts", "create", "Limits")["account_id"]
    admin.json("people", "create", "eve@example.com", "Eve")
    eve = admin.json("members", "add", account, "eve@example.com", "--role", "owner")["person_id"]
    made = admin.json(
        "keys", "create", account, "--spend-cap", "12.5", "--token-cap", "5000", "--cap-period", "week",
        "--allow-ip", "127.0.0.0/8", "--allow-ip", "::1", "--requests-per-minute", "30", "--tokens-per-minute", "9000",
        "--member", "eve@example.com",
    )  # fmt: skip
    wanted = {
        "spend_cap_micro_idr": 12_500_000, "token_cap": 5_000, "cap_period": "week", "cap_epoch": None,
        "allowed_ips": ["127.0.0.0/8", "::1"], "requests_per_minute": 30, "tokens_per_minute": 9_000, "member_id": eve,
    }  # fmt: skip
    assert {name: made[name] for name in wanted} == wanted
    becomes(system, made["key"], 200)
    changed = admin.json("keys", "limit", made["key_id"], "--allow-ip", "203.0.113.9", "--requests-per-minute", "0")
    assert (changed["allowed_ips"], changed["requests_per_minute"]) == (["203.0.113.9"], None)
    assert changed["spend_cap_micro_idr"] == 12_500_000
    becomes(system, made["key"], 403)
    lifted = admin.json("keys", "limit", made["key_id"], "--any-ip", "--spend-cap", "20", "--cap-period", "never")
    assert (lifted["allowed_ips"], lifted["spend_cap_micro_idr"], lifted["cap_period"]) == (None, 20_000_000, None)
    assert admin.json("keys", "reset-caps", made["key_id"])["cap_epoch"] == 1
    assert "spend cap" in admin.refused("keys", "reset-caps", admin.json("keys", "create", account)["key_id"])
    assert "no IP address" in admin.refused("keys", "create", account, "--allow-ip", "203.0.113.9/8")


def test_a_share_has_a_link_and_fixed_caps(admin: Admin) -> None:
    account = admin.json("accounts", "create", "Sharer")["account_id"]
    made = admin.json(
        "keys", "create", account, "--kind", "shared", "--model", "sim-1", "--expires-in-days", "7",
        "--spend-cap", "5", "--note", "For the class",
    )  # fmt: skip
    shown = admin.json("keys", "share", made["link_token"])
    assert (shown["note"], shown["owner"], shown["models"]) == ("For the class", "Sharer", ["sim-1"])
    assert made["key"] not in json.dumps(shown)
    assert "fixed" in admin.refused("keys", "limit", made["key_id"], "--spend-cap", "6")
    admin.json("keys", "revoke", made["key_id"])
    assert "no such share" in admin.refused("keys", "share", made["link_token"])


def test_keys_are_rotated_paused_renamed_and_revoked(system: System, admin: Admin) -> None:
    account = admin.json("accounts", "create", "Keys")["account_id"]
    old = admin.json("keys", "create", account, "--kind", "login")
    new = admin.json("keys", "rotate", old["key_id"])
    assert new["kind"] == "dashboard"
    becomes(system, old["key"], 401)
    for command, wanted in (("disable", 401), ("enable", 200), ("revoke", 401)):
        admin.json("keys", command, new["key_id"])
        becomes(system, new["key"], wanted)
    assert admin.json("keys", "rename", new["key_id"], "old one")["label"] == "old one"
    assert "revoked" in admin.refused("keys", "enable", new["key_id"])
    rows = admin.json("keys", "list", account)
    assert [(row["status"], row["kind"]) for row in rows] == [("revoked", "login"), ("revoked", "dashboard")]


def test_what_restricts_a_key_is_set_and_shown(admin: Admin) -> None:
    account = admin.json("accounts", "create", "Shares")["account_id"]
    made = admin.json(
        "keys", "create", account, "--kind", "shared", "--model", "sim-1", "--model", "sim-1:free",
        "--expires-in-days", "90", "--capability", "web_search",
    )  # fmt: skip
    assert made["models"] == ["sim-1", "sim-1:free"]
    assert (made["kind"], made["capabilities"]) == ("shared", ["web_search"])
    told = admin.refused("keys", "create", account, "--kind", "shared", "--model", "m", "--expires-in-days", "91")
    assert "1 to 90 days" in told


def test_a_suspended_account_is_refused_until_it_is_resumed(system: System, admin: Admin) -> None:
    person = system.person(rupiahs=0)
    assert admin.json("accounts", "suspend", person.account_id)["status"] == "suspended"
    becomes(system, person.key, 401)
    assert admin.json("accounts", "resume", person.account_id)["status"] == "active"
    becomes(system, person.key, 200)


@pytest.mark.rule("LIMIT-013")
def test_an_account_gets_its_own_limit_and_the_default_back(system: System, admin: Admin) -> None:
    account = system.person(rupiahs=0).account_id
    assert admin.json("limits", "set", account, "--requests-per-minute", "7")["requests_per_minute"] == 7
    assert admin.json("limits", "show", account)["requests_per_minute"] == 7
    assert admin.json("limits", "set", account, "--requests-per-minute", "0")["requests_per_minute"] is None


def test_people_share_an_account_and_the_last_owner_stays(admin: Admin) -> None:
    account = admin.json("accounts", "create", "Team")["account_id"]
    for name in ("ann", "bob"):
        admin.json("people", "create", f"{name}@example.com", name.title())
    admin.json("members", "add", account, "Ann@example.com", "--role", "owner")
    admin.json("members", "add", account, "bob@example.com")
    assert "last owner" in admin.refused("members", "remove", account, "ann@example.com")
    admin.json("members", "role", account, "bob@example.com", "owner")
    left = admin.json("members", "remove", account, "ann@example.com")
    assert [(row["email"], row["role"]) for row in left] == [("bob@example.com", "owner")]
    assert admin.json("people", "show", "bob@example.com")["accounts"] == [f"{account} (owner)"]
    assert admin.json("people", "show", "ann@example.com")["accounts"] == []


def test_failures_are_one_line_and_an_exit_code(admin: Admin) -> None:
    for refused in (("accounts", "show", "acct_none"), ("credit", "acct_none", "5"), ("keys", "revoke", "key_none")):
        assert "no such" in admin.refused(*refused)
    wrong = {"KENARI_ACCOUNTS_ADDRESS": "127.0.0.1:1", "ADMIN_TIMEOUT_S": "2"}
    code, out, told = Admin({**admin.environment, **wrong}).run("accounts", "list")
    assert (code, out, told.count("\n")) == (3, "", 1)
    assert told.startswith("kenari: no answer")
