"""What operators do about plans and money, beside running services: it takes effect, and what is refused says why."""

import io
import os
import secrets
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

import grpc
import pytest
from kenari.ledger.v1 import funding_pb2, ledger_pb2
from kenari.router.v1 import router_pb2, router_pb2_grpc

from libs.core.ids import uuid7_hex
from services.admin.app import main
from tests.cases.answers import says_ok
from tests.cases.caller import Caller
from tests.e2e.test_admin import Admin
from tests.support.background import BackgroundProvider
from tests.support.purse import RUPIAH, Purse
from tests.support.system import System, eventually


class Here(Admin):
    """Runs commands in this process, for there are many: starting one takes as long as ten of them."""

    def run(self, *arguments: str) -> tuple[int, str, str]:
        said, told = io.StringIO(), io.StringIO()
        with mock.patch.dict(os.environ, self.environment), redirect_stdout(said), redirect_stderr(told):
            code = main(arguments)
        return code, said.getvalue(), told.getvalue()


@pytest.fixture(scope="module")
def admin(system: System) -> Admin:
    return Here(system.settings())


@pytest.fixture
def plan() -> str:
    return f"plan_{secrets.token_hex(4)}"


def wrong(admin: Admin, *arguments: str) -> str:
    """The one line a command ends with that cannot be meant."""
    code, out, told = admin.run(*arguments)
    assert (code, out, told.count("\n")) == (2, "", 1)
    return told


def put(admin: Admin, plan: str, *more: str) -> Any:
    return admin.json("plans", "put", plan, "--name", "Small", "--price", "50000", "--model", "fx-oai", *more)


@pytest.mark.rule("SUB-071")
def test_a_plan_is_sold_changed_and_retired(system: System, admin: Admin, plan: str) -> None:
    made = put(admin, plan, "--week", "75000", "--month", "300000.5", "--free-cache", "fx-oai", "--free-daily", "0")
    assert made == {
        "plan_id": plan, "name": "Small", "status": "on sale", "price_micro_idr": 50_000 * RUPIAH,
        "five_hour_micro_idr": None, "week_micro_idr": 75_000 * RUPIAH, "month_micro_idr": 300_000_500_000,
        "models": ["fx-oai"], "free_cache": ["fx-oai"], "free_daily": 0, "daily_searches": None,
    }  # fmt: skip
    changed = admin.json("plans", "put", plan, "--price", "0", "--week", "none", "--free-daily", "none")
    assert changed == made | {"price_micro_idr": 0, "week_micro_idr": None, "free_daily": None}
    assert changed in admin.json("plans", "list")
    account = system.person().account_id
    admin.json("plans", "buy", account, plan)
    assert admin.json("plans", "retire", plan) == changed | {"status": "retired"}
    assert plan not in [row["plan_id"] for row in admin.json("plans", "list")]
    assert plan in admin.run("plans", "list", "--all")[1]
    other = system.person().account_id
    assert "not on sale" in admin.refused("plans", "buy", other, plan)
    assert "still on sale" in admin.refused("plans", "restart", account)
    # Whoever has it keeps it.
    assert admin.json("funding", "show", account)["plan"]["status"] == "active"
    assert put(admin, plan)["status"] == "on sale"


def test_mistakes_about_plans_are_one_line(system: System, admin: Admin, plan: str) -> None:
    account = system.person(rupiahs=1).account_id
    assert "--name, --price and --model" in wrong(admin, "plans", "put", plan, "--name", "Small")
    assert "free cache" in admin.refused(
        "plans", "put", plan, "--name", "S", "--price", "1", "--model", "fx-oai", "--free-cache", "fx-two"
    )
    assert f"no plan {plan}" in admin.refused("plans", "retire", plan)
    assert f"no plan {plan}" in admin.refused("plans", "buy", account, plan)
    assert "never had a plan" in admin.refused("plans", "restart", account)
    assert "no plan in force" in admin.refused("plans", "auto-renew", account, "on")
    put(admin, plan)
    assert "does not cover" in admin.refused("plans", "buy", account, plan)
    assert "price has changed" in admin.refused("plans", "buy", account, plan, "--expected-price", "49999")
    assert "--source paid" in wrong(admin, "plans", "grant", account, plan, "--paid", "5")
    assert "no such" in admin.refused("funding", "show", "acct_none")
    assert "no such" in admin.refused("funding", "set", "acct_none", "--keep-balance")
    assert "no such" in admin.refused("plans", "grant", "acct_none", plan)
    assert "no such" in admin.refused("refund", uuid7_hex())


