"""Requests for models that are no longer for sale, through every service."""

from typing import Any

import httpx
import pytest

from tests.support.background import BackgroundProvider
from tests.support.joined import join_chat
from tests.support.provider import DONE, completion, delta, finish, stream, usage
from tests.support.system import Person, System, eventually

ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello!"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 50},
    "/v1/responses": {"input": "Hello!"},
}
HEADER = "x-kenari-model-forwarded"


def ask(system: System, person: Person, path: str, model: str, **members: Any) -> httpx.Response:
    with system.http(person) as client:
        return client.post(path, json={"model": model, **ASKED[path], **members})


@pytest.mark.rule("MODEL-057", "MODEL-062", "MODEL-063", "MODEL-064", "MODEL-065", "MODEL-066", "MODEL-067", "CHAT-045")
def test_the_successor_answers_under_its_own_name_and_price(
    system: System, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    person = system.person()
    first.answers(completion("ok", usage=(1_000, 100)))
    for path in ASKED:
        answer = ask(system, person, path, "fx-retired")
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == "fx-oai"
        assert answer.headers[HEADER] == "fx-retired->fx-oai"
        assert HEADER not in answer.headers["access-control-expose-headers"]
        assert HEADER not in ask(system, person, path, "fx-oai").headers
    first.answers(stream(delta("ok", role="assistant"), finish("stop"), usage(1_000, 100), DONE))
    streamed = ask(system, person, "/v1/chat/completions", "fx-retired", stream=True)
    assert streamed.headers[HEADER] == "fx-retired->fx-oai"
    assert join_chat(streamed.content).model == "fx-oai"
    rows = eventually(lambda: len(found := system.usage(person)) == 7 and found)
    assert {(row["model"], row["cost_micro_idr"]) for row in rows} == {("fx-oai", 1_000 * 4_200 + 100 * 24_000)}
    assert not second.requests


@pytest.mark.rule("MODEL-056", "MODEL-058")
def test_without_forwarding_it_is_no_model_any_more(system: System) -> None:
    person = system.person()
    for path in ASKED:
        answer = ask(system, person, path, "fx-gone")
        assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "model_not_found"
    assert HEADER not in answer.headers
    listed = {entry["id"] for entry in httpx.get(f"{system.base_url}/v1/models").json()["data"]}
    assert "fx-oai" in listed
    assert not {"fx-retired", "fx-gone"} & listed
