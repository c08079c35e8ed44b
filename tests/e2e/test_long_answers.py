"""JSON answers that take long: spaces keep the connection alive, and what follows them is the answer or the error."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.test_leaving import ASKS, is_free
from tests.support.background import BackgroundProvider
from tests.support.provider import HANG, Answer, Pause, Scripted, completion, stream
from tests.support.system import Person, System, eventually

# Spaces come after 1.8 s here; the provider is given up after 2.5 s.
LATE = Scripted((Pause(2.2), *completion("late").steps), headers={"content-type": "application/json"})


def ask_all(system: System, person: Person, first: BackgroundProvider, answer: Answer) -> dict[str, httpx.Response]:
    """What the provider's answer becomes in every client format, asked for at once."""
    first.answers(answer)

    def ask(path: str) -> httpx.Response:
        limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
        with system.http(person) as client:
            return client.post(path, json={**ASKS[path], limit: 50, "model": "fx-oai"})

    with ThreadPoolExecutor(len(ASKS)) as pool:
        return dict(zip(ASKS, pool.map(ask, ASKS), strict=True))


def test_a_long_answer_comes_behind_spaces(system: System, person: Person, first: BackgroundProvider) -> None:
    for path, answer in ask_all(system, person, first, LATE).items():
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == "application/json", path
        assert answer.content.startswith(b" "), path
        assert "late" in answer.text, path
        assert "error" not in answer.json() or answer.json()["error"] is None, path


def test_an_error_after_spaces_stands_in_the_body(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    for path, answer in ask_all(system, person, first, stream(HANG)).items():
        assert answer.status_code == 200, path
        assert answer.content.startswith(b" "), path
        error = answer.json()["error"]
        assert error["message"], path
        assert ("code" in error) == (path != "/v1/messages"), path
    eventually(lambda: is_free(system, person))
    assert system.balance(person)["balance_micro_idr"] == 100_000_000_000
