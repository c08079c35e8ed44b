"""Models, balance, usage log, health and description, as their readers see them."""

import time
from typing import Any

import httpx
import pytest

from tests.support.background import BackgroundProvider
from tests.support.provider import Pause, completion, delta, finish, stream, usage
from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"
RUPIAH = 1_000_000


def spend(system: System, person: Person, model: str = "fx-oai", **fields: Any) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}], **fields}
    with system.http(person) as client:
        return client.post(CHAT, json=body)


@pytest.mark.rule(
    "MODEL-001", "MODEL-004", "MODEL-008", "MODEL-009", "MODEL-010", "MODEL-012", "MODEL-013", "MODEL-014", "MODEL-015",
    "MODEL-016", "MODEL-018", "MODEL-022", "MODEL-024", "MODEL-025", "MODEL-030", "MODEL-044", "MODEL-045",
    "MODEL-046", "MODEL-048", "MODEL-050", "MODEL-075", "AUTH-034",
)  # fmt: skip
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nonsense"}])
def test_the_model_list_is_public_and_complete(system: System, headers: dict[str, str]) -> None:
    answer = httpx.get(f"{system.base_url}/v1/models", headers=headers)
    assert answer.status_code == 200
    listed = answer.json()
    assert listed["object"] == "list"
    models = {entry["id"]: entry for entry in listed["data"]}
    assert {"fx-oai", "fx-free:free", "fx-image", "sim-1", "sim-1:free"} <= set(models)
    paid = models["fx-oai"]
    assert paid["object"] == "model"
    assert (paid["owned_by"], paid["name"], paid["sunset_at"]) == ("fixtures", "fx-oai", None)
    assert (paid["context_length"], paid["max_output_tokens"]) == (128_000, 8_192)
    assert "max_input_tokens" not in paid
    assert paid["endpoints"] == ["chat"]
    assert "file" in paid["modalities"]["input"]
    assert paid["protocols"] == ["openai-chat", "openai-responses", "anthropic-messages"]
    assert paid["tool_call"] is True
    assert paid["reasoning_toggle"] is False
    assert paid["pricing"] == {
        "input": 4_200 * RUPIAH,
        "output": 24_000 * RUPIAH,
        "cache_read": 840 * RUPIAH,
        "cache_write": None,
        "free": False,
        "currency": "IDR",
        "unit": "micro_idr_per_1m_tokens",
    }
    assert {
        "endpoint": "chat",
        "billable": "input",
        "unit": "token_1m",
        "variant": None,
        "micro_idr": 4_200 * RUPIAH,
    } in (paid["pricing_lines"])
    assert models["fx-free:free"]["pricing"]["free"] is True
    assert "protocols" not in models["fx-image"]
    for entry in models.values():
        assert [name for name, value in entry.items() if value is None] in ([], ["sunset_at"])


@pytest.mark.rule("MODEL-005", "MODEL-074")
@pytest.mark.parametrize("modality", ["music", "foo", ""])
def test_an_unknown_modality_is_a_400(system: System, modality: str) -> None:
    answer = httpx.get(f"{system.base_url}/v1/models", params={"modality": modality})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"], error["param"]) == (
        400,
        "bad_request",
        "bad_request",
        None,
    )
    assert repr(modality) in error["message"]
    for accepted in ("embedding", "rerank", "moderation", "systemone"):
        assert accepted in error["message"]


