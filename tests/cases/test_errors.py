"""Every error a chat endpoint gives before its answer begins, in the envelopes of all three formats."""

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.cases.caller import CHAT, FORMATS, KYARA, MESSAGES, RESPONSES, Caller, function, user
from tests.support import anthropic_wire
from tests.support.background import BackgroundProvider
from tests.support.provider import HANG, RESET, Scripted, error, raw, stream, text_answer
from tests.support.system import System, eventually

PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


def check(answer: httpx.Response, format: str, status: int, code: str, kind: str, messages_kind: str) -> None:
    """The answer is this error in the format's envelope and says nothing of a vendor. ``kind`` "" repeats the code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    body = answer.json()
    if format == "messages":
        assert set(body) == {"type", "error"}
        assert set(body["error"]) == {"type", "message"}
        assert (body["type"], body["error"]["type"]) == ("error", messages_kind)
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        told = (body["error"]["code"], body["error"]["type"], body["error"]["param"])
        assert told == (code, kind or code, None)
    assert body["error"]["message"]
    assert "vendor" not in answer.text + json.dumps(dict(answer.headers))


@dataclass(frozen=True)
class Own:
    """An error of our own; ``rupiahs`` is what the account has."""

    model: str
    status: int
    code: str
    messages_kind: str
    kind: str = ""
    rupiahs: int = 100_000
    members: dict[str, Any] = field(default_factory=dict)
    key: dict[str, Any] = field(default_factory=dict)


OWN = {
    "unknown-model": Own("no-such-model", 400, "model_not_found", "not_found_error"),
    "another-kind": Own("fx-image", 400, "bad_request", "invalid_request_error"),
    "wrong-type": Own("fx-oai", 400, "bad_request", "invalid_request_error", members={"temperature": "hot"}),
    "key-of-other-models": Own("fx-oai", 400, "bad_request", "invalid_request_error", key={"models": ["fx-ant"]}),
    "too-long": Own(
        "fx-small",
        400,
        "context_length_exceeded",
        "invalid_request_error",
        "invalid_request_error",
        members={"content": "word " * 2_000},
    ),
    "no-money": Own("fx-oai", 402, "insufficient_balance", "payment_required", rupiahs=0),
    "nobody-takes-tools": Own("fx-plain", 503, "no_wire_for_modality", "api_error", members={"tools": True}),
}


def asked(format: str, members: dict[str, Any]) -> dict[str, Any]:
    """``content`` and ``tools`` as the format has them."""
    found = dict(members)
    if "content" in found:
        turns = [user(found.pop("content"))]
        found["input" if format == "responses" else "messages"] = turns
    if "tools" in found:
        flat = {"name": "ping"}
        shapes: dict[str, dict[str, Any]] = {
            "chat": function("ping"),
            "messages": {**flat, "input_schema": {"type": "object"}},
            "responses": {**flat, "type": "function"},
        }
        found["tools"] = [shapes[format]]
    return found


@pytest.mark.rule(
    "ERR-001", "ERR-002", "ERR-006", "ERR-007", "ERR-008", "ERR-009", "ERR-010", "ERR-011", "ERR-012", "ERR-016",
    "ERR-040", "ERR-045", "ERR-078", "ERR-082", "STR-011", "RESP-059",
)  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("cause", OWN)
def test_our_own_errors(system: System, p1: BackgroundProvider, cause: str, format: str, streamed: bool) -> None:
    own = OWN[cause]
    caller = Caller(system, system.person(own.rupiahs, **own.key))
    answer = caller.ask(format, own.model, stream=streamed, **asked(format, own.members))
    check(answer, format, own.status, own.code, own.kind, own.messages_kind)
    assert not p1.requests


@pytest.mark.rule("CHAT-057", "RESP-058", "MSG-060", "ERR-040")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"null", b"\xff", b"{}", b'{"model":"fx-oai"}', b"[" * 100_000, b'{"model":{"a":1}}'],
)
def test_a_body_that_cannot_be_read(caller: Caller, p1: BackgroundProvider, format: str, body: bytes) -> None:
    with caller.system.http(caller.person) as client:
        answer = client.post(PATHS[format], content=body, headers={"content-type": "application/json"})
    check(answer, format, 400, "bad_request", "", "invalid_request_error")
    assert not p1.requests


@dataclass(frozen=True)
class Theirs:
    """What a provider answers, and what becomes of it."""

    answer: Scripted
    status: int
    code: str
    messages_kind: str
    kind: str = ""


INVALID, API = "invalid_request_error", "api_error"


def rejected(status: int, code: str, answer: Scripted, messages_kind: str = INVALID) -> Theirs:
    return Theirs(answer, status, code, messages_kind, INVALID)


def failed(answer: Scripted) -> Theirs:
    return Theirs(answer, 503, "upstream_error", API)


OPENAI = {
    "500": failed(error(500)),
    "502-html": failed(text_answer("<html>vendor</html>", 502)),
    "200-html": failed(text_answer("<html>vendor</html>", 200)),
    "401": failed(error(401)),
    "402": failed(error(402)),
    "403-key": failed(error(403)),
    "no-http": failed(raw(b"vendor\r\n\r\n", RESET)),
    "reset": failed(raw(RESET)),
    "429": Theirs(error(429), 429, "upstream_error", "rate_limit_error"),
    "418": Theirs(text_answer("vendor", 418), 400, "upstream_error", API),
    "400-html": Theirs(text_answer("vendor", 400), 400, "upstream_error", API),
    "400": rejected(400, "invalid_request_error", error(400, type="invalid_request_error")),
    "400-unclear": rejected(400, "upstream_rejected", error(400, type="vendor_error")),
    "413": rejected(413, "upstream_rejected", error(413)),
    "415": rejected(415, "upstream_rejected", error(415)),
    "422": rejected(422, "upstream_rejected", error(422)),
    "404": rejected(404, "model_not_found", error(404, code="model_not_found"), "not_found_error"),
    "403-policy": rejected(403, "content_policy_violation", error(403, code="content_policy_violation")),
    "400-length": rejected(400, "context_length_exceeded", error(400, code="context_length_exceeded")),
    "429-length": rejected(429, "context_length_exceeded", error(429, code="context_length_exceeded")),
    "400-prefill": rejected(400, "prefill_unsupported", error(400, "the vendor has no prefill for this model")),
}


def refusal(status: int, kind: str, words: str = "vendor text") -> Scripted:
    return anthropic_wire.failure(status, kind, words)


ANTHROPIC = {
    "500": failed(refusal(500, "api_error")),
    "529": failed(refusal(529, "overloaded_error")),
    "401": failed(refusal(401, "authentication_error")),
    "403-key": failed(refusal(403, "permission_error")),
    "200-html": failed(text_answer("<html>vendor</html>", 200)),
    "429": Theirs(refusal(429, "rate_limit_error"), 429, "upstream_error", "rate_limit_error"),
    "418": Theirs(text_answer("vendor", 418), 400, "upstream_error", API),
    "400": rejected(400, "invalid_request_error", refusal(400, INVALID)),
    "413": rejected(413, "invalid_request_error", refusal(413, "request_too_large")),
    "404": rejected(404, "model_not_found", refusal(404, "not_found_error", "model: vendor"), "not_found_error"),
    "400-length": rejected(
        400, "context_length_exceeded", refusal(400, INVALID, "prompt is too long: 208310 tokens > 200000 maximum")
    ),
    "400-prefill": rejected(
        400, "prefill_unsupported", refusal(400, INVALID, "This model does not support assistant message prefill.")
    ),
}

PROVIDERS = {("fx-oai", name): theirs for name, theirs in OPENAI.items()} | {
    ("fx-ant", name): theirs for name, theirs in ANTHROPIC.items()
}


@pytest.mark.rule(
    "ERR-001", "ERR-002", "ERR-008", "ERR-009", "ERR-014", "ERR-015", "ERR-016", "ERR-017", "ERR-047", "ERR-048",
    "ERR-049", "ERR-050", "ERR-051", "ERR-052", "ERR-053", "ERR-054", "ERR-056", "ERR-061", "ERR-062", "ERR-075",
    "ERR-079", "STR-011",
)  # fmt: skip
@pytest.mark.parametrize(("model", "cause"), PROVIDERS, ids=[f"{wire}-{name}" for wire, name in PROVIDERS])
def test_errors_of_a_provider(payer: Caller, p1: BackgroundProvider, model: str, cause: str) -> None:
    theirs = PROVIDERS[model, cause]
    p1.answers(theirs.answer)
    for format in FORMATS:
        for streamed in (False, True):
            answer = payer.ask(format, model, stream=streamed)
            check(answer, format, theirs.status, theirs.code, theirs.kind, theirs.messages_kind)
            assert "retry-after" not in answer.headers
    # Nobody was asked twice, and nothing cost anything.
    assert len(p1.requests) == 2 * len(FORMATS)
    assert payer.settled() == 100_000_000_000


@pytest.mark.rule("ERR-075")
@pytest.mark.parametrize("format", FORMATS)
def test_a_provider_that_is_silent(caller: Caller, p1: BackgroundProvider, format: str) -> None:
    p1.answers(stream(HANG))
    check(caller.ask(format, "fx-silent"), format, 503, "upstream_error", "", API)


@pytest.mark.rule("ERR-016", "ERR-076", "ERR-077")
@pytest.mark.parametrize("format", FORMATS)
def test_all_providers_of_a_model_failing(
    caller: Caller, p1: BackgroundProvider, p2: BackgroundProvider, format: str
) -> None:
    p1.answers(error(500))
    p2.answers(error(500))
    answer = caller.ask(format, "fx-two")
    check(answer, format, 503, "all_providers_failed", "", API)
    assert "retry-after" not in answer.headers


@pytest.mark.rule("ERR-003", "ERR-014")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("model", "code", "retry"),
    [("fx-minute:free", "free_quota_rpm", True), ("fx-once:free", "free_quota_daily", False)],
)
def test_limits_of_free_models(payer: Caller, format: str, model: str, code: str, retry: bool) -> None:
    assert payer.ask(format, model).status_code == 200
    # That it succeeded is told to the limiter when the answer is out already.
    refused: httpx.Response = eventually(lambda: _refused(lambda: payer.ask(format, model)))
    check(refused, format, 429, code, "rate_limit_exceeded", "rate_limit_error")
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers.get("x-should-retry") == (None if retry else "false")


def _refused(ask: Callable[[], httpx.Response]) -> httpx.Response | None:
    answer = ask()
    return None if answer.status_code == 200 else answer


@pytest.mark.rule("ERR-014")
def test_the_limit_of_an_account(payer: Caller) -> None:
    eventually(lambda: _refused(payer.chat), every_s=0)
    for format in FORMATS:
        refused = payer.ask(format, "fx-oai")
        check(refused, format, 429, "rate_limit_exceeded", "", "rate_limit_error")
        assert "retry-after" not in refused.headers


@pytest.mark.rule("ERR-027", "ERR-028", "ERR-032", "ERR-035", "ERR-038", "ERR-082", "STR-012")
@pytest.mark.parametrize("format", FORMATS)
def test_plain_text_before_the_api(caller: Caller, p1: BackgroundProvider, format: str) -> None:
    url, body = caller.system.base_url + PATHS[format], {"model": "fx-oai", "stream": True}
    unknown = {"authorization": "Bearer kn-" + "A" * 43}
    answers = {
        (401, "missing authorization"): httpx.post(url, json=body, verify=False),
        (401, "invalid key"): httpx.post(url, json=body, headers=unknown, verify=False),
        (413, "request body too large"): httpx.post(
            url, content=b" " * (32 * 1024 * 1024 + 1), headers=caller.person.headers, verify=False
        ),
    }
    for (status, text), answer in answers.items():
        assert (answer.status_code, answer.text) == (status, text)
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["request-id"]
    assert not p1.requests


@pytest.mark.rule("ERR-033", "ERR-038")
def test_a_body_that_stops_arriving(caller: Caller, p1: BackgroundProvider) -> None:
    begun = []
    for path in (*PATHS.values(), KYARA):
        connection = http.client.HTTPConnection(caller.system.base_url.removeprefix("http://"), timeout=10)
        connection.putrequest("POST", path)
        for name, value in (caller.person.headers | {"content-length": "100"}).items():
            connection.putheader(name, value)
        connection.endheaders(b'{"model":')
        begun.append((path, connection))
    for path, connection in begun:
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 408
        if path == KYARA:
            # This dialect has an envelope for every refusal.
            assert json.loads(text)["error"]["message"] == "request body timed out"
        else:
            assert text == "request body timed out"
        connection.close()
    assert not p1.requests
