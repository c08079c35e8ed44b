"""What the three client formats promise beside one another: keys, errors, fields that are dropped, money."""

from typing import Any

import pytest

from tests.support import anthropic_wire
from tests.support.background import BackgroundProvider
from tests.support.provider import completion, error
from tests.support.system import Person, System, eventually

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
COUNT = f"{MESSAGES}/count_tokens"
HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HI},
    MESSAGES: {"messages": HI, "max_tokens": 100},
    RESPONSES: {"input": "Hi"},
}
FUNCTION = {"name": "ping", "description": "Ping.", "parameters": {"type": "object", "properties": {}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    CHAT: [{"type": "function", "function": FUNCTION}],
    MESSAGES: [{"name": "ping", "description": "Ping.", "input_schema": FUNCTION["parameters"]}],
    RESPONSES: [{"type": "function", **FUNCTION}],
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}}
WANTS_JSON: dict[str, dict[str, Any]] = {
    CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
    MESSAGES: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    RESPONSES: {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
}


def ask(system: System, person: Person | None, path: str, **members: Any) -> Any:
    with system.http(person) as client:
        return client.post(path, json={"model": "fx-oai", **BODIES.get(path, BODIES[MESSAGES]), **members})


@pytest.mark.rule("MSG-003", "MSG-004", "RESP-002", "INT-028", "INT-046", "MSG-056", "INT-022")
@pytest.mark.parametrize("path", [*BODIES, COUNT])
def test_either_header_opens_every_endpoint_and_nothing_else_does(system: System, person: Person, path: str) -> None:
    body = {"model": "fx-oai", **BODIES.get(path, BODIES[MESSAGES])}
    with system.http() as client:
        for headers in ({"authorization": f"Bearer {person.key}"}, {"x-api-key": person.key}):
            assert client.post(path, json=body, headers=headers).status_code == 200
        missing = client.post(path, json=body)
        wrong = client.post(path, json=body, headers={"x-api-key": "sk-other"})
    assert (missing.status_code, missing.text) == (401, "missing authorization")
    assert (wrong.status_code, wrong.text) == (401, "invalid key")


@pytest.mark.rule("MSG-002", "INT-004", "INT-034", "INT-039")
@pytest.mark.parametrize(
    "path", ["/v1/v1/messages", "/v1/v1/chat/completions", "/v1/v1/responses", "/chat/completions", "/responses"]
)
def test_a_doubled_or_missing_version_is_told_405(system: System, path: str) -> None:
    assert ask(system, None, path).status_code == 405


@pytest.mark.rule("RESP-003", "RESP-007")
def test_responses_are_kept_nowhere(system: System, person: Person, first: BackgroundProvider) -> None:
    first.answers(completion("I see."))
    said = ask(system, person, RESPONSES, input="Remember 7.").json()
    ask(system, person, RESPONSES, input="What was it?")
    assert "Remember" not in str(first.requests[-1].json)
    with system.http(person) as client:
        assert client.get(f"{RESPONSES}/{said['id']}").status_code in (404, 405)
        assert client.delete(f"{RESPONSES}/{said['id']}").status_code in (404, 405)
        assert client.get(RESPONSES).status_code == 405


@pytest.mark.rule("MSG-058", "INT-033", "MSG-057")
def test_counting_tokens_costs_nothing_and_asks_nobody(system: System, first: BackgroundProvider) -> None:
    person = system.person(rupiahs=0)
    answer = ask(system, person, COUNT, model="no-such-model")
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 1})
    assert not first.requests
    assert not system.usage(person)


@pytest.mark.rule("MSG-064", "INT-026", "RESP-059")
@pytest.mark.parametrize("path", BODIES)
def test_a_model_of_another_kind_is_refused_with_the_endpoint_to_use(system: System, person: Person, path: str) -> None:
    answer = ask(system, person, path, model="fx-image")
    assert answer.status_code == 400
    problem = answer.json()["error"]
    assert problem["type"] == ("invalid_request_error" if path == MESSAGES else "bad_request")
    assert "/v1/images/generations" in problem["message"]