@pytest.mark.rule("MODEL-003", "MODEL-068")
def test_embedding_models_are_a_list_of_their_own(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/v1/models", params={"modality": "embedding"})
    assert answer.json() == {"object": "list", "data": []}


@pytest.mark.rule("ACC-009", "ACC-010", "ACC-011", "ACC-013", "ACC-014", "ACC-018", "ACC-019")
def test_the_balance_shows_a_running_request_as_reserved(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    before = system.balance(person)
    assert before == {
        "object": "account.balance",
        "balance_micro_idr": 100_000 * RUPIAH,
        "reserved_micro_idr": 0,
        "available_micro_idr": 100_000 * RUPIAH,
        "currency": "IDR",
    }
    first.answers(
        stream(delta("x", role="assistant"), Pause(0.8), finish("stop"), usage(1000, 100), b"data: [DONE]\n\n")
    )
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hello!"}], "stream": True, "max_tokens": 1000}
    with system.http(person) as client, client.stream("POST", CHAT, json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        during = system.balance(person)
        for _ in lines:
            pass
    assert during["reserved_micro_idr"] >= 1000 * 24_000
    assert during["balance_micro_idr"] == before["balance_micro_idr"]
    assert during["available_micro_idr"] == during["balance_micro_idr"] - during["reserved_micro_idr"]
    after = eventually(lambda: (now := system.balance(person))["reserved_micro_idr"] == 0 and now)
    cost = 1000 * 4_200 + 100 * 24_000
    assert after["balance_micro_idr"] == before["balance_micro_idr"] - cost


@pytest.mark.rule("ACC-002", "ACC-023", "ERR-004")
def test_who_may_not_read_the_balance(system: System) -> None:
    restricted = system.person(models=["fx-oai"])
    with system.http(restricted) as client:
        answer = client.get("/v1/account/balance")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (403, "restricted_key_not_allowed", "permission_error")
    nobody = httpx.get(f"{system.base_url}/v1/account/balance")
    assert (nobody.status_code, nobody.text) == (401, "missing authorization")


@pytest.mark.rule("USE-002")
def test_the_usage_log_shows_each_request_with_its_cost(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    first.answers(completion("hi", usage=(1000, 100)))
    spend(system, person)
    spend(system, person, model="fx-free:free")
    rows = eventually(lambda: len(rows := system.usage(person)) == 2 and rows)
    by_model = {row["model"]: row for row in rows}
    paid = by_model["fx-oai"]
    assert (paid["billing_kind"], paid["vendor"], paid["api_key_id"]) == ("payg", "fixtures", person.key_id)
    assert (paid["prompt_tokens"], paid["completion_tokens"]) == (1000, 100)
    assert paid["cost_micro_idr"] == paid["catalog_micro_idr"] == 1000 * 4_200 + 100 * 24_000
    assert abs(paid["created_at"] - time.time()) < 60
    free = by_model["fx-free:free"]
    assert (free["billing_kind"], free["cost_micro_idr"]) == ("free", 0)
    assert httpx.get(f"{system.base_url}/v1/usage/log").status_code == 401


def test_the_usage_log_pages_and_filters(system: System) -> None:
    person = system.person()
    for _ in range(3):
        spend(system, person, model="sim-1", max_tokens=20)
    eventually(lambda: len(system.usage(person)) == 3)
    with system.http(person) as client:
        page = client.get("/v1/usage/log", params={"limit": 2}).json()
        last = client.get("/v1/usage/log", params={"limit": 2, "page": 1}).json()
        none = client.get("/v1/usage/log", params={"billing_kind": "free"}).json()
        clamped = client.get("/v1/usage/log", params={"limit": 1000}).json()
    assert (len(page["data"]), page["has_more"], page["total"], page["limit"]) == (2, True, 3, 2)
    assert (len(last["data"]), last["has_more"]) == (1, False)
    assert (none["data"], none["total"]) == ([], 0)
    assert clamped["limit"] == 200


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("start=x", "start"),
        ("start=-1", "start"),
        ("end=1.5", "end"),
        ("start=200&end=100", "start"),
        ("range=1y", "range"),
        ("billing_kind=gold", "billing_kind"),
        ("page=-1", "page"),
        ("page=201&limit=50", "page"),
        ("limit=many", "limit"),
        ("model=%00", "model"),
        ("api_key_id=a%00b", "api_key_id"),
        (f"model={'m' * 257}", "model"),
        (f"api_key_id={'k' * 257}", "api_key_id"),
    ],
)
@pytest.mark.rule("ERR-006")
def test_a_wrong_parameter_is_named(system: System, person: Person, query: str, param: str) -> None:
    with system.http(person) as client:
        answer = client.get(f"/v1/usage/log?{query}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"], error["param"]) == (
        400,
        "bad_request",
        "invalid_request_error",
        param,
    )


def test_a_restricted_key_reads_only_its_own_usage(system: System) -> None:
    person = system.person(models=["sim-1"])
    spend(system, person, model="sim-1", max_tokens=5)
    eventually(lambda: len(system.usage(person)) == 1)
    with system.http(person) as client:
        other = client.get("/v1/usage/log", params={"api_key_id": "key_other"})
    assert (other.status_code, other.json()["error"]["param"]) == (400, "api_key_id")


@pytest.mark.rule("AUTH-036")
def test_the_description_covers_what_is_served(system: System) -> None:
    description = httpx.get(f"{system.base_url}/openapi.json").json()
    assert description["openapi"].startswith("3.")
    paths = description["paths"]
    assert {CHAT, "/v1/models", "/v1/account/balance", "/v1/usage/log", "/health"} <= set(paths)
    log = paths["/v1/usage/log"]["get"]
    names = {parameter["name"] for parameter in log["parameters"]}
    assert names == {"range", "start", "end", "model", "api_key_id", "billing_kind", "page", "limit"}
    assert set(log["responses"]) == {"200", "400", "401", "403", "429", "500"}
    assert set(paths["/v1/account/balance"]["get"]["responses"]) == {"200", "401", "403", "429", "500"}
    assert "text/plain" in log["responses"]["401"]["content"]


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/usage/log/", "/health/", "/openapi.json/"])
def test_a_path_with_a_slash_too_many_is_unknown(system: System, path: str) -> None:
    answer = httpx.get(f"{system.base_url}{path}", headers={"host": "elsewhere.example"})
    assert (answer.status_code, answer.text) == (404, "not found")
    assert "location" not in answer.headers


def test_health_answers_without_a_key(system: System) -> None:
    answer = httpx.get(f"{system.base_url}/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.rule("INT-006", "INT-010", "INT-017")
def test_manifests_are_public_and_what_they_say_can_be_called(system: System, person: Person) -> None:
    provider = httpx.get(f"{system.base_url}/.well-known/ccr-provider.json").json()["provider"]
    assert provider["base_url"] == f"{system.base_url}/v1"
    assert "fx-oai" in provider["models"]
    assert not {"fx-mute", "fx-image"} & set(provider["models"])
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hello!"}]}
    url = f"{provider['base_url']}/chat/completions"
    assert httpx.post(url, json=body, headers=person.headers, timeout=20).status_code == 200
    registry = httpx.get(f"{system.base_url}/.well-known/models.dev.json")
    assert registry.headers["cache-control"] == "public, max-age=120"
    assert set(provider["models"]) < set(registry.json()["kenari"]["models"])
