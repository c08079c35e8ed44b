"""How the dialects differ at the door."""

import json
import re

import pytest

from libs.llm.formats import kyara_chat, openai_chat
from services.edge.dialects import Dialect, KyaraDialect
from services.edge.errors import PlainRefusedError
from services.edge.keys import Caller

KYARA = KyaraDialect("kyara", "kyara_chat", kyara_chat.FORMAT)
CHAT = Dialect("chat", "openai_chat", openai_chat.FORMAT)
CALLER = Caller("key_1", "acct_1")
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def no_header(_: bytes) -> None:
    return None


@pytest.mark.rule("KYARA-043")
def test_the_account_stands_for_an_unnamed_end_user() -> None:
    request = KYARA.completed(kyara_chat.FORMAT.parse(json.dumps(BODY).encode(), no_header), CALLER)
    assert (request.user, bytes(request.fields["user"])) == ("acct_1", b'"acct_1"')
    named = KYARA.completed(kyara_chat.FORMAT.parse(json.dumps(BODY | {"user": "u"}).encode(), no_header), CALLER)
    assert (named.user, bytes(named.fields["user"])) == ("u", b'"u"')
    plain = CHAT.completed(openai_chat.FORMAT.parse(json.dumps(BODY).encode(), no_header), CALLER)
    assert plain.user is None


@pytest.mark.rule("KYARA-047")
def test_strict_completions_have_ids_of_their_own() -> None:
    ids = {KYARA.identity("r", "m", 1_755_600_000).id for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"gen-1755600000-[A-Za-z0-9]{16}", made) for made in ids)
    assert CHAT.identity("r", "m", 1).id == "r"


@pytest.mark.rule("KYARA-077", "KYARA-004")
@pytest.mark.parametrize(("status", "code"), [(401, "invalid_api_key"), (413, "request_too_large")])
def test_refusals_at_the_door_are_json_in_the_strict_dialect_alone(status: int, code: str) -> None:
    refused = PlainRefusedError(status, "no")
    told, body, kind = KYARA.plain(refused)
    assert (told, json.loads(body)["error"]["code"], kind) == (status, code, (b"content-type", b"application/json"))
    assert CHAT.plain(refused)[1] == b"no"
