"""The second dialect at its own mount, with its own limits, members and errors: case C099."""

import json
from typing import Any

import httpx
import pytest

from tests.cases.caller import KYARA, RUPIAH_100_000, Caller, user
from tests.cases.catalog import OUTPUT
from tests.support.background import BackgroundProvider
from tests.support.provider import HANG, completion, delta, stream

MEGABYTE = 1024 * 1024


def thoughtful() -> Any:
    return completion("ok", usage=(9, 4), reasoning_content="why")


def error_of(answer: httpx.Response) -> dict[str, Any]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.rule("KYARA-024", "KYARA-026", "KYARA-048", "KYARA-053", "KYARA-058", "KYARA-059")
def test_c099_a_limit_above_the_models_is_lowered(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(thoughtful())
    answer = caller.kyara(max_completion_tokens=999_999)
    assert answer.status_code == 200
    sent = p1.requests[0].json
    assert [sent[name] for name in sent if name.startswith("max_")] == [8_192]
    body = answer.json()
    assert body["object"] == "chat.completion"
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ("ok", "why")
    assert "reasoning_content" not in message
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert "reasoning_tokens" in body["usage"]["completion_tokens_details"]


@pytest.mark.rule("KYARA-032", "KYARA-034")
def test_c099_the_effort_inside_reasoning_wins_and_the_text_can_stay_out(
    caller: Caller, p1: BackgroundProvider
) -> None:
    p1.answers(thoughtful())
    answer = caller.kyara(reasoning_effort="low", reasoning={"effort": "high", "exclude": True})
    sent = p1.requests[0].json
    assert (sent.get("reasoning_effort"), sent.get("reasoning", {}).get("effort")) in (("high", None), (None, "high"))
    assert not {"reasoning", "reasoning_content"} & set(answer.json()["choices"][0]["message"])


@pytest.mark.rule("KYARA-012", "KYARA-013", "KYARA-035")
def test_c099_what_may_stand_in_a_message_is_taken(caller: Caller, p1: BackgroundProvider) -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "r", "name": "bot"}
    answer = caller.kyara(messages=[user("Hi"), said, user("more")], session_id="s-1")
    assert answer.status_code == 200


def test_c099_a_stream_that_is_left_costs_what_was_written(payer: Caller, p1: BackgroundProvider) -> None:
    p1.answers(stream(delta("", role="assistant"), delta("word " * 400), HANG))
    payer.leave("kyara", "fx-oai", "word")
    p1.wait_closed()
    (row,) = payer.log(1)
    assert 0 < row["cost_micro_idr"] < 1_100 * OUTPUT
    assert payer.settled() == RUPIAH_100_000 - row["cost_micro_idr"]


@pytest.mark.rule("KYARA-010", "KYARA-011", "KYARA-014", "KYARA-038")
@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 2}, "n"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [user([{"type": "text", "text": "Hi"}])]}, "messages.0.content"),
        ({"messages": [{**user("Hi"), "foo": 1}]}, "messages.0.foo"),
    ],
)
def test_c099_what_breaks_a_rule_is_named(
    caller: Caller, p1: BackgroundProvider, members: dict[str, Any], param: str
) -> None:
    answer = caller.kyara(**members)
    assert answer.status_code == 400
    error = error_of(answer)
    assert (error["code"], error["param"]) == (None, param)
    assert not p1.requests


def test_c099_a_body_that_is_no_json_has_a_code_of_its_own(caller: Caller) -> None:
    with caller.system.http(caller.person) as client:
        answer = client.post(KYARA, content=b"{bad")
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer kn-unknown"}], ids=["none", "unknown"])
def test_c099_a_missing_key_is_told_in_json(caller: Caller, headers: dict[str, str]) -> None:
    body = {"model": "fx-oai", "messages": [user("Hi")]}
    answer = httpx.post(caller.system.base_url + KYARA, json=body, headers=headers, verify=False)
    assert (answer.status_code, error_of(answer)["code"]) == (401, "invalid_api_key")


@pytest.mark.rule("KYARA-004")
def test_c099_a_body_over_16_mb_is_told_in_json(caller: Caller, p1: BackgroundProvider) -> None:
    large = json.dumps({"model": "fx-oai", "messages": [user("x" * 17 * MEGABYTE)]}).encode()
    with caller.system.http(caller.person) as client:
        answer = client.post(KYARA, content=large, headers={"content-type": "application/json"})
    assert (answer.status_code, error_of(answer)["code"]) == (413, "request_too_large")
    assert not p1.requests


@pytest.mark.rule("KYARA-006")
def test_c099_an_unknown_model_has_its_code_here_too(caller: Caller) -> None:
    answer = caller.kyara(model="no-such-model")
    assert (answer.status_code, error_of(answer)["code"]) == (400, "model_not_found")
