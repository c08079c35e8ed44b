"""Requests of every kind, sent once to a running kenari, with words in them that must turn up nowhere else.
Used by conftest.py; the tests look at what the requests left behind.
"""

import secrets
from dataclasses import dataclass, field

import httpx
from kenari.accounts.v1 import accounts_pb2

from libs.core.keys import new_key
from tests.support.background import BackgroundProvider
from tests.support.fixture_catalog import PROVIDER_KEY
from tests.support.provider import DONE, completion, delta, error, finish, stream, usage
from tests.support.system import Person, System

CHAT = "/v1/chat/completions"
PROMPT = "burung-kenari-menyanyi-4711"
ANSWER = "nyanyian-yang-tak-terdengar-0815"
VENDOR = "vendor-says-mine-shaft-3003"
# What a client saw as "p2 fails" happens this often, so that the router pauses p2.
FAILURES = 3
# How many of the requests end in a settlement: paid, not sampled, free, simulated, streamed.
SETTLED = 5


@dataclass(frozen=True)
class Sent:
    """A request that carried a traceparent, and what came back."""

    trace_id: str
    parent_id: str
    answer: httpx.Response

    @property
    def request_id(self) -> str:
        return str(self.answer.headers["x-request-id"])


@dataclass
class Traffic:
    """Everything that was sent, by what it was for; ``others`` went without a traceparent."""

    person: Person
    unknown_key: str
    sent: dict[str, Sent] = field(default_factory=dict)
    others: dict[str, httpx.Response] = field(default_factory=dict)

    @property
    def secrets(self) -> dict[str, str]:
        """What may stand in no log, event, span or metric, by what it is."""
        return {
            "key": self.person.key,
            "unknown key": self.unknown_key,
            "prompt": PROMPT,
            "answer": ANSWER,
            "provider's text": VENDOR,
            "provider's credential": PROVIDER_KEY["E2E_PROVIDER_KEY"],
        }


def send_all(system: System, first: BackgroundProvider, second: BackgroundProvider) -> Traffic:
    """Send paid, free, streamed, refused and failing requests and reads."""
    traffic = Traffic(system.person(), new_key())
    first.answers(completion(ANSWER, usage=(1000, 100)))
    second.answers(error(500, VENDOR))
    with system.http(traffic.person) as client:
        _answered(traffic, client, first)
        _failing(traffic, client)
        traffic.sent["read"] = _get(client, "/v1/account/balance")
        for path in ("/v1/models", "/v1/usage/log", "/health"):
            traffic.others[path] = client.get(path)
    _refused(traffic, system)
    return traffic


def _answered(traffic: Traffic, client: httpx.Client, first: BackgroundProvider) -> None:
    traffic.sent["paid"] = _post(client, "fx-oai")
    traffic.sent["not sampled"] = _post(client, "fx-oai", sampled=False)
    traffic.others["free"] = client.post(CHAT, json=_body("fx-free:free"))
    traffic.others["simulated"] = client.post(CHAT, json=_body("sim-1:free", stream=True))
    first.answers(stream(delta(ANSWER), finish("stop"), usage(1000, 100), DONE))
    traffic.others["streamed"] = client.post(CHAT, json=_body("fx-oai", stream=True))


def _failing(traffic: Traffic, client: httpx.Client) -> None:
    traffic.sent["failing"] = _post(client, "fx-other")
    for number in range(FAILURES):
        traffic.others[f"failing {number}"] = client.post(CHAT, json=_body("fx-other"))


def _refused(traffic: Traffic, system: System) -> None:
    with system.http(system.person(rupiahs=0)) as poor:
        traffic.others["no money"] = poor.post(CHAT, json=_body("fx-oai"))
        traffic.others["no such model"] = poor.post(CHAT, json=_body("no-such-model"))
        traffic.others["broken"] = poor.post(CHAT, content=f'{{"model": "fx-oai", "messages": "{PROMPT}'.encode())
    with system.http() as nobody:
        nobody.headers["authorization"] = f"Bearer {traffic.unknown_key}"
        traffic.sent["unknown key"] = _post(nobody, "fx-oai")
    revoked = system.person(rupiahs=0)
    with system.accounts() as accounts:
        accounts.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=revoked.key_id), timeout=10)


def _body(model: str, **members: object) -> dict[str, object]:
    return {"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": PROMPT}], **members}


def _post(client: httpx.Client, model: str, *, sampled: bool = True) -> Sent:
    trace_id, parent_id, headers = _trace(sampled)
    return Sent(trace_id, parent_id, client.post(CHAT, json=_body(model), headers=headers))


def _get(client: httpx.Client, path: str) -> Sent:
    trace_id, parent_id, headers = _trace(True)
    return Sent(trace_id, parent_id, client.get(path, headers=headers))


def _trace(sampled: bool) -> tuple[str, str, dict[str, str]]:
    trace_id, parent_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, parent_id, {"traceparent": f"00-{trace_id}-{parent_id}-{'01' if sampled else '00'}"}
