"""What a request holds beside tools, on its way to another format: cases C007, C011, C015, C017, C019 and C097."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases.answers import says_ok
from tests.cases.caller import Caller, user
from tests.support.anthropic_wire import failure, marks_of, message, text
from tests.support.background import BackgroundProvider
from tests.support.provider import error, unless

REFUSED = failure(400, "invalid_request_error")
MARK = {"cache_control": {"type": "ephemeral"}}
MARK_1H = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.rule("CHAT-040")
@pytest.mark.parametrize(
    ("url", "source"),
    [
        (
            "data:image/png;base64,iVBORw0KGgo=",
            {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        ),
        # The type that browsers write and providers do not know.
        ("data:image/jpg;base64,/9j/4AAQ", {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}),
        ("https://images.example/a.png", {"type": "url", "url": "https://images.example/a.png"}),
    ],
    ids=["png", "jpg", "address"],
)
def test_c007_a_picture_keeps_its_type_on_the_way_to_anthropic(
    caller: Caller, p1: BackgroundProvider, url: str, source: dict[str, str]
) -> None:
    answer = caller.chat("fx-ant", messages=[user([image(url), {"type": "text", "text": "?"}])])
    assert answer.status_code == 200
    first, *rest = p1.requests[0].json["messages"][0]["content"]
    assert (first["type"], first["source"]) == ("image", source)
    assert [block["text"] for block in rest] == ["?"]


@pytest.mark.rule("ERR-061")
def test_c007_a_picture_the_provider_cannot_fetch_is_a_400_of_our_own(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(failure(400, "invalid_request_error", "vendor text: cannot download that URL"))
    answer = caller.chat("fx-ant", messages=[user([image("https://images.example/a.png")])])
    assert answer.status_code == 400
    assert "vendor" not in answer.text


def has_unsigned_thinking(body: Any) -> bool:
    blocks = [block for turn in body["messages"] if isinstance(turn["content"], list) for block in turn["content"]]
    return any(block["type"] == "thinking" and not block.get("signature") for block in blocks)


@pytest.mark.rule("STR-048")
@pytest.mark.parametrize("signature", [{"signature": ""}, {}], ids=["empty", "missing"])
def test_c011_thinking_nobody_signed_does_not_reach_anthropic(
    caller: Caller, p1: BackgroundProvider, signature: dict[str, str]
) -> None:
    p1.answers(unless(has_unsigned_thinking, REFUSED, message(text("816"))))
    thought = {"type": "thinking", "thinking": "earlier thoughts", **signature}
    answer = caller.messages(
        max_tokens=2048,
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[
            user("17*24?"),
            {"role": "assistant", "content": [thought, {"type": "text", "text": "408"}]},
            user("and doubled?"),
        ],
    )
    assert answer.status_code == 200
    assert answer.json()["content"][0]["text"] == "816"
    assert "408" in json.dumps(p1.requests[0].json["messages"][1]["content"])


@pytest.mark.rule("MSG-039")
def test_c011_thinking_with_a_signature_reaches_anthropic_unchanged(caller: Caller, p1: BackgroundProvider) -> None:
    thought = {"type": "thinking", "thinking": "earlier thoughts", "signature": "sig-vendor"}
    said = [thought, {"type": "text", "text": "408"}]
    caller.messages(messages=[user("17*24?"), {"role": "assistant", "content": said}, user("and doubled?")])
    assert p1.requests[0].json["messages"][1]["content"] == said


@pytest.mark.rule("CHAT-009", "CHAT-010", "RESP-024", "MSG-008")
@pytest.mark.parametrize(
    ("format", "model", "asked", "limit"),
    [
        ("chat", "fx-oai", {"max_tokens": 50, "max_completion_tokens": 900}, 50),
        ("chat", "fx-ant", {"max_completion_tokens": 70}, 70),
        ("responses", "fx-oai", {"max_output_tokens": 60}, 60),
        ("responses", "fx-ant", {"max_output_tokens": 60}, 60),
        ("messages", "fx-oai", {"max_tokens": 80}, 80),
        # Optional with us, required by the provider; what the model can do bounds the default.
        ("messages", "fx-ant", {"max_tokens": None}, 8_192),
    ],
)
def test_c015_one_output_limit_reaches_the_provider(
    caller: Caller, p1: BackgroundProvider, format: str, model: str, asked: dict[str, Any], limit: int
) -> None:
    assert caller.ask(format, model, **asked).status_code == 200
    body = p1.requests[0].json
    limits = {name: body[name] for name in body if name.startswith("max_")}
    assert len(limits) == 1
    assert list(limits.values()) == [limit]


SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
        "minimum": {"type": "string", "minLength": 1},
    },
    "required": ["n", "tags"],
}
WANTED = {"type": "json_schema", "json_schema": {"name": "o", "schema": SCHEMA}}


def keywords(schema: Any) -> Iterator[str]:
    """The keywords of a schema at any depth; names of properties are none."""
    if isinstance(schema, list):
        for part in schema:
            yield from keywords(part)
    if isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            yield from keywords(list(value.values()) if name == "properties" else value)


def schema_of(body: Any) -> Any:
    return body.get("output_config", {}).get("format", {}).get("schema")


def is_limited(body: Any) -> bool:
    return bool({"minimum", "maximum", "minLength", "maxItems"} & set(keywords(schema_of(body))))


@pytest.mark.rule("JSON-006", "JSON-017")
@pytest.mark.parametrize("model", ["fx-ant", "fx-ant-json"])
def test_c017_limits_of_a_schema_stay_out_of_a_field_that_refuses_them(
    caller: Caller, p1: BackgroundProvider, model: str
) -> None:
    answered = '{"n":3,"tags":["a"]}'
    p1.answers(unless(is_limited, REFUSED, message(text(answered), usage=(80, 12))))
    answer = caller.chat(model, response_format=WANTED)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == answered
    body = p1.requests[0].json
    # The instruction tells what the field may not.
    assert "maxItems" in json.dumps(body["system"])
    # Half a schema would be another one: the field is left out.
    assert "output_config" not in body


@pytest.mark.rule("JSON-016")
def test_c017_a_schema_without_limits_is_enforced_by_its_provider(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(unless(is_limited, REFUSED, message(text('{"minimum":"a"}'))))
    schema = {"type": "object", "properties": {"minimum": {"type": "string"}}, "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "o", "schema": schema}}
    assert caller.chat("fx-ant-json", response_format=wanted).status_code == 200
    assert schema_of(p1.requests[0].json) == schema


@pytest.mark.rule("MSG-020")
def test_c017_the_newer_spelling_of_the_format_wins(caller: Caller, p1: BackgroundProvider) -> None:
    def wanted(name: str) -> dict[str, Any]:
        return {"type": "json_schema", "schema": {"type": "object", "properties": {name: {"type": "string"}}}}

    answer = caller.messages("fx-oai-json", output_format=wanted("old"), output_config={"format": wanted("new")})
    assert answer.status_code == 200
    sent = p1.requests[0].json["response_format"]["json_schema"]
    assert list(sent["schema"]["properties"]) == ["new"]
    assert sent["name"]


def over_openai(body: Any) -> bool:
    return len(body.get("user", "")) > 64 or "metadata" in body


def over_anthropic(body: Any) -> bool:
    metadata = body.get("metadata", {})
    return bool(set(metadata) - {"user_id"}) or len(metadata.get("user_id", "")) > 256


@pytest.mark.rule("MSG-021", "RESP-030")
def test_c019_metadata_does_not_reach_openai(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(unless(over_openai, error(400, type="invalid_request_error"), says_ok))
    assert caller.messages("fx-oai", metadata={"user_id": "u" * 150}).status_code == 200
    assert caller.responses("fx-oai", metadata={"trace": "abc"}).status_code == 200
    assert len(p1.requests) == 2


@pytest.mark.rule("CHAT-015")
def test_c019_the_user_of_chat_reaches_anthropic_as_its_metadata(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(unless(over_anthropic, REFUSED, message(text("ok"))))
    assert caller.chat("fx-ant", user="tenant-7").status_code == 200
    assert p1.requests[0].json["metadata"] == {"user_id": "tenant-7"}


@pytest.mark.parametrize("length", [257, 5_000])
def test_c019_a_user_too_long_for_anthropic_does_not_fail_the_request(
    caller: Caller, p1: BackgroundProvider, length: int
) -> None:
    p1.answers(unless(over_anthropic, REFUSED, message(text("ok"))))
    assert caller.chat("fx-ant", user="u" * length).status_code == 200


@pytest.mark.rule("CACHE-004", "CACHE-005", "MSG-042")
def test_c097_marks_of_messages_reach_anthropic_in_place(caller: Caller, p1: BackgroundProvider) -> None:
    sent = {
        "system": [text("S1"), {**text("S2"), **MARK}],
        "tools": [{"name": "ping", "input_schema": {"type": "object"}, **MARK}],
        "messages": [user([{**text("doc"), **MARK_1H}, text("q")])],
    }
    assert caller.messages("fx-ant", **sent).status_code == 200
    body = p1.requests[0].json
    assert {name: body[name] for name in sent} == sent
    assert marks_of(body) == 3


@pytest.mark.rule("CACHE-005")
def test_c097_messages_without_marks_get_none(caller: Caller, p1: BackgroundProvider) -> None:
    caller.messages("fx-ant", system="S", messages=[user("u1"), {"role": "assistant", "content": "a1"}, user("u2")])
    assert marks_of(p1.requests[0].json) == 0


@pytest.mark.rule("CACHE-001", "CACHE-002")
@pytest.mark.parametrize("format", ["chat", "responses"])
def test_c097_two_marks_are_set_for_the_other_formats(caller: Caller, p1: BackgroundProvider, format: str) -> None:
    turns = [user("u1"), {"role": "assistant", "content": "a1"}, user("u2")]
    asked: dict[str, Any] = {"messages": [{"role": "system", "content": "S"}, *turns]}
    if format == "responses":
        asked = {"instructions": "S", "input": turns}
    assert caller.ask(format, "fx-ant", **asked).status_code == 200
    body = p1.requests[0].json
    assert marks_of(body) == 2
    assert marks_of(body["system"]) == 1
    assert marks_of(body["messages"][-1]) == 1


@pytest.mark.rule("CACHE-003", "CACHE-007")
@pytest.mark.parametrize("format", ["messages", "chat", "responses"])
def test_c097_no_mark_reaches_a_provider_that_caches_by_itself(
    caller: Caller, p1: BackgroundProvider, format: str
) -> None:
    members: dict[str, dict[str, Any]] = {
        "messages": {"system": [{**text("S"), **MARK}], "messages": [user([{**text("Hi"), **MARK}])]},
        "chat": {"messages": [{"role": "system", "content": "S"}, user("Hi")]},
        "responses": {"instructions": "S"},
    }
    assert caller.ask(format, "fx-oai", **members[format]).status_code == 200
    assert marks_of(p1.requests[0].json) == 0


@pytest.mark.rule("CACHE-026", "CACHE-028", "CACHE-029")
@pytest.mark.parametrize("format", ["chat", "responses"])
@pytest.mark.parametrize(
    ("key", "allowed"),
    [("  conv-1  ", {None, "conv-1"}), ("k" * 512, {None, "k" * 512}), ("k" * 513, {None}), ("日" * 171, {None})],
    ids=["spaces", "512", "513", "513-bytes"],
)
def test_c097_a_cache_key_is_trimmed_and_bounded(
    caller: Caller, p1: BackgroundProvider, format: str, key: str, allowed: set[str | None]
) -> None:
    assert caller.ask(format, "fx-oai", prompt_cache_key=key).status_code == 200
    sent = p1.requests[0].json.get("prompt_cache_key")
    # Of a key that is ignored something of our own may stand there, never the key itself.
    assert sent in allowed or (None in allowed and len(allowed) == 1 and sent != key)