@pytest.mark.rule("CHAT-006", "CHAT-024", "MSG-023", "TOOL-037")
def test_members_of_one_format_are_dropped_for_a_provider_of_another(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(anthropic_wire.message(anthropic_wire.text("ok")))
    more = {"seed": 3, "frequency_penalty": 1, "stream_options": {"include_usage": True}, "parallel_tool_calls": False}
    assert ask(system, person, CHAT, model="fx-ant", tools=TOOLS[CHAT], **more).status_code == 200
    assert not set(more) & set(first.requests[-1].json)
    first.answers(completion("ok"))
    other = {"context_management": {"edits": []}, "top_k": 5, "service_tier": "auto", "container": "c"}
    assert ask(system, person, MESSAGES, **other).status_code == 200
    assert not set(other) & set(first.requests[-1].json)


@pytest.mark.rule("TOOL-002", "TOOL-041", "INT-025")
def test_tools_for_a_model_that_does_not_call_are_sent_on_but_refused_to_agents(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    for path in (CHAT, RESPONSES):
        assert ask(system, person, path, model="fx-mute", tools=TOOLS[path]).status_code == 200
        assert first.requests[-1].json["tools"][0]["function"]["name"] == "ping"
    asked = len(first.requests)
    refused = ask(system, person, MESSAGES, model="fx-mute", tools=TOOLS[MESSAGES])
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    assert len(first.requests) == asked
    assert ask(system, person, MESSAGES, model="fx-mute").status_code == 200
    builtin = {"type": "web_search_preview"}
    assert ask(system, person, CHAT, tools=[builtin]).status_code == 200


@pytest.mark.rule("JSON-001", "JSON-019", "JSON-031", "JSON-032")
@pytest.mark.parametrize("model", ["fx-oai", "fx-ant"])
@pytest.mark.parametrize("path", BODIES)
def test_a_wanted_format_reaches_every_model_as_the_same_instruction(
    system: System, person: Person, first: BackgroundProvider, path: str, model: str
) -> None:
    answer = completion("{}") if model == "fx-oai" else anthropic_wire.message(anthropic_wire.text("{}"))
    first.answers(answer)
    for _ in range(2):
        assert ask(system, person, path, model=model, **WANTS_JSON[path]).status_code == 200
    once, again = (_system_text(request.json) for request in first.requests[-2:])
    assert once == again
    assert '"minimum":3' in once.replace(" ", "")


def _system_text(body: dict[str, Any]) -> str:
    if "system" in body:
        return str(body["system"]).replace("'", '"')
    return str(body["messages"][0]["content"])


@pytest.mark.rule("JSON-021")
@pytest.mark.parametrize("path", BODIES)
def test_a_provider_that_refuses_the_format_is_a_rejection(
    system: System, person: Person, first: BackgroundProvider, path: str
) -> None:
    first.answers(error(400, "vendor: response_format is not supported", type="invalid_request_error"))
    answer = ask(system, person, path, **WANTS_JSON[path])
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert "vendor" not in answer.text


@pytest.mark.rule("RSN-052", "RSN-053", "RSN-054", "RSN-058", "CACHE-035")
def test_reasoning_is_charged_as_output_shown_or_not(system: System, first: BackgroundProvider) -> None:
    first.answers(completion("42", reasoning_content="Let me see.", usage=(10, 30)))
    person = system.person()
    for members in ({}, {"reasoning": {"exclude": True}}):
        body = ask(system, person, CHAT, model="fx-think", **members).json()
        assert body["usage"]["completion_tokens"] == 30
        assert ("reasoning" in body["choices"][0]["message"]) == (not members)
    assert ask(system, person, CHAT, model="fx-think:free").status_code == 200
    rows = eventually(lambda: len(system.usage(person)) == 3 and system.usage(person))
    assert [row["cost_micro_idr"] for row in rows] == [0, 10 * 4_200 + 30 * 24_000, 10 * 4_200 + 30 * 24_000]


@pytest.mark.rule("CACHE-034")
def test_a_cache_key_on_messages_is_a_member_like_any_other(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(anthropic_wire.message(anthropic_wire.text("ok")))
    assert ask(system, person, MESSAGES, model="fx-ant", prompt_cache_key="k").status_code == 200
    assert first.requests[-1].json["prompt_cache_key"] == "k"


@pytest.mark.rule("VIS-022", "VIS-023", "VIS-025", "VIS-026")
def test_documents_at_addresses_go_to_anthropic_providers_only(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    document = {"type": "document", "source": {"type": "url", "url": "https://files.example/a.pdf"}}
    turns = [{"role": "user", "content": [document, {"type": "text", "text": "Sum up."}]}]
    first.answers(anthropic_wire.message(anthropic_wire.text("ok")))
    assert ask(system, person, MESSAGES, model="fx-ant", messages=turns).status_code == 200
    assert first.requests[-1].json["messages"] == turns
    first.answers(completion("ok"))
    assert ask(system, person, MESSAGES, messages=turns).status_code == 200
    assert "a.pdf" not in str(first.requests[-1].json)
    filed = [{"role": "user", "content": [{"type": "file"}]}]
    assert ask(system, person, CHAT, messages=filed).json()["error"]["code"] == "bad_request"


@pytest.mark.rule("KYARA-069", "KYARA-084", "KYARA-022")
def test_what_fails_in_the_strict_dialect_costs_nothing(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    path = "/kyara/v1/chat/completions"
    first.answers(error(500))
    assert ask(system, person, path, messages=HI, max_tokens=100).status_code == 503
    first.answers(completion("ok"))
    assert ask(system, person, path, messages=HI, max_tokens=100, top_k=3, min_p=0.1).status_code == 200
    rows = eventually(lambda: len(system.usage(person)) == 1 and system.usage(person))
    assert rows[0]["cost_micro_idr"] == 10 * 4_200 + 2 * 24_000


@pytest.mark.rule(
    "RSN-001", "RSN-002", "RSN-003", "RSN-044", "TOOL-001", "VIS-001", "VIS-002", "VIS-003", "VIS-004", "CACHE-021",
    "JSON-020", "KYARA-007",
)  # fmt: skip
def test_the_list_tells_what_a_model_can_do(system: System) -> None:
    with system.http() as client:
        listed = client.get("/v1/models").json()["data"]
        assert client.get("/kyara/v1/models").json()["data"] == listed
    models = {model["id"]: model for model in listed}
    thinks, plain, mute = models["fx-think"], models["fx-oai"], models["fx-mute"]
    assert (thinks["reasoning"], thinks["reasoning_options"], thinks["reasoning_toggle"]) == (
        True,
        ["low", "medium", "high"],
        False,
    )
    assert "reasoning_options" not in plain
    assert (plain["tool_call"], mute["tool_call"]) == (True, False)
    assert (plain["pricing"]["input"], plain["pricing"]["cache_read"]) == (4_200_000_000, 840_000_000)
    levels = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
    for model in listed:
        assert model["id"].rpartition(":")[2] not in levels
        assert "file" in model["modalities"]["input"] or "chat" not in model["endpoints"]
        assert set(model["modalities"]["input"]) <= {"text", "image", "pdf", "file", "audio", "video"}
        assert not [name for name in model if "schema" in name or "json" in name]


@pytest.mark.rule("JSON-029")
def test_a_forced_function_holds_the_json(system: System, person: Person, first: BackgroundProvider) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "ping", "arguments": '{"n":3}'}}
    first.answers(completion(None, finish_reason="tool_calls", tool_calls=[call]))
    forced = {"type": "function", "function": {"name": "ping"}}
    body = ask(system, person, CHAT, tools=TOOLS[CHAT], tool_choice=forced).json()
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"n":3}'
    assert first.requests[-1].json["tool_choice"] == forced


@pytest.mark.rule("RSN-014", "RSN-028", "CHAT-021", "CHAT-008")
def test_reasoning_fields_of_every_kind_are_taken(system: System, person: Person, first: BackgroundProvider) -> None:
    for members in (
        {"reasoning_effort": "medium"},
        {"reasoning": {"effort": "medium"}},
        {"reasoning": {"enabled": True}},
        {"reasoning": {"max_tokens": 8_000}},
    ):
        answer = ask(system, person, CHAT, model="fx-think", max_tokens=9_000, **members)
        assert answer.json()["choices"][0]["message"]["content"] == "ok"
        sent = first.requests[-1].json
        # The limit holds reasoning and answer together: there is only one.
        assert (sent["reasoning_effort"], sent["max_tokens"]) == ("medium", 8_192)
    off = ask(system, person, CHAT, model="fx-think", reasoning={"enabled": False, "exclude": False})
    assert off.status_code == 200


@pytest.mark.rule("VIS-009")
@pytest.mark.parametrize("address", ["file:///etc/passwd", "javascript:1", "ftp://files.example/a.png", "a.png"])
@pytest.mark.parametrize("path", BODIES)
def test_only_web_addresses_go_to_a_provider(
    system: System, person: Person, first: BackgroundProvider, path: str, address: str
) -> None:
    pictures: dict[str, dict[str, Any]] = {
        CHAT: {"type": "image_url", "image_url": {"url": address}},
        MESSAGES: {"type": "image", "source": {"type": "url", "url": address}},
        RESPONSES: {"type": "input_image", "image_url": address},
    }
    turns = [{"role": "user", "content": [pictures[path]]}]
    answer = ask(system, person, path, **{"input" if path == RESPONSES else "messages": turns})
    assert answer.status_code == 400
    assert not first.requests


def test_a_provider_without_the_model_is_passed_over(
    system: System, person: Person, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    first.answers(error(404, "no such model", code="model_not_found"))
    second.answers(completion("from the second"))
    body = ask(system, person, CHAT, model="fx-two").json()
    assert body["choices"][0]["message"]["content"] == "from the second"
    second.answers(error(404, "no such model", code="model_not_found"))
    refused = ask(system, person, CHAT, model="fx-two")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")


def test_what_is_not_allowed_says_what_is(system: System) -> None:
    with system.http() as client:
        assert client.get(CHAT).headers["allow"] == "OPTIONS, POST"
        assert client.post("/v1/models").headers["allow"] == "GET, OPTIONS"
        assert "allow" not in client.post("/v1/v1/messages").headers
