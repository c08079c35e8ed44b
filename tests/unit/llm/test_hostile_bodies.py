"""Whatever a body holds, every chat path reads it or refuses it, and what is read can be sent to every provider."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.failures import BadRequest, FailureKind, ProviderFailure
from libs.llm.formats import anthropic_messages, kyara_chat, openai_chat, openai_responses
from libs.llm.formats.base import ClientFormat
from libs.llm.providers import Providers
from libs.llm.providers.base import Abilities, Target
from libs.llm.transport import Call
from tests.support.hostile_bodies import (
    CHAT,
    COUNT,
    KYARA,
    MESSAGES,
    RESPONSES,
    WHOLE,
    WRONG,
    left_out,
    misshapen,
    places,
    put,
)

FORMATS: dict[str, ClientFormat] = {
    CHAT: openai_chat.FORMAT,
    MESSAGES: anthropic_messages.FORMAT,
    RESPONSES: openai_responses.FORMAT,
    KYARA: kyara_chat.FORMAT,
}
TARGET = Target(
    base_url="http://x", model="real", upstream="u", abilities=Abilities(json_format=True, cache_marks=True)
)

every_path = pytest.mark.parametrize("path", WHOLE)


class _Unreachable:
    """A transport that keeps the call and fails."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def send(self, call: Call) -> Any:
        self.calls.append(call)
        raise ProviderFailure(FailureKind.REFUSED)


TRANSPORT = _Unreachable()
PROVIDERS = Providers(TRANSPORT)


def refused(path: str, raw: bytes) -> bool:
    """Give a body to a path as the edge does; true when it is refused. Anything else raised is a fault of ours."""
    if path == COUNT:
        try:
            assert json.loads(anthropic_messages.count_tokens(raw))["input_tokens"] >= 1
        except BadRequest as bad:
            _check_error(anthropic_messages.FORMAT, bad)
            return True
        return False
    try:
        request = FORMATS[path].parse(raw, lambda _: None)
    except BadRequest as bad:
        _check_error(FORMATS[path], bad)
        return True
    for provider in ("openai_chat", "anthropic", "openai_responses", "gemini"):
        batches = PROVIDERS.get(provider).stream(request, TARGET, 100)
        with pytest.raises(ProviderFailure):
            batches.asend(None).send(None)
        assert isinstance(json.loads(TRANSPORT.calls.pop().body), dict)
    return False


def _check_error(format: ClientFormat, bad: BadRequest) -> None:
    status, body = format.render_error(bad.api_error())
    assert status in (400, 422)
    error = json.loads(body)["error"]
    assert error["message"]
    assert len(body) < 2_000


@every_path
def test_a_whole_body_is_taken(path: str) -> None:
    assert not refused(path, json.dumps(WHOLE[path]).encode())


@every_path
def test_a_wrong_value_at_any_place_is_read_or_refused(path: str) -> None:
    body = WHOLE[path]
    # Every place meets every other value: neighbours meet the rest.
    outcomes = {
        refused(path, json.dumps(put(body, place, value)).encode())
        for number, place in enumerate(places(body))
        for value in WRONG[number % 2 :: 2]
    }
    assert outcomes == {True, False}


@every_path
def test_a_missing_member_or_element_is_no_fault_of_ours(path: str) -> None:
    for place in places(WHOLE[path]):
        refused(path, json.dumps(left_out(WHOLE[path], place)).encode())


@every_path
def test_what_is_no_proper_json_is_read_or_refused(path: str) -> None:
    for raw in misshapen(WHOLE[path]).values():
        refused(path, raw)


@every_path
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_several_wrong_values_are_read_or_refused(path: str, data: st.DataObject) -> None:
    body = WHOLE[path]
    for _ in range(data.draw(st.integers(2, 4))):
        at = list(places(body))
        if at:
            body = put(body, data.draw(st.sampled_from(at)), data.draw(st.sampled_from(WRONG)))
    refused(path, json.dumps(body).encode())


@every_path
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(path: str, data: st.DataObject) -> None:
    raw = bytearray(json.dumps(WHOLE[path]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    refused(path, bytes(raw))
