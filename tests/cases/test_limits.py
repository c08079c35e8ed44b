"""One pace for all keys, formats and processes of an account, and waits that are true: cases C045 and C047."""

import re
import time
from collections.abc import Iterator, Mapping

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2
from valkey import Valkey

from tests.cases.caller import CHAT, MESSAGES, RESPONSES, Caller, user
from tests.support.background import BackgroundProvider
from tests.support.second_edge import FurtherEdge, further_edge
from tests.support.system import Person, System, eventually

HI = {"messages": [user("Hi")]}
LONG_HI = {**HI, "max_tokens": 20}
TWO_A_MINUTE = "fx-two-a-minute:free"


@pytest.fixture(scope="module")
def further(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FurtherEdge]:
    """Another edge."""
    with further_edge(system, tmp_path_factory.mktemp("further"), {}) as edge:
        yield edge


@pytest.mark.rule("LIMIT-002", "LIMIT-009", "LIMIT-011", "LIMIT-012", "LIMIT-013", "LIMIT-014")
@pytest.mark.parametrize("edges", [1, 2])
def test_c045_all_keys_formats_and_edges_share_the_accounts_pace(
    system: System, p1: BackgroundProvider, further: FurtherEdge, edges: int
) -> None:
    one, other = system.person(), system.person()
    with system.accounts() as accounts:
        request = accounts_pb2.CreateKeyRequest(account_id=one.account_id, label="second")
        second = Person(one.account_id, "", accounts.CreateKey(request, timeout=10).secret)
        pace = accounts_pb2.SetAccountLimitsRequest(account_id=one.account_id, requests_per_minute=4)
        accounts.SetAccountLimits(pace, timeout=10)
    # The limiter hears of it by an event.
    time.sleep(1)
    bases = [system.base_url, further.base_url][:edges]
    asked = 0

    def ask(path: str, key: dict[str, str], body: Mapping[str, object]) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.post(bases[asked % edges] + path, json=body, headers=key, timeout=30)

    bearer, x_api_key = one.headers, {"x-api-key": second.key}
    responses = {"model": "fx-oai", "input": "Hi"}
    first_four = [
        ask(CHAT, bearer, {"model": "fx-oai", **HI}),
        ask(MESSAGES, x_api_key, {"model": "fx-oai", **LONG_HI}),
        ask(RESPONSES, bearer, responses),
        ask(CHAT, second.headers, {"model": "fx-ant", **HI}),
    ]
    assert [answer.status_code for answer in first_four] == [200] * 4
    for refused in (ask(CHAT, bearer, {"model": "fx-oai", **HI}), ask(RESPONSES, bearer, responses)):
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert "retry-after" not in refused.headers
    spoken = ask(MESSAGES, x_api_key, {"model": "fx-oai", **LONG_HI})
    assert spoken.status_code == 429
    assert spoken.json()["error"].pop("message")
    assert {**spoken.json(), "error": {"type": "rate_limit_error"}} == {
        "type": "error",
        "error": {"type": "rate_limit_error"},
    }
    assert ask(CHAT, bearer, {"model": "fx-free:free", **HI}).status_code == 200
    assert ask(CHAT, other.headers, {"model": "fx-oai", **HI}).status_code == 200


@pytest.mark.rule("LIMIT-001", "LIMIT-003", "LIMIT-009", "LIMIT-022", "LIMIT-030", "LIMIT-031")
def test_c047_reset_and_retry_after_are_true(payer: Caller) -> None:
    begun = time.time()
    first, second = payer.chat(TWO_A_MINUTE), payer.chat(TWO_A_MINUTE)
    told = [[answer.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining")] for answer in (first, second)]
    assert told == [["2", "1"], ["2", "0"]]
    resets = [answer.headers["x-ratelimit-reset"] for answer in (first, second)]
    assert all(re.fullmatch("[0-9]{10}", reset) for reset in resets)
    assert resets[0] == resets[1]
    assert begun < int(resets[0]) <= time.time() + 60

    refused = payer.chat(TWO_A_MINUTE)
    now = time.time()
    assert refused.status_code == 429
    problem = refused.json()["error"]
    assert problem.pop("message")
    assert problem == {"type": "rate_limit_exceeded", "code": "free_quota_rpm", "param": None}
    wait = refused.headers["retry-after"]
    assert re.fullmatch("[1-9][0-9]?", wait) and int(wait) <= 60
    assert abs(now + int(wait) - int(resets[1])) <= 1.5

    spoken = payer.messages(TWO_A_MINUTE)
    assert (spoken.status_code, spoken.json()["error"]["type"]) == (429, "rate_limit_error")
    assert "code" not in spoken.json()["error"]
    assert 0 < int(spoken.headers["retry-after"]) <= int(wait)

    _pass_time(payer, int(wait), now)
    eventually(lambda: payer.chat(TWO_A_MINUTE).status_code == 200)


def _pass_time(payer: Caller, seconds: int, now: float) -> None:
    """Let the minute be as if so many seconds had passed since ``now``: it must be over then, not long before."""
    key = f"{{{payer.person.account_id}}}:free:minute:{TWO_A_MINUTE}"
    with Valkey.from_url(payer.system.valkey.url) as store:
        used, ends_ms = (int(part) for part in store.get(key).split())
        assert used == 2
        left_s = ends_ms / 1000 - now
        assert seconds - 1.5 < left_s <= seconds
        store.delete(key)
