"""Which free limits an account has, as money and plans tell: seen in the headers and refusals of a free model."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

import anthropic
import asyncpg
import openai
import pytest
from kenari.ledger.v1 import funding_pb2, funding_pb2_grpc, ledger_pb2
from valkey import Valkey

from libs.core.money import rupiah
from tests.e2e.limits.asking import CHAT, ask, check_refused
from tests.support.system import Person, System, _Stub, eventually

TIER = "fx-tier:free"
NEW, QUALIFIED, PLAN = 10, 30, 60


def free_rpm(system: System, person: Person) -> int:
    """The limit a minute as an answer tells it; the minute is made new before."""
    _new_minute(system, person)
    answer = ask(system, person, CHAT, TIER)
    assert answer.status_code == 200, answer.text
    return int(answer.headers["x-ratelimit-limit"])


def credit(system: System, person: Person, rupiahs: int, kind: str) -> None:
    with system.ledger() as ledger:
        request = ledger_pb2.CreditRequest(
            account_id=person.account_id,
            amount_micro_idr=rupiah(rupiahs),
            idempotency_key=secrets.token_hex(8),
            kind=kind,
        )
        ledger.Credit(request, timeout=10)


def grant(system: System, person: Person, **fields: Any) -> None:
    """A plan of its own for the account; ``fields`` are those of Plan and of the grant."""
    plan_id = f"plan_{secrets.token_hex(4)}"
    paid = fields.pop("paid_micro_idr", 0)
    plan = funding_pb2.Plan(plan_id=plan_id, name="Test", price_micro_idr=rupiah(50_000), models=["fx-oai"], **fields)
    with funds(system) as stub:
        stub.PutPlan(funding_pb2.PutPlanRequest(plan=plan), timeout=10)
        given = funding_pb2.GrantPlanRequest(
            account_id=person.account_id,
            plan_id=plan_id,
            idempotency_key=secrets.token_hex(8),
            source="paid" if paid else "granted",
            paid_micro_idr=paid,
        )
        stub.GrantPlan(given, timeout=10)


def funds(system: System) -> "_Stub[funding_pb2_grpc.FundsStub]":
    return _Stub(funding_pb2_grpc.FundsStub, system.ports.rpc("ledger"))


@pytest.mark.rule("FREE-017", "FREE-018", "FREE-019", "FREE-026", "LIMIT-026")
def test_what_was_paid_in_decides_and_a_bonus_does_not(system: System) -> None:
    person = system.person(rupiahs=0)
    assert free_rpm(system, person) == NEW
    credit(system, person, 60_000, "bonus")
    credit(system, person, 49_999, "top_up")
    # Long enough for the limiter to have heard of both.
    time.sleep(1)
    assert free_rpm(system, person) == NEW
    credit(system, person, 1, "top_up")
    eventually(lambda: free_rpm(system, person) == QUALIFIED)


@pytest.mark.rule("FREE-018", "FREE-020")
def test_what_was_paid_for_a_plan_counts_as_paid_in(system: System) -> None:
    person = system.person(rupiahs=0)
    credit(system, person, 1, "top_up")
    grant(system, person, paid_micro_idr=rupiah(49_999))
    eventually(lambda: free_rpm(system, person) == PLAN)
    end_plan(system, person)
    eventually(lambda: free_rpm(system, person) == QUALIFIED)


@pytest.mark.rule("FREE-021", "LIMIT-026")
def test_a_plan_sets_the_day_and_its_end_takes_that_back(system: System) -> None:
    person = system.person(rupiahs=0)
    grant(system, person, free_daily=3)
    eventually(lambda: free_rpm(system, person) == PLAN)
    eventually(lambda: ask(system, person, CHAT, TIER).status_code == 429)
    check_refused(ask(system, person, CHAT, TIER), "chat", "free_quota_daily")
    end_plan(system, person)
    # A new account has fifty a day.
    eventually(lambda: ask(system, person, CHAT, TIER).status_code == 200)


@pytest.mark.rule("LIMIT-046")
def test_the_sdks_wait_as_told_and_succeed(system: System) -> None:
    person = system.person(rupiahs=0)
    chat = openai.OpenAI(
        base_url=f"{system.base_url}/v1",
        api_key=person.key,
        http_client=openai.DefaultHttpxClient(verify=False),
    )
    messages = anthropic.Anthropic(
        base_url=system.base_url, api_key=person.key, http_client=anthropic.DefaultHttpxClient(verify=False)
    )
    programs: tuple[Callable[[], object], ...] = (
        lambda: chat.chat.completions.create(model=TIER, messages=[{"role": "user", "content": "Hi"}]),
        lambda: messages.messages.create(model=TIER, max_tokens=20, messages=[{"role": "user", "content": "Hi"}]),
    )
    for program in programs:
        ends_ms = _full_minute(system, person, 1_900)
        assert program()
        assert time.time() * 1000 >= ends_ms, "it waited"


def end_plan(system: System, person: Person) -> None:
    """Let the plan's time be over; the ledger finds it and says so."""

    async def update() -> None:
        conn = await asyncpg.connect(system.postgres.dsn("ledger"))
        try:
            await conn.execute(
                "update plan_sub set ends_ms = extract(epoch from now()) * 1000 - 1 where account_id = $1",
                person.account_id,
            )
        finally:
            await conn.close()

    asyncio.run(update())


def _new_minute(system: System, person: Person) -> None:
    with Valkey.from_url(system.valkey.url) as store:
        store.delete(_minute(person))


def _full_minute(system: System, person: Person, left_ms: int) -> int:
    """Let the account's minute be full for so long; return when it ends, in Unix milliseconds."""
    ends_ms = int(time.time() * 1000) + left_ms
    with Valkey.from_url(system.valkey.url) as store:
        store.set(_minute(person), f"{PLAN} {ends_ms}", px=left_ms)
    return ends_ms


def _minute(person: Person) -> str:
    return f"{{{person.account_id}}}:free:minute:"
