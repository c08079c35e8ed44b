"""Providers that send comments, pings or spaces for ever: the wait for content ends all the same."""

import time
from typing import Any

import pytest

from tests.e2e.test_leaving import ASKS
from tests.support.anthropic_wire import PING, start, text_block
from tests.support.background import BackgroundProvider
from tests.support.provider import DONE, Endless, Scripted, comment, completion, delta, finish, stream, usage
from tests.support.system import Person, System

OPENING = {
    "fx-impatient": [delta("", role="assistant"), comment("still here")],
    "fx-ant-impatient": [start(10), PING],
}
CONTENT = {"fx-impatient": delta("It is"), "fx-ant-impatient": b"".join(text_block(0, "It is")[:2])}
DRIP = {"fx-impatient": Endless(comment("still here"), 0.1), "fx-ant-impatient": Endless(PING, 0.1)}
ENDS = {
    "/v1/chat/completions": b'"code":"stream_interrupted"',
    "/v1/messages": b"event: error",
    "/v1/responses": b"event: response.failed",
    "/kyara/v1/chat/completions": b'"error"',
}


def ask(system: System, person: Person, path: str, **members: Any) -> tuple[int, bytes]:
    began = time.monotonic()
    short = {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 50}
    with system.http(person) as client:
        answer = client.post(path, json={**ASKS[path], **short, **members})
    # One second is the limit of these providers; byte to byte they are never late.
    assert time.monotonic() - began < 2.5
    return answer.status_code, answer.content


@pytest.mark.parametrize("model", OPENING)
def test_without_content_in_time_the_next_provider_answers(
    system: System, person: Person, first: BackgroundProvider, second: BackgroundProvider, model: str
) -> None:
    first.answers(stream(*OPENING[model], DRIP[model]))
    second.answers(stream(delta("other", role="assistant"), finish("stop"), usage(1, 1), DONE))
    status, body = ask(system, person, "/v1/chat/completions", model=model, stream=True)
    assert status == 200
    assert b"other" in body
    assert b'"finish_reason":"stop"' in body
    first.wait_closed(1)


def test_a_json_answer_of_spaces_for_ever_goes_to_the_next_provider(
    system: System, person: Person, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    first.answers(Scripted((b"\n", Endless(b"\n", 0.1)), headers={"content-type": "application/json"}, chunked=True))
    second.answers(completion("other"))
    status, body = ask(system, person, "/v1/chat/completions", model="fx-impatient")
    assert status == 200
    assert b'"content":"other"' in body
    first.wait_closed(1)


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("model", OPENING)
def test_content_that_does_not_go_on_is_an_interruption(
    system: System, person: Person, first: BackgroundProvider, model: str, path: str
) -> None:
    first.answers(stream(*OPENING[model], CONTENT[model], DRIP[model]))
    status, body = ask(system, person, path, model=model, stream=True)
    assert status == 200
    assert b"It is" in body
    assert ENDS[path] in body
    first.wait_closed(1)
