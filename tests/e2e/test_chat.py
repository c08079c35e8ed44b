"""Chat completions as a client sees them, through every service, against a scripted provider."""

import json
import time
from typing import Any

import httpx
import openai
import pytest

from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"


def ask(system: System, person: Person, **fields: Any) -> httpx.Response:
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "Hello!"}], **fields}
    with system.http(person) as client:
        return client.post(CHAT, json=body)


@pytest.mark.rule("CHAT-002", "CHAT-042", "CHAT-043", "CHAT-044", "CHAT-045", "CHAT-055", "AUTH-018", "AUTH-030")
def test_a_paid_answer_has_the_contracts_shape(system: System, person: Person, first: BackgroundProvider) -> None:
    first.answers(completion("Hello! How can I help?", usage=(12, 9)))
    answer = ask(system, person)
    assert answer.status_code == 200
    body = answer.json()
    assert body["id"] == answer.headers["x-request-id"] == answer.headers["request-id"]
    assert abs(body["created"] - time.time()) < 60
    assert {name: body[name] for name in ("object", "model", "choices", "usage")} == {
        "object": "chat.completion",
        "model": "fx-oai",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello! How can I help?"},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 9,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
    assert first.requests[0].json["model"] == "real-model"
    assert first.requests[0].headers["authorization"] == "Bearer sk-provider-secret"


@pytest.mark.rule("AUTH-002", "FREE-003")
@pytest.mark.parametrize("model", ["fx-free:free", "sim-1:free"])
def test_a_free_model_answers_an_account_without_money(system: System, model: str) -> None:
    answer = ask(system, system.person(rupiahs=0), model=model)
    assert answer.status_code == 200
    body = answer.json()
    assert body["model"] == model
    assert body["choices"][0]["message"]["content"]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] > 0


@pytest.mark.rule("LIMIT-030", "LIMIT-031", "LIMIT-032")
def test_only_free_answers_tell_their_limit(system: System, person: Person) -> None:
    free = ask(system, person, model="fx-free:free").headers
    assert free["x-ratelimit-limit"] == "1000"
    assert int(free["x-ratelimit-remaining"]) < 1000
    assert 0 < int(free["x-ratelimit-reset"]) - time.time() <= 60
    assert not [name for name in ask(system, person).headers if name.startswith("x-ratelimit")]


@pytest.mark.rule("CHAT-003", "CHAT-004", "CHAT-014", "CHAT-036", "CHAT-037", "CHAT-056", "CHAT-057", "ERR-040")
@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"{", id="not-json"),
        pytest.param(b"[]", id="not-an-object"),
        pytest.param(b"\xff\xfe", id="not-utf8"),
        pytest.param(b'{"messages":[{"role":"user","content":"x"}]}', id="no-model"),
        pytest.param(b'{"model":"fx-oai"}', id="no-messages"),
        pytest.param(b'{"model":"fx-oai","messages":[]}', id="empty-messages"),
        pytest.param(b'{"model":7,"messages":[{"role":"user","content":"x"}]}', id="model-is-a-number"),
        pytest.param(b'{"model":"fx-oai","messages":[{"role":"user","content":"x"}],"n":2}', id="two-answers"),
        pytest.param(b'{"model":"fx-oai","messages":[{"role":"function","content":"x"}]}', id="function-role"),
        pytest.param(b'{"model":"fx-oai","messages":[{"role":"robot","content":"x"}]}', id="unknown-role"),
        pytest.param(b'{"model":"fx-oai","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep-nesting"),
        pytest.param(b'{"model":"fx-oai","messages":[{"role":"user","content":"x"}],"max_tokens":"9"}', id="max-text"),
        pytest.param(
            b'{"model":"fx-oai","messages":[{"role":"user","content":"x"}],"max_tokens":-1}', id="max-negative"
        ),
        pytest.param(b'{"model":"fx-oai","messages":[{"role":"user","content":"x"}],"stream":"yes"}', id="stream-text"),
    ],
)
def test_a_bad_body_is_refused_and_changes_nothing(
    system: System, person: Person, first: BackgroundProvider, raw: bytes
) -> None:
    # What earlier requests of the same account held may still be on its way back.
    before = eventually(lambda: (now := system.balance(person))["reserved_micro_idr"] == 0 and now)
    with system.http(person) as client:
        answer = client.post(CHAT, content=raw, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"], error["param"]) == ("bad_request", "bad_request", None)
    assert error["message"]
    assert not first.requests
    assert system.balance(person) == before


@pytest.mark.rule("CHAT-065", "ERR-045")
@pytest.mark.parametrize("model", ["no-such-model", "x" * 100_000, "fx-oai\x00", "Modèle"])
def test_an_unknown_model_is_a_400(system: System, person: Person, model: str) -> None:
    answer = ask(system, person, model=model)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == answer.json()["error"]["type"] == "model_not_found"


@pytest.mark.rule("CHAT-066")
def test_a_model_of_another_kind_names_its_endpoint(system: System, person: Person) -> None:
    answer = ask(system, person, model="fx-image")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"
    assert "images" in answer.json()["error"]["message"]


@pytest.mark.rule("CHAT-067", "ERR-051")
def test_too_long_an_input_is_refused_before_any_provider(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    answer = ask(system, person, model="fx-small", messages=[{"role": "user", "content": "word " * 2000}])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert not first.requests


@pytest.mark.rule("CHAT-007", "CHAT-009", "CHAT-010")
@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, 8192),
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 60}, 60),
        ({"max_tokens": 50, "max_completion_tokens": 60}, 50),
        ({"max_tokens": 100_000}, 8192),
    ],
    ids=["default", "max-tokens", "alias", "both", "above-the-model"],
)
def test_the_output_limit_that_reaches_the_provider(
    system: System, person: Person, first: BackgroundProvider, asked: dict[str, int], sent: int
) -> None:
    ask(system, person, **asked)
    body = first.requests[0].json
    assert body.get("max_tokens", body.get("max_completion_tokens")) == sent


