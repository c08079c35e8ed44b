"""Stores away for a while: broker, Valkey, PostgreSQL; and what arrives afterwards."""

import os
import time
from typing import Any

import httpx

from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"
RUPIAH = 1_000_000
COST = 1000 * 4_200 + 100 * 24_000
AWAY_S = 60 if os.environ.get("KENARI_NIGHTLY") else 5


def ask(system: System, person: Person, **fields: Any) -> httpx.Response:
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 1000, **fields}
    with system.http(person) as client:
        return client.post(CHAT, json=body)


def usage_events_out(system: System) -> float:
    """Usage events the broker has confirmed, at once or from the spool."""
    name, topic = "kenari_kafka_producer_records_total", "edge.usage.v1"
    return sum(system.metric("edge", name, topic=topic, outcome=outcome) for outcome in ("sent", "replayed"))


def test_a_broker_away_refuses_nobody_and_loses_nothing(system: System) -> None:
    person = system.person()
    sent_before = usage_events_out(system)
    answered = 0
    system.kafka.kill()
    ends = time.monotonic() + AWAY_S
    while time.monotonic() < ends:
        assert ask(system, person).status_code == 200
        answered += 1
        time.sleep(0.1)
    system.kafka.start()
    # Maybe more: an edge that a test before this one killed sends what it had kept.
    eventually(lambda: usage_events_out(system) >= sent_before + answered, within_s=60)
    eventually(lambda: system.balance(person)["balance_micro_idr"] == 100_000 * RUPIAH - answered * COST)
    # The ledger has read every event and charged nothing twice.
    eventually(lambda: system.metric("ledger", "kenari_kafka_consumer_lag", topic="edge.usage.v1") == 0, within_s=60)
    assert system.balance(person)["balance_micro_idr"] == 100_000 * RUPIAH - answered * COST
    assert sum(row["cost_micro_idr"] for row in system.usage(person)[:50]) == min(answered, 50) * COST
    system.reconcile()


def test_a_new_key_works_while_the_broker_is_away(system: System) -> None:
    system.kafka.pause()
    try:
        assert ask(system, system.person()).status_code == 200
    finally:
        system.kafka.resume()


def test_valkey_away_leaves_paid_requests_alone(system: System) -> None:
    person = system.person()
    ask(system, person)
    system.valkey.kill()
    try:
        for _ in range(10):
            started = time.monotonic()
            assert ask(system, person).status_code == 200
            assert time.monotonic() - started < 0.5
    finally:
        system.valkey.start()
    eventually(lambda: "x-ratelimit-limit" in ask(system, person, model="fx-free:free").headers)


def test_postgresql_away_stops_paid_requests_only(system: System) -> None:
    person = system.person()
    assert ask(system, person).status_code == 200
    eventually(lambda: system.balance(person)["balance_micro_idr"] == 100_000 * RUPIAH - COST)
    system.postgres.kill()
    try:
        assert ask(system, person, model="fx-free:free").status_code == 200
        refused = ask(system, person)
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/json"
        assert set(refused.json()["error"]) == {"message", "type", "param", "code"}
        with system.http(person) as client:
            balance = client.get("/v1/account/balance")
        assert (balance.status_code, balance.json()["error"]["type"]) == (500, "api_error")
    finally:
        system.postgres.start()
    eventually(lambda: ask(system, person).status_code == 200, within_s=30)
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0, within_s=15)
    eventually(lambda: len(system.usage(person)) == 3, within_s=30)
    assert system.balance(person)["balance_micro_idr"] == 100_000 * RUPIAH - 2 * COST
    system.reconcile()
