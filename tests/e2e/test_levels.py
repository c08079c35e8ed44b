"""Reasoning levels from the client's field or the model's id to the provider and back, in every format."""

from typing import Any

import pytest

from tests.support.background import BackgroundProvider
from tests.support.system import Person, System, eventually

ASKS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5_000},
    "/v1/responses": {"input": "Hi"},
}
FIELDS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"reasoning_effort": "xhigh"},
    "/v1/messages": {"output_config": {"effort": "xhigh"}},
    "/v1/responses": {"reasoning": {"effort": "xhigh"}},
}


@pytest.mark.rule("RSN-029", "RSN-032", "RSN-033", "RSN-036", "RSN-030")
@pytest.mark.parametrize("path", ASKS)
def test_the_level_of_the_id_reaches_the_provider_and_leaves_the_id(
    system: System, person: Person, first: BackgroundProvider, path: str
) -> None:
    with system.http(person) as client:
        answer = client.post(path, json={"model": "fx-think:high", **ASKS[path], **FIELDS[path]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == "fx-think"
    assert answer.headers["x-kenari-gated-effort"] == "high"
    sent = first.requests[-1].json
    assert (sent["model"], sent["reasoning_effort"]) == ("real-model", "high")


@pytest.mark.rule("RSN-007", "RSN-010", "RSN-012", "RSN-013", "RSN-036")
@pytest.mark.parametrize("path", ASKS)
def test_the_level_of_the_body_is_gated_in_every_format(
    system: System, person: Person, first: BackgroundProvider, path: str
) -> None:
    with system.http(person) as client:
        answer = client.post(path, json={"model": "fx-think", **ASKS[path], **FIELDS[path]})
        silent = client.post(path, json={"model": "fx-think", **ASKS[path]})
    assert answer.headers["x-kenari-gated-effort"] == "high"
    assert "x-kenari-gated-effort" not in silent.headers
    assert [request.json.get("reasoning_effort") for request in first.requests[-2:]] == ["high", None]


@pytest.mark.rule("RSN-009")
@pytest.mark.parametrize("path", ASKS)
def test_a_model_that_does_not_reason_gets_no_reasoning_field(
    system: System, person: Person, first: BackgroundProvider, path: str
) -> None:
    with system.http(person) as client:
        answer = client.post(path, json={"model": "fx-oai", **ASKS[path], **FIELDS[path]})
    assert answer.status_code == 200
    assert not {"reasoning_effort", "reasoning", "thinking", "output_config"} & set(first.requests[-1].json)


@pytest.mark.rule("RSN-030", "RSN-031")
def test_the_level_of_the_id_wins_over_a_budget_that_could_not_be(system: System, person: Person) -> None:
    members = {**ASKS["/v1/messages"], "thinking": {"type": "enabled", "budget_tokens": 99_999}}
    with system.http(person) as client:
        assert client.post("/v1/messages", json={"model": "fx-think", **members}).status_code == 400
        assert client.post("/v1/messages", json={"model": "fx-think:low", **members}).status_code == 200


@pytest.mark.rule("RSN-037")
@pytest.mark.parametrize("path", ASKS)
def test_a_level_the_model_does_not_have_is_refused_and_costs_nothing(
    system: System, first: BackgroundProvider, path: str
) -> None:
    person = system.person()
    with system.http(person) as client:
        answer = client.post(path, json={"model": "fx-think:max", **ASKS[path]})
    assert answer.status_code == 400
    assert "low, medium, high" in answer.text
    assert not first.requests
    balance = system.balance(person)
    assert balance["reserved_micro_idr"] == 0
    assert balance["balance_micro_idr"] == balance["available_micro_idr"]


@pytest.mark.rule("RSN-035", "RSN-043")
def test_usage_names_the_plain_model(system: System) -> None:
    person = system.person()
    chat = "/v1/chat/completions"
    with system.http(person) as client:
        for model in ("fx-think:low", "fx-think:free:low", "fx-think:low:free"):
            answer = client.post(chat, json={"model": model, **ASKS[chat]})
            assert answer.status_code == 200, answer.text
    eventually(lambda: len(system.usage(person)) == 3)
    assert sorted(row["model"] for row in system.usage(person)) == ["fx-think", "fx-think:free", "fx-think:free"]


@pytest.mark.rule("RSN-034")
def test_a_key_for_one_model_may_name_its_levels(system: System) -> None:
    person = system.person(models=["fx-think"])
    chat = "/v1/chat/completions"
    with system.http(person) as client:
        assert client.post(chat, json={"model": "fx-think:low", **ASKS[chat]}).status_code == 200
        assert client.post(chat, json={"model": "fx-oai", **ASKS[chat]}).status_code == 400