@pytest.mark.rule("CHAT-011", "CHAT-012", "CHAT-013", "CHAT-023", "CHAT-027", "CHAT-028")
def test_fields_reach_an_openai_provider_as_they_were(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    sent = {"temperature": 0.25, "top_p": 0.5, "stop": ["a", "b"], "seed": 7, "frequency_penalty": 0.5, "n": 1}
    ask(system, person, **sent, provider={"only": ["x"]}, models=["y"], route="fallback", plugins=[{"id": "web"}])
    body = first.requests[0].json
    del sent["n"]
    assert {name: body[name] for name in sent} == sent
    assert body.get("n", 1) == 1
    assert not {"provider", "models", "route", "plugins"} & set(body)


@pytest.mark.rule("AUTH-010", "AUTH-020", "AUTH-021", "ERR-027", "ERR-028", "ERR-038", "STR-012")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({}, "missing authorization"),
        ({"authorization": "Bearer kn-short"}, "invalid key"),
        ({"authorization": "Bearer sk-other"}, "invalid key"),
        ({"authorization": "Bearer kn-" + "A" * 43}, "invalid key"),
        ({"authorization": "Basic Zm9v"}, "invalid key"),
        ({"x-api-key": "Bearer VALID"}, "invalid key"),
        ({"authorization": "Bearer kn-bad", "x-api-key": "VALID"}, "invalid key"),
    ],
    ids=["none", "cut", "prefix", "unknown", "basic", "bearer-in-x-api-key", "authorization-wins"],
)
def test_no_usable_key_is_plain_text_401(
    system: System, person: Person, headers: dict[str, str], text: str, stream: bool
) -> None:
    sent = {name: value.replace("VALID", person.key) for name, value in headers.items()}
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "x"}], "stream": stream}
    answer = httpx.post(system.base_url + CHAT, json=body, headers=sent)
    assert (answer.status_code, answer.text) == (401, text)
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["request-id"]


@pytest.mark.rule("AUTH-019", "AUTH-020")
def test_x_api_key_works_and_a_bad_one_beside_authorization_is_ignored(system: System, person: Person) -> None:
    body = {"model": "fx-oai", "messages": [{"role": "user", "content": "x"}]}
    alone = httpx.post(system.base_url + CHAT, json=body, headers={"x-api-key": person.key})
    beside = httpx.post(system.base_url + CHAT, json=body, headers={**person.headers, "x-api-key": "kn-bad"})
    assert (alone.status_code, beside.status_code) == (200, 200)


@pytest.mark.rule("AUTH-008", "AUTH-009", "STR-073")
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/v1/chat/completions"), ("POST", "/chat/completions"), ("GET", CHAT), ("POST", "/v1/models")],
)
def test_a_wrong_path_or_method_is_405(system: System, method: str, path: str) -> None:
    assert httpx.request(method, system.base_url + path, json={}).status_code == 405


@pytest.mark.rule("AUTH-023", "AUTH-024", "AUTH-025", "AUTH-026", "AUTH-028", "AUTH-029", "AUTH-031")
def test_a_browser_may_call_from_any_page(system: System) -> None:
    asked = "authorization,content-type,x-api-key,anthropic-beta,x-custom"
    origin = {"origin": "https://app.example"}
    preflight = httpx.options(system.base_url + CHAT, headers={**origin, "access-control-request-headers": asked})
    refused = httpx.post(system.base_url + CHAT, headers=origin, json={})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == asked
    assert preflight.headers["access-control-allow-methods"] == "GET, POST, OPTIONS"
    for answer in (preflight, refused):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-expose-headers"] == "x-request-id, request-id"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.rule("AUTH-048", "AUTH-050")
def test_a_scoped_key_uses_only_its_models(system: System) -> None:
    person = system.person(models=["fx-oai", "fx-two"])
    assert ask(system, person, model="fx-oai").status_code == 200
    refused = ask(system, person, model="fx-other")
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "bad_request"
    assert "fx-oai" in refused.json()["error"]["message"]
    assert "fx-two" in refused.json()["error"]["message"]


@pytest.mark.rule("CHAT-001", "AUTH-005")
def test_the_official_sdk_works_with_another_base_url(system: System, person: Person) -> None:
    client = openai.OpenAI(base_url=f"{system.base_url}/v1", api_key=person.key)
    answer = client.chat.completions.create(model="sim-1", messages=[{"role": "user", "content": "Hello!"}])
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0


@pytest.mark.rule("ERR-079", "ERR-061", "CHAT-045")
def test_nothing_of_the_provider_shows(system: System, person: Person) -> None:
    answer = ask(system, person)
    seen = answer.text + json.dumps(dict(answer.headers))
    assert "vendor" not in seen
    assert "real-model" not in seen


@pytest.mark.rule("ERR-035")
def test_a_body_over_32_mib_is_refused(system: System, person: Person) -> None:
    limit = 32 * 1024 * 1024
    with system.http(person) as client:
        over = client.post(CHAT, content=b" " * (limit + 1))
        assert (over.status_code, over.text) == (413, "request body too large")

        def pieces() -> Any:
            for _ in range(33):
                yield b" " * (1024 * 1024)

        chunked = client.post(CHAT, content=pieces())
        assert (chunked.status_code, chunked.text) == (413, "request body too large")
        exact = client.post(CHAT, content=b" " * limit)
        assert exact.status_code == 400
