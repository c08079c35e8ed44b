"""Streams of Chat completions: frames, failures, silence and clients that leave."""

import json
import time
from typing import Any

import httpx
import openai
import pytest

from tests.support.background import BackgroundProvider
from tests.support.provider import (
    CUT,
    DONE,
    HANG,
    RESET,
    Pause,
    Scripted,
    Step,
    completion,
    delta,
    error,
    event,
    finish,
    stream,
    text_answer,
    usage,
)
from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"
TOLD = (delta("", role="assistant"), delta("1, 2"), delta(", 3"), finish("stop"), usage(14, 6), DONE)


def body(model: str = "fx-oai", **fields: Any) -> dict[str, Any]:
    return {"model": model, "stream": True, "messages": [{"role": "user", "content": "Count."}], **fields}


def read(system: System, person: Person, **fields: Any) -> tuple[httpx.Response, list[str]]:
    """The answer and its frames, each without the blank line."""
    with system.http(person) as client:
        answer = client.post(CHAT, json=body(**fields))
    return answer, [frame for frame in answer.text.split("\n\n") if frame]


def data(frames: list[str]) -> list[dict[str, Any]]:
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame.startswith("data: {")]


@pytest.mark.rule(
    "CHAT-005", "STR-001", "STR-002", "STR-003", "STR-008", "STR-019", "STR-020", "STR-021", "STR-022", "STR-028",
    "STR-029", "STR-033", "STR-074",
)  # fmt: skip
def test_a_stream_has_the_contracts_frames(system: System, person: Person, first: BackgroundProvider) -> None:
    first.answers(stream(*TOLD))
    answer, frames = read(system, person)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    assert frames[-1] == "data: [DONE]"
    assert all(frame.startswith("data: ") for frame in frames)
    chunks = data(frames)
    assert {chunk["id"] for chunk in chunks} == {answer.headers["x-request-id"]}
    assert {chunk["model"] for chunk in chunks} == {"fx-oai"}
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["created"] for chunk in chunks}) == 1
    assert all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in chunks)
    assert chunks[0]["choices"][0] == {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "finish_reason": None,
    }
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "1, 2, 3"
    assert not any("role" in chunk["choices"][0]["delta"] for chunk in chunks[1:])
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert chunks[-1]["usage"] == {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
    assert not any("usage" in chunk for chunk in chunks[:-1])


@pytest.mark.rule("STR-032")
@pytest.mark.parametrize("options", [{}, {"include_usage": True}, {"include_usage": False}])
def test_the_usage_chunk_does_not_depend_on_stream_options(
    system: System, person: Person, first: BackgroundProvider, options: dict[str, bool]
) -> None:
    first.answers(stream(*TOLD))
    fields = {"stream_options": options} if options else {}
    _, frames = read(system, person, **fields)
    assert data(frames)[-1]["usage"]["total_tokens"] == 20


@pytest.mark.rule("STR-035", "STR-036", "STR-013", "ERR-020")
@pytest.mark.parametrize(
    "end",
    [(CUT,), (RESET,), (), (b"data: {not json\n\n", DONE), (event({"error": {"message": "vendor"}}), DONE)],
    ids=["cut", "reset", "ends-early", "junk", "error-object"],
)
def test_a_failure_after_the_start_is_an_error_chunk_and_costs_nothing(
    system: System, first: BackgroundProvider, end: tuple[Step, ...]
) -> None:
    person = system.person()
    first.answers(stream(delta("", role="assistant"), delta("1, 2"), Pause(0.05), *end))
    answer, frames = read(system, person)
    assert answer.status_code == 200
    assert frames[-1] == "data: [DONE]"
    failed = json.loads(frames[-2].removeprefix("data: "))
    assert set(failed) == {"error"}
    assert failed["error"]["type"] == "upstream_error"
    assert failed["error"]["code"] == "stream_interrupted"
    assert failed["error"]["param"] is None
    assert "vendor" not in answer.text
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] == 100_000_000_000


@pytest.mark.rule("STR-011", "ERR-075")
@pytest.mark.parametrize(
    ("scripted", "status", "code"),
    [
        (error(500), 503, "upstream_error"),
        (error(429), 429, "upstream_error"),
        (text_answer("<html>bad gateway</html>", 502), 503, "upstream_error"),
        (text_answer("<html>login</html>", 200), 503, "upstream_error"),
        (stream(), 503, "upstream_error"),
        (error(400, type="invalid_request_error"), 400, "invalid_request_error"),
    ],
    ids=["500", "429", "html-502", "html-200", "empty-stream", "rejected"],
)
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "json"])
def test_a_failure_before_the_start_is_a_normal_error(
    system: System, first: BackgroundProvider, scripted: Scripted, status: int, code: str, streamed: bool
) -> None:
    person = system.person()
    first.answers(scripted)
    answer, _ = read(system, person, stream=streamed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "vendor" not in answer.text
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0)
    assert system.balance(person)["balance_micro_idr"] == 100_000_000_000


