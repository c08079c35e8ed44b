"""Bodies that no client should send, on the running system: never a 500, always the path's own envelope."""

import json
from typing import Any

import httpx
import pytest

from tests.cases.answers import says_ok
from tests.support.background import BackgroundProvider
from tests.support.hostile_bodies import COUNT, MESSAGES, WHOLE, misshapen, put
from tests.support.system import Person, System

WRONG: tuple[Any, ...] = (None, True, -1, 10**400, 1e308, "\ud800", "", [], [None], {}, {"type": "x"})


def check(path: str, answer: httpx.Response, what: str) -> None:
    """An answer, or an error of the client's in the envelope of the path."""
    if answer.status_code == 200:
        return
    assert answer.status_code in (400, 402, 404, 422), f"{what}: {answer.status_code} {answer.text}"
    body = answer.json()
    error = body["error"]
    assert error["message"], what
    if path in (MESSAGES, COUNT):
        assert body["type"] == "error", what
        assert set(error) == {"type", "message"}, what
    else:
        assert set(body) == {"error"}, what
        assert set(error) == {"message", "type", "param", "code"}, what


@pytest.mark.parametrize("model", ["fx-oai", "fx-vast-ant"])
@pytest.mark.parametrize("path", WHOLE)
def test_a_wrong_value_of_any_member_is_no_500(
    system: System, person: Person, first: BackgroundProvider, path: str, model: str
) -> None:
    first.answers(says_ok)
    body = WHOLE[path] | {"model": model}
    with system.http(person) as client:
        whole = client.post(path, json=body)
        assert whole.status_code == 200, whole.text
        for number, name in enumerate(body):
            # Each member meets a few of the values, and each value many members.
            for value in WRONG[number % 3 :: 3]:
                sent = json.dumps(put(body, (name,), value)).encode()
                check(path, client.post(path, content=sent), f"{name} = {value!r}")


@pytest.mark.parametrize("path", WHOLE)
def test_what_is_no_proper_json_is_no_500(system: System, person: Person, first: BackgroundProvider, path: str) -> None:
    first.answers(says_ok)
    with system.http(person) as client:
        for what, raw in misshapen(WHOLE[path]).items():
            check(path, client.post(path, content=raw), what)
