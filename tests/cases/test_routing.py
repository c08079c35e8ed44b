"""Which provider is asked, how often, and what of it shows: cases C037, C039, C041 and C043."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial

import httpx
import pytest

from libs.llm.providers.rejections import retry_after_ms
from services.router.domain import Health, HealthRules, Plan, Server, Try, Verdict, judge, plan, retry_after_s
from tests.cases.answers import says_ok
from tests.cases.caller import FORMATS, RUPIAH_100_000, Caller, join
from tests.support.anthropic_wire import failure
from tests.support.background import BackgroundProvider
from tests.support.provider import (
    DONE,
    RESET,
    Pause,
    chunk,
    delta,
    error,
    event,
    finish,
    json_answer,
    stream,
    usage,
)
from tests.support.system import System, eventually

SAID = "The answer is "


@pytest.mark.rule("STR-013", "STR-036", "STR-072")
@pytest.mark.parametrize("format", FORMATS)
def test_c037_nobody_goes_on_where_another_has_broken_off(
    payer: Caller, p1: BackgroundProvider, p2: BackgroundProvider, format: str
) -> None:
    """The joiners allow one start; the second provider is not even asked."""
    p1.answers(stream(delta("", role="assistant"), delta(SAID), RESET))
    p2.answers(stream(delta("", role="assistant"), delta("42."), finish("stop"), usage(10, 3), DONE))
    answer = payer.ask(format, "fx-two", stream=True)
    joined = join(format, answer)
    assert joined.error is not None
    assert SAID in answer.text
    assert "42." not in answer.text
    assert not p2.requests
    assert len(payer.log(1)) == 1


@pytest.mark.rule("ERR-017", "ERR-048", "ERR-049", "ERR-050", "ERR-057", "ERR-061")
@pytest.mark.parametrize("format", FORMATS)
def test_c039_a_request_the_provider_calls_malformed_is_asked_once(
    payer: Caller, p1: BackgroundProvider, p2: BackgroundProvider, format: str
) -> None:
    said = "vendor-x: param top_k bad at https://api.vendor-x.example"
    p1.answers(error(400, said, type="invalid_request_error"))
    p2.answers(error(422, "vendor-y says no"))
    answer = payer.ask(format, "fx-two")
    assert answer.status_code == 400
    body = answer.json()
    if format == "messages":
        assert set(body) == {"type", "error"}
        assert set(body["error"]) == {"type", "message"}
    else:
        assert body["error"]["code"] in ("invalid_request_error", "upstream_rejected")
        assert body["error"]["param"] is None
    assert body["error"]["type"] == "invalid_request_error"
    assert not [word for word in ("vendor", "top_k", "https://") if word in answer.text]
    assert len(p1.requests) == 1
    assert len(p2.requests) <= 1
    assert payer.settled() == RUPIAH_100_000


NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
RULES = HealthRules()
ONLY = (Server("p1/key", "real-model", 0, 1),)


class SetClock:
    def __init__(self, moment: datetime) -> None:
        self._ms = int(moment.timestamp() * 1000)

    def now_ms(self) -> int:
        return self._ms


def limited(retry_after: str) -> Health:
    """The health of a provider that answered 429 at noon with this header."""
    now_ms = SetClock(NOON).now_ms()
    wait = retry_after_ms({"retry-after": retry_after}, SetClock(NOON))
    return judge(Health(), Try(Verdict.AT_LIMIT, "rate_limited", now_ms, now_ms, wait), now_ms, RULES)


def planned(health: Health, seconds_later: float) -> tuple[Plan, int]:
    """Who may be asked so much later, and that moment."""
    now_ms = SetClock(NOON + timedelta(seconds=seconds_later)).now_ms()
    return plan(ONLY, [health], [0], now_ms), now_ms


@pytest.mark.parametrize("header", ["Thu, 01 Oct 2026 12:00:20 GMT", "20"])
def test_c041_a_wait_given_as_a_date_is_kept(header: str) -> None:
    """With a set clock, for the part that decides: the real system's clock cannot be set."""
    health = limited(header)
    for second in (1, 10, 19):
        inside, now_ms = planned(health, second)
        assert (inside.first, inside.due) == ((), ())
        assert retry_after_s(inside, now_ms) == 20 - second
    assert planned(health, 25)[0].due == (0,)


def test_c041_a_very_long_wait_is_cut_to_an_hour() -> None:
    health = limited("86400")
    assert planned(health, 3_599)[0].due == ()
    assert planned(health, 3_600)[0].due == (0,)


