"""What requests cost, whoever dies, leaves or asks at the same moment: cases C049 to C063."""

import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.cases.caller import CHAT, RUPIAH_100_000, Caller, user
from tests.cases.catalog import CACHE_READ, CACHE_WRITE, INPUT, OUTPUT
from tests.support import anthropic_wire
from tests.support.background import BackgroundProvider
from tests.support.lossy import lossy_line
from tests.support.provider import (
    DONE,
    HANG,
    Pause,
    Received,
    Scripted,
    completion,
    delta,
    error,
    finish,
    stream,
    usage,
)
from tests.support.purse import RUPIAH, Purse
from tests.support.second_edge import further_edge, further_ledger
from tests.support.system import System, eventually

A_THOUSAND = 1_000 * INPUT + 1_000 * OUTPUT
WORDS = "word " * 400


def put(caller: Caller, balance: int) -> None:
    """Take Rupiah off a fresh account, so that it has that many micro-Rupiah."""
    Purse(caller.system, caller.person).sql(
        "update wallet set paid = $2 where account_id = $1", caller.person.account_id, balance
    )


@pytest.mark.rule("BILL-044", "BILL-045", "BILL-046", "BILL-047", "BILL-048", "USE-036", "CACHE-012")
def test_c049_each_kind_of_prompt_token_is_charged_once(payer: Caller, p1: BackgroundProvider) -> None:
    counts: dict[str, Any] = {"cache_creation_input_tokens": 1_000, "cache_read_input_tokens": 5_000}
    p1.answers(anthropic_wire.message(anthropic_wire.text("ok"), usage=(3, 50), **counts))
    spoken = payer.messages("fx-ant", max_tokens=100)
    told = spoken.json()["usage"]
    assert told == {"input_tokens": 3, "output_tokens": 50, **counts}
    asked = {name: payer.chat(name, max_tokens=100) for name in ("fx-ant", "fx-ant-nw", "fx-ant-hi")}
    assert asked["fx-ant"].json()["usage"] == {
        "prompt_tokens": 6_003, "completion_tokens": 50, "total_tokens": 6_053,
        "prompt_tokens_details": {"cached_tokens": 5_000},
    }  # fmt: skip
    rows = payer.log(4)
    costs = [row["cost_micro_idr"] for row in rows]
    both = 3 * INPUT + 1_000 * CACHE_WRITE + 5_000 * CACHE_READ + 50 * OUTPUT
    assert costs == [both, both, 9_612_600, 27_462_600]
    assert both == 10_662_600
    for row in rows:
        assert (row["prompt_tokens"], row["cached_prompt_tokens"]) == (6_003, 5_000)
        assert row["cache_write_prompt_tokens"] == 1_000
    assert payer.settled() == RUPIAH_100_000 - sum(costs)


@contextmanager
def two_of_each(system: System, directory: Path) -> Iterator[list[str]]:
    """Where two edges answer, each with a ledger of its own behind it."""
    with ExitStack() as stack:
        ledger = stack.enter_context(further_ledger(system, directory / "ledger"))
        address = {"EDGE_LEDGER_ADDRESS": ledger}
        edge = stack.enter_context(further_edge(system, directory / "edge", address))
        yield [system.base_url, edge.base_url]


@pytest.mark.rule("BILL-029", "BILL-031", "BILL-032", "BILL-035", "ACC-013", "ACC-014")
@pytest.mark.parametrize("processes", [1, 2])
def test_c051_of_many_at_once_as_many_run_as_can_be_paid(
    payer: Caller, p1: BackgroundProvider, processes: int, tmp_path: Path
) -> None:
    put(payer, 30 * RUPIAH)
    said = completion("ok", usage=(10, 900))
    # The hold is seen while the one that runs is answered.
    slow = Scripted((Pause(3.0), *said.steps), said.status, said.headers)
    p1.answers(slow)
    system = payer.system
    with ExitStack() as stack:
        urls = [system.base_url] if processes == 1 else stack.enter_context(two_of_each(system, tmp_path))
        pool = stack.enter_context(ThreadPoolExecutor(10))
        body = {"model": "fx-oai", "max_tokens": 1_024, "messages": [user("Hi")]}

        def ask(number: int) -> httpx.Response:
            url = urls[number % len(urls)] + CHAT
            return httpx.post(url, json=body, headers=payer.person.headers, timeout=30, verify=False)

        burst = [pool.submit(ask, number) for number in range(10)]
        p1.wait_requests(1, timeout_s=20)
        during = system.balance(payer.person)
        answers = [one.result() for one in burst]
    assert during["reserved_micro_idr"] >= 1_024 * OUTPUT
    assert during["available_micro_idr"] == during["balance_micro_idr"] - during["reserved_micro_idr"]
    assert sorted(answer.status_code for answer in answers) == [200] + [402] * 9
    for answer in answers:
        if answer.status_code == 402:
            told = answer.json()["error"]
            code = "insufficient_balance"
            assert told == {"type": code, "code": code, "param": None, "message": told["message"]}
    assert len(p1.requests) == 1
    assert payer.settled() == 30 * RUPIAH - 10 * INPUT - 900 * OUTPUT