@pytest.mark.rule("ERR-076", "ERR-077")
def test_all_providers_failing_is_all_providers_failed(
    system: System, person: Person, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    first.answers(error(500))
    second.answers(error(500))
    answer, _ = read(system, person, model="fx-two", stream=False)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "all_providers_failed"


@pytest.mark.rule("ERR-057")
def test_the_next_provider_answers_when_the_first_fails_before_the_start(
    system: System, person: Person, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    for failing in (error(500), stream(), text_answer("junk"), stream(Pause(0.05), RESET)):
        first.answers(failing)
        second.answers(stream(*TOLD))
        _, frames = read(system, person, model="fx-two")
        assert data(frames)[-1]["usage"]["total_tokens"] == 20
    first.answers(error(400, type="invalid_request_error"))
    second.answers(completion("not asked"))
    answer, _ = read(system, person, model="fx-two", stream=False)
    assert answer.status_code == 400
    assert not second.requests


@pytest.mark.rule("STR-009")
def test_silence_is_filled_with_comments_between_frames(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(stream(Pause(1.3), delta("late", role="assistant"), Pause(1.3), finish("stop"), usage(1, 1), DONE))
    answer, frames = read(system, person)
    assert answer.status_code == 200
    assert frames[0] == ": keepalive"
    assert frames.count(": keepalive") >= 2
    assert frames[-1] == "data: [DONE]"
    assert data(frames)[0]["choices"][0]["delta"]["role"] == "assistant"


@pytest.mark.rule("STR-009", "STR-035")
def test_a_failure_after_a_keepalive_arrives_in_the_stream(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(stream(Pause(1.3), RESET))
    answer, frames = read(system, person)
    assert answer.status_code == 200
    assert "error" in data(frames)[-1]
    assert frames[-1] == "data: [DONE]"


@pytest.mark.rule("STR-075")
def test_pieces_arrive_while_the_provider_still_writes(
    system: System, person: Person, first: BackgroundProvider
) -> None:
    first.answers(stream(delta("early", role="assistant"), Pause(0.8), finish("stop"), usage(1, 1), DONE))
    started = time.monotonic()
    with system.http(person) as client, client.stream("POST", CHAT, json=body()) as answer:
        for line in answer.iter_lines():
            if "early" in line:
                assert time.monotonic() - started < 0.6
                break


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "json"])
def test_a_client_that_leaves_ends_the_call_at_the_provider(
    system: System, first: BackgroundProvider, streamed: bool
) -> None:
    person = system.person()
    first.answers(stream(delta("1, 2, 3, 4", role="assistant"), HANG) if streamed else stream(HANG))
    with system.http(person, timeout=0.5) as client, pytest.raises(httpx.TimeoutException):
        client.post(CHAT, json=body(stream=streamed))
    first.wait_requests(1)
    first.wait_closed(1.5)
    eventually(lambda: system.balance(person)["reserved_micro_idr"] == 0, within_s=3)
    spent = 100_000_000_000 - system.balance(person)["balance_micro_idr"]
    assert spent > 0 if streamed else spent == 0


@pytest.mark.rule("STR-010", "STR-037")
def test_the_official_sdk_reads_the_stream(system: System, person: Person, first: BackgroundProvider) -> None:
    first.answers(stream(Pause(1.3), *TOLD))
    client = openai.OpenAI(base_url=f"{system.base_url}/v1", api_key=person.key)
    text, total = "", 0
    for chunk in client.chat.completions.create(
        model="fx-oai", stream=True, messages=[{"role": "user", "content": "Count from 1 to 3."}]
    ):
        if chunk.choices and chunk.choices[0].delta.content:
            text += chunk.choices[0].delta.content
        if chunk.usage:
            total = chunk.usage.total_tokens
    assert (text, total) == ("1, 2, 3", 20)


@pytest.mark.rule("STR-072", "LIMIT-048")
def test_a_repeated_request_is_a_new_one(system: System, person: Person) -> None:
    ids = set()
    for _ in range(2):
        with system.http(person) as client:
            answer = client.post(CHAT, json=body("sim-1"), headers={"last-event-id": "7"})
        ids.add(answer.headers["x-request-id"])
    assert len(ids) == 2