def test_a_plan_is_bought_restarted_renewed_and_given(system: System, admin: Admin, plan: str) -> None:
    put(admin, plan, "--week", "1000")
    account = system.person(rupiahs=120_000).account_id
    once = ("plans", "buy", account, plan, "--expected-price", "50000", "--idempotency-key", plan)
    first, again = admin.json(*once), admin.json(*once)
    assert (first["paid_micro_idr"], first["balance_micro_idr"]) == (50_000 * RUPIAH, 70_000 * RUPIAH)
    assert (first["duplicate"], again["duplicate"], again["balance_micro_idr"]) == (False, True, 70_000 * RUPIAH)
    restarted = admin.json("plans", "restart", account)
    assert (restarted["balance_micro_idr"], restarted["plan"]["windows"][0]["used_micro_idr"]) == (20_000 * RUPIAH, 0)
    assert admin.json("plans", "auto-renew", account, "on")["auto_renew"] is True
    assert admin.json("plans", "auto-renew", account, "off")["auto_renew"] is False
    given = system.person(rupiahs=0).account_id
    grant = ("plans", "grant", given, plan, "--source", "trial", "--days", "7", "--idempotency-key", f"{plan}-t")
    assert admin.json(*grant)["plan"]["source"] == "trial"
    assert admin.json(*grant)["duplicate"] is True
    assert "idempotency key" in admin.refused(*grant[:-1], plan + "-t", "--days", "8")
    # A trial cannot start anew.
    assert "paid plan" in admin.refused("plans", "restart", given)
    paid = admin.json("plans", "grant", given, plan, "--source", "paid", "--paid", "40000")
    assert (paid["paid_micro_idr"], paid["balance_micro_idr"]) == (0, 0)


def test_settings_coupons_and_tokens_take_effect(system: System, admin: Admin, first: BackgroundProvider) -> None:
    first.answers(says_ok)
    purse = Purse(system, system.person())
    account, caller = purse.person.account_id, Caller(system, purse.person)
    fresh = admin.json("funding", "show", account)
    assert fresh == {
        "account_id": account, "keep_balance": False, "free_fallback": False, "payg_limit_micro_idr": None,
        "payg_window": None, "payg_spent_micro_idr": None, "alert_pct": 80, "low_balance_micro_idr": 20_000 * RUPIAH,
        "plan": None, "coupons": [], "token_allocations": [], "member_caps": [],
    }  # fmt: skip
    changed = admin.json(
        "funding", "set", account, "--keep-balance", "--free-fallback", "--payg-limit", "0", "--payg-window", "month",
        "--alert-pct", "50", "--low-balance", "0",
    )  # fmt: skip
    assert changed == fresh | {
        "keep_balance": True, "free_fallback": True, "payg_limit_micro_idr": 0, "payg_window": "month",
        "payg_spent_micro_idr": 0, "alert_pct": 50, "low_balance_micro_idr": None,
    }  # fmt: skip
    assert caller.chat().status_code == 402
    lifted = admin.json("funding", "set", account, "--payg-limit", "none", "--no-keep-balance")
    assert (lifted["payg_limit_micro_idr"], lifted["keep_balance"], lifted["free_fallback"]) == (None, False, True)
    assert caller.chat().status_code == 200
    for arguments in (
        ("--payg-limit", "5"),
        ("--payg-window", "day"),
        ("--payg-limit", "none", "--payg-window", "day"),
    ):
        assert "go together" in wrong(admin, "funding", "set", account, *arguments)
    coupon = ("coupons", "grant", account, "Welcome", "--model", "fx-oai", "--budget", "0.01", "--until", "2090-01-31")
    key = ("--idempotency-key", account)
    made = admin.json(*coupon, *key)
    assert admin.json(*coupon, *key) == made
    assert (made["budget_micro_idr"], made["expires"]) == (10_000, "2090-01-31T00:00:00Z")
    tokens = admin.json("tokens", "grant", account, "1000", "--until", "2090-01-31T12:00:00+07:00")
    assert (tokens["models"], tokens["tokens"], tokens["expires"]) == (None, 1_000, "2090-01-31T05:00:00Z")
    kinds = []
    for count in (2, 3):
        assert caller.chat().status_code == 200
        kinds.append(caller.log(count)[-1]["billing_kind"])
    assert kinds == ["coupon", "token_alloc"]
    shown = admin.run("funding", "show", account)[1]
    assert "low balance    -" in shown
    assert "coupons:\n  coupon id" in shown and "Rp 0.01" in shown and "Rp 0.09" in shown
    assert "is no moment" in wrong(admin, "tokens", "grant", account, "5", "--until", "tomorrow")
    assert "an end to come" in admin.refused("tokens", "grant", account, "5", "--until", "2020-01-01")