@pytest.mark.rule("ERR-014", "ERR-076", "ERR-077")
def test_c041_a_provider_is_left_alone_as_long_as_it_said(
    system: System, caller: Caller, p1: BackgroundProvider
) -> None:
    # The header counts in whole seconds; this is 5 to 6 of them, and the system waits for 1 at most by itself.
    moment = (datetime.now(UTC) + timedelta(seconds=6)).replace(microsecond=0)
    until = format_datetime(moment, usegmt=True)
    p1.answers(error(429, "slow down", {"retry-after": until}))
    check_limited(caller.chat("fx-oai-slow"))
    p1.answers(failure(429, "rate_limit_error", "slow down", retry_after=until))
    check_limited(caller.chat("fx-ant-slow"))
    p1.answers(says_ok)
    for upstream in ("p1-slow", "p1-ant-slow"):
        # The router hears of it through the log of attempts.
        eventually(partial(is_paused, system, f"{upstream}/CASES_PROVIDER_KEY"))
    for format in FORMATS:
        for model in ("fx-oai-slow", "fx-ant-slow"):
            paused = caller.ask(format, model)
            assert paused.status_code == 503
            assert 1 <= int(paused.headers["retry-after"]) <= 6
            if format != "messages":
                assert paused.json()["error"]["code"] == "all_providers_failed"
    assert not p1.requests
    for model in ("fx-oai-slow", "fx-ant-slow"):
        eventually(partial(answers, caller, model), every_s=0.5)
        assert datetime.now(UTC) >= moment


def is_paused(system: System, upstream: str) -> bool:
    return system.metric("router", "kenari_router_upstream_state", upstream=upstream) == 2


def answers(caller: Caller, model: str) -> bool:
    return caller.chat(model).status_code == 200


def check_limited(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "upstream_error")
    assert "retry-after" not in answer.headers


VENDOR = {"server": "vendor-x", "x-vendor-x-request": "abc", "set-cookie": "v=1"}


@pytest.mark.rule("ERR-079", "ERR-061", "CHAT-044", "CHAT-045", "STR-020", "ROUTE-007")
def test_c043_nothing_of_the_provider_shows(payer: Caller, p1: BackgroundProvider) -> None:
    told = {
        "id": "vendorx-1",
        "object": "chat.completion",
        "model": "vendor-x/real-model-0731",
        "system_fingerprint": "fp_vx",
        "provider": "vendor-x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
    }
    streamed = stream(
        chunk([{"delta": {"role": "assistant", "content": "ok"}}], model="vendor-x/real-model-0731"),
        finish("stop"),
        usage(5, 1),
        DONE,
        headers=VENDOR,
    )
    p1.answers(json_answer(told, headers=VENDOR), streamed)
    whole = payer.chat()
    assert whole.json()["model"] == "fx-oai"
    assert whole.json()["id"] == whole.headers["x-request-id"]
    assert not {"system_fingerprint", "provider"} & set(whole.json())
    spoken = payer.messages("fx-oai", stream=True)
    assert join("messages", spoken).model == "fx-oai"
    refused = error(401, "vendor-x: key sk-live-123 is invalid", VENDOR)
    p1.answers(refused)
    unknown_key = payer.responses()
    p1.refuse()
    try:
        unreachable = payer.chat()
    finally:
        p1.listen_again()
    assert (unknown_key.status_code, unreachable.status_code) == (503, 503)
    place = p1.base_url.removeprefix("http://").removesuffix("/v1")
    for answer in (whole, spoken, unknown_key, unreachable):
        seen = answer.text + json.dumps(dict(answer.headers))
        assert not [word for word in ("vendor", "real-model", "sk-live", "fp_vx", place) if word in seen]
        assert "set-cookie" not in answer.headers
    assert {row["model"] for row in payer.log(2)} == {"fx-oai"}


@pytest.mark.rule("ERR-061", "STR-036")
@pytest.mark.parametrize("format", FORMATS)
def test_c043_not_even_in_the_middle_of_a_stream(caller: Caller, p1: BackgroundProvider, format: str) -> None:
    failed = {"error": {"message": "vendor-x: key sk-live-123 is invalid", "type": "vendor_error"}}
    p1.answers(stream(delta("", role="assistant"), delta("ok"), Pause(0.05), event(failed), headers=VENDOR))
    answer = caller.ask(format, "fx-oai", stream=True)
    assert join(format, answer).error is not None
    assert not [word for word in ("vendor", "sk-live") if word in answer.text + json.dumps(dict(answer.headers))]
