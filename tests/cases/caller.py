"""An account of its own that asks in every client format and looks at its money.
Used by the fault cases through the fixture ``caller``.
"""

import time
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.joined import Joined, join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.support.system import Person, System, eventually

CHAT, MESSAGES, RESPONSES, KYARA = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/kyara/v1/chat/completions",
)
FORMATS = ("chat", "messages", "responses")
RUPIAH_100_000 = 100_000_000_000

_JOINERS = {"chat": join_chat, "messages": join_messages, "responses": join_responses}


@dataclass(frozen=True)
class Caller:
    """Asks as one account; members of the body are given by name, None leaves a usual one out."""

    system: System
    person: Person

    def post(self, path: str, body: Any) -> httpx.Response:
        with self.system.http(self.person) as client:
            return client.post(path, json=body)

    def chat(self, model: str = "fx-oai", path: str = CHAT, **members: Any) -> httpx.Response:
        return self.post(path, _body(model, members, messages=[{"role": "user", "content": "Hi"}]))

    def messages(self, model: str = "fx-ant", **members: Any) -> httpx.Response:
        usual = {"max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
        return self.post(MESSAGES, _body(model, members, **usual))

    def responses(self, model: str = "fx-oai", **members: Any) -> httpx.Response:
        return self.post(RESPONSES, _body(model, members, input="Hi"))

    def kyara(self, **members: Any) -> httpx.Response:
        return self.chat(path=KYARA, **members)

    def ask(self, format: str, model: str, **members: Any) -> httpx.Response:
        """The same question in the client format of that name."""
        asks = {"chat": self.chat, "messages": self.messages, "responses": self.responses}
        return asks[format](model, **members)

    def joined(self, format: str, model: str, **members: Any) -> Joined:
        """The answer as a stream in that format, folded."""
        return join(format, self.ask(format, model, stream=True, **members))

    def leave(self, format: str, model: str, seen: str, stay_s: float = 0.0) -> None:
        """Ask for a stream, and hang up when these words came, or so long after."""
        asks: dict[str, tuple[str, dict[str, Any]]] = {
            "chat": (CHAT, {"messages": [user("Hi")]}),
            "messages": (MESSAGES, {"messages": [user("Hi")]}),
            "responses": (RESPONSES, {"input": "Hi"}),
            "kyara": (KYARA, {"messages": [user("Hi")]}),
        }
        path, asked = asks[format]
        body = {"model": model, "stream": True, **asked}
        with self.system.http(self.person) as client, client.stream("POST", path, json=body) as answer:
            assert answer.status_code == 200
            assert any(seen in line for line in answer.iter_lines())
            time.sleep(stay_s)

    @property
    def balance(self) -> int:
        """Micro-Rupiah, holds not subtracted."""
        return int(self.system.balance(self.person)["balance_micro_idr"])

    def settled(self) -> int:
        """The balance once nothing is reserved any more."""
        eventually(lambda: self.system.balance(self.person)["reserved_micro_idr"] == 0)
        return self.balance

    def log(self, rows: int) -> list[dict[str, Any]]:
        """The usage log once it has that many rows, oldest first."""
        eventually(lambda: len(self.system.usage(self.person)) >= rows, every_s=0.25)
        found = self.system.usage(self.person)
        assert len(found) == rows
        return found[::-1]


def join(format: str, answer: httpx.Response) -> Joined:
    """Fold a streamed answer of that client format."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return _JOINERS[format](answer.content)


def function(name: str, **parameters: Any) -> dict[str, Any]:
    """A function tool of Chat completions."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", **parameters}}}


def user(content: Any) -> dict[str, Any]:
    """A user's turn."""
    return {"role": "user", "content": content}


def _body(model: str, members: dict[str, Any], **usual: Any) -> dict[str, Any]:
    return {name: value for name, value in {"model": model, **usual, **members}.items() if value is not None}