def test_members_are_capped_and_capped_keys_counted(system: System, admin: Admin, first: BackgroundProvider) -> None:
    first.answers(says_ok)
    purse = Purse(system, system.person())
    account = purse.person.account_id
    emails = [f"{name}{secrets.token_hex(4)}@example.com" for name in ("ann", "bob", "cat")]
    for email, role in zip(emails, ("owner", "member", None), strict=True):
        admin.json("people", "create", email, "Somebody")
        if role:
            admin.json("members", "add", account, email, "--role", role)
    capped = admin.json("funding", "cap-member", account, emails[1], "0")
    assert (capped["cap_micro_idr"], capped["spent_micro_idr"]) == (0, 0)
    member = Caller(system, purse.key(member_id=capped["member_id"]))
    assert member.chat().json()["error"]["code"] == "member_spend_cap_reached"
    assert admin.json("funding", "show", account)["member_caps"][0]["member_id"] == capped["member_id"]
    assert admin.json("funding", "cap-member", account, emails[1], "none")["cap_micro_idr"] is None
    assert member.chat().status_code == 200
    assert "is no member" in admin.refused("funding", "cap-member", account, emails[2], "5")

    key = admin.json("keys", "create", account, "--spend-cap", "500", "--token-cap", "90000", "--cap-period", "week")
    asked = Caller(system, purse.key(spend_cap_micro_idr=500 * RUPIAH))
    assert asked.chat().status_code == 200
    eventually(lambda: system.usage(asked.person))
    rows = {row["key_id"]: row for row in admin.json("funding", "caps", account)}
    assert set(rows) == {key["key_id"], asked.person.key_id}
    assert (rows[key["key_id"]]["spent_micro_idr"], rows[key["key_id"]]["tokens"]) == (0, 0)
    used = rows[asked.person.key_id]
    assert (used["spent_micro_idr"], used["spend_reserved_micro_idr"], used["tokens"]) == (90_000, 0, None)


def test_a_job_that_came_to_nothing_is_refunded_once(system: System, admin: Admin) -> None:
    person = system.person()
    request_id = uuid7_hex()
    job = ledger_pb2.ReserveRequest(
        request_id=request_id, account_id=person.account_id, key_id=person.key_id, endpoint="videos", model="fx-image",
        vendor="fixtures", price_version=price_version(system, "fx-image"), units=4, request_hash=b"x",
    )  # fmt: skip
    with system.funds() as funds:
        charged = funds.Charge(funding_pb2.ChargeRequest(job=job), timeout=10).charged
    assert charged.cost_micro_idr == 2_000 * RUPIAH
    first, again = admin.json("refund", request_id), admin.json("refund", request_id)
    assert (first["refunded_micro_idr"], first["duplicate"], again["duplicate"]) == (2_000 * RUPIAH, False, True)
    assert first["account_id"] == person.account_id
    assert system.balance(person)["balance_micro_idr"] == 100_000 * RUPIAH


def price_version(system: System, model: str) -> str:
    question = router_pb2.RouteRequest(request_id=uuid7_hex(), model=model, endpoint="images")
    with grpc.insecure_channel(system.ports.rpc("router")) as channel:
        routed = router_pb2_grpc.RouterStub(channel).Route(question, timeout=10)
    return str(routed.route.model.price.version)