@pytest.mark.rule("BILL-041", "BILL-042", "ACC-014")
def test_c053_leaving_before_the_usage_is_known_is_not_free(payer: Caller, p1: BackgroundProvider) -> None:
    opening = (delta("", role="assistant"), delta(WORDS))
    # Nothing is open to it but what is asked now.
    p1.refuse()
    p1.listen_again()
    p1.answers(
        stream(*opening, HANG),
        stream(*opening, finish("stop"), HANG),
        stream(*opening, finish("stop", usage=(50, 540)), HANG),
    )
    for format in ("chat", "messages", "chat"):
        # Long enough for the gateway to hear what the provider says last.
        payer.leave(format, "fx-oai", "word", stay_s=0.5)
        eventually(lambda: payer.system.balance(payer.person)["reserved_micro_idr"] == 0, within_s=5)
        p1.wait_closed(5)
    first, second, third = payer.log(3)
    assert 400 <= first["completion_tokens"] <= 800
    assert 0 < first["cost_micro_idr"] < 1_100 * OUTPUT
    assert second["cost_micro_idr"] > 0
    assert (third["prompt_tokens"], third["completion_tokens"]) == (50, 540)
    assert payer.balance == RUPIAH_100_000 - sum(row["cost_micro_idr"] for row in (first, second, third))


@pytest.mark.rule("ACC-013", "ACC-014")
def test_c055_what_a_killed_process_held_comes_back(payer: Caller, p1: BackgroundProvider) -> None:
    put(payer, 50 * RUPIAH)
    system = payer.system
    p1.answers(stream(delta("", role="assistant"), delta("part"), HANG), completion("ok"))
    lost = threading.Thread(target=_lost, args=(payer,), daemon=True)
    lost.start()
    p1.wait_requests(1)
    held = system.balance(payer.person)["reserved_micro_idr"]
    assert held >= 1_500 * OUTPUT
    for name in ("edge", "ledger"):
        system.services[name].kill()
    for name in ("ledger", "edge"):
        system.start_service(name)
    lost.join(20)
    eventually(lambda: system.balance(payer.person)["reserved_micro_idr"] == 0, within_s=30)
    back = system.balance(payer.person)
    assert back["available_micro_idr"] == back["balance_micro_idr"]
    spent = 50 * RUPIAH - back["balance_micro_idr"]
    assert 0 <= spent <= held
    assert spent == sum(row["cost_micro_idr"] for row in system.usage(payer.person))
    assert payer.chat(max_tokens=1_500).status_code == 200
    after = payer.settled(), len(system.usage(payer.person))
    for name in ("ledger", "edge"):
        system.services[name].kill()
        system.start_service(name)
    assert (payer.settled(), len(system.usage(payer.person))) == after


def _lost(payer: Caller) -> None:
    with suppress(httpx.HTTPError):
        payer.chat(stream=True, max_tokens=1_500)


@pytest.mark.rule("BILL-024", "BILL-025", "BILL-032")
def test_c057_failures_count_towards_no_limit(payer: Caller, p1: BackgroundProvider) -> None:
    put(payer, 80 * RUPIAH)
    Purse(payer.system, payer.person).choose(payg=(40 * RUPIAH, "day"))
    p1.answers(error(503, "x"), error(400, "x", type="invalid_request_error"), completion("ok", usage=(1_000, 1_000)))
    answers = [payer.chat(max_tokens=1_500) for _ in range(2)]
    assert payer.settled() == 80 * RUPIAH
    for paid in (1, 2):
        answers.append(payer.chat(max_tokens=1_500))
        payer.log(paid)
        assert payer.settled() == 80 * RUPIAH - paid * A_THOUSAND
    refused = payer.chat(max_tokens=1_500)
    assert [answer.status_code for answer in answers] == [503, 400, 200, 200]
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "payg_limit_reached")
    assert payer.settled() == 80 * RUPIAH - 2 * A_THOUSAND == 23_600_000


@pytest.mark.rule("FREE-001", "FREE-002", "FREE-005", "BILL-037", "NOTE-082", "USE-026", "USE-027")
def test_c059_a_free_model_costs_nothing_whatever_price_it_shows(system: System, p1: BackgroundProvider) -> None:
    poor = Caller(system, system.person(rupiahs=0))
    p1.answers(completion("ok", usage=(1_000, 1_000)))
    shown = next(one for one in httpx.get(f"{system.base_url}/v1/models").json()["data"] if one["id"] == "fx-free:free")
    assert shown["pricing"]["free"] is True and shown["pricing"]["output"] == OUTPUT * RUPIAH
    answers = [poor.chat("fx-free:free"), poor.chat("fx-free:free:high")]
    p1.answers(stream(delta("ok"), finish("stop"), usage(1_000, 1_000), DONE))
    answers.append(poor.chat("fx-free:high:free", stream=True))
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert "x-kenari-balance-micro-idr" not in answer.headers
    assert answers[1].json()["model"] == "fx-free:free"
    assert answers[1].headers["x-kenari-gated-effort"] == "high"
    poor.log(3)
    with system.http(poor.person) as client:
        (row,) = client.get("/v1/usage").json()["data"]
    told = {name: row[name] for name in ("model", "billing_kind", "requests", "cost_micro_idr")}
    assert told == {"model": "fx-free:free", "billing_kind": "free", "requests": 3, "cost_micro_idr": 0}
    assert row["catalog_micro_idr"] == 3 * A_THOUSAND
    balance = system.balance(poor.person)
    assert (balance["balance_micro_idr"], balance["reserved_micro_idr"]) == (0, 0)
    refused = poor.chat(max_tokens=2_000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "insufficient_balance")


@pytest.mark.rule("BILL-044", "BILL-050", "USE-029", "USE-053")
def test_c061_sums_agree_to_the_last_micro_rupiah(payer: Caller, p1: BackgroundProvider) -> None:
    system, odd, tiny = payer.system, 300, 10
    with system.accounts() as accounts:
        fast = accounts_pb2.SetAccountLimitsRequest(account_id=payer.person.account_id, requests_per_minute=100_000)
        accounts.SetAccountLimits(fast, timeout=10)
    p1.answers(completion("ok", usage=(7, 3)))
    with system.http(payer.person) as client:

        def ask(model: str) -> int:
            body = {"model": model, "max_tokens": 10, "messages": [user("Hi")]}
            return client.post(CHAT, json=body).status_code

        eventually(lambda: [ask("fx-tiny") for _ in range(tiny)] == [200] * tiny and True)
        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(ask, ["fx-odd"] * odd))
        assert set(statuses) == {200}
        start = int(time.time()) - 3_600

        def read(path: str) -> Any:
            return client.get(path, params={"start": start}).json()

        eventually(lambda: read("/v1/usage/log?limit=1")["total"] == odd + tiny)
        summary, daily = read("/v1/usage"), read("/v1/usage/daily")
        rows = [row for page in (0, 1) for row in client.get(f"/v1/usage/log?limit=200&page={page}").json()["data"]]
    cost = sum(row["cost_micro_idr"] for row in rows)
    assert cost == summary["total"]["cost_micro_idr"] == sum(day["cost_micro_idr"] for day in daily["data"])
    assert RUPIAH_100_000 - payer.settled() == cost
    by_model = {name: {row["cost_micro_idr"] for row in rows if row["model"] == name} for name in ("fx-odd", "fx-tiny")}
    assert len(by_model["fx-odd"]) == 1 and by_model["fx-odd"] <= {4_666, 4_667, 4_668}
    assert by_model["fx-tiny"] <= {1, 2}
    assert all(type(row[name]) is int for row in rows for name in ("cost_micro_idr", "catalog_micro_idr"))


@pytest.mark.rule("USE-053", "BILL-032")
def test_c063_a_settlement_that_fails_at_first_is_booked_once(
    payer: Caller, p1: BackgroundProvider, tmp_path: Path
) -> None:
    system, purse = payer.system, Purse(payer.system, payer.person)
    name = f"fails_{secrets.token_hex(4)}"
    purse.sql(f"create sequence {name}; grant usage on sequence {name} to ledger")
    purse.sql(
        f"create function {name}() returns trigger language plpgsql as $$ begin"
        f" if new.account_id = '{payer.person.account_id}' and nextval('{name}') = 1 then raise exception 'once';"
        " end if; return new; end $$"
    )
    purse.sql(f"create trigger {name} before insert on usage_row for each row execute function {name}()")
    try:
        p1.answers(completion("ok", usage=(1_000, 1_000)))
        assert payer.chat(max_tokens=1_000).status_code == 200
        payer.log(1)
    finally:
        purse.sql(f"drop function {name}() cascade")
        purse.sql(f"drop sequence {name}")
    with ExitStack() as stack:
        line = stack.enter_context(lossy_line(system.ports.rpc("ledger")))
        edge = stack.enter_context(further_edge(system, tmp_path, {"EDGE_LEDGER_ADDRESS": line.address}))

        def answer(request: Received) -> Scripted:
            line.lose()
            return completion("ok", usage=(1_000, 1_000))

        p1.answers(answer)
        body = {"model": "fx-oai", "max_tokens": 1_000, "messages": [user("Hi")]}
        url, headers = edge.base_url + CHAT, payer.person.headers
        assert httpx.post(url, json=body, headers=headers, timeout=30, verify=False).status_code == 200
        assert line.lost.wait(10)
        payer.log(2)
    for service in ("edge", "ledger"):
        system.services[service].stop()
    for service in ("ledger", "edge"):
        system.start_service(service)
    # Events of both settlements have been read again by then.
    time.sleep(2)
    assert [row["cost_micro_idr"] for row in payer.log(2)] == [A_THOUSAND, A_THOUSAND]
    with system.http(payer.person) as client:
        total = client.get("/v1/usage").json()["total"]
    assert (total["requests"], total["cost_micro_idr"]) == (2, 2 * A_THOUSAND)
    assert payer.settled() == RUPIAH_100_000 - 2 * A_THOUSAND
