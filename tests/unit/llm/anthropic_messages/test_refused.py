"""What the Messages request table refuses: 400 in the format's envelope, with a message that says what to fix."""

import json
from typing import Any

import pytest

from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages import FORMAT, count_tokens
from tests.unit.llm.anthropic_messages.bodies import (
    CALL,
    HI,
    PIXEL,
    RESULT,
    TOOL,
    assistant,
    body,
    parse,
    text,
    turns,
    user,
    without,
)


def image(source: Any) -> bytes:
    return turns(user({"type": "image", "source": source}))


def document(source: Any) -> bytes:
    return turns(user({"type": "document", "source": source}))


def call(**members: Any) -> bytes:
    return turns(HI, assistant(CALL | members))


def result(**members: Any) -> bytes:
    return turns(user(RESULT | members))


def thinking(budget: Any, **members: Any) -> bytes:
    return body(thinking={"type": "enabled", "budget_tokens": budget}, **members)


UNREADABLE = [
    ("MSG-061", b""),
    ("MSG-061", b"{"),
    ("MSG-061", b"hello"),
    ("MSG-061", b"[]"),
    ("MSG-061", b"null"),
    ("MSG-061", body() + b"x"),
    ("MSG-061", b"\xff\xfe"),
    ("MSG-061", body()[:-1] + b',"x":"\xff"}'),
    ("MSG-061", body()[:-1] + b',"x":NaN}'),
    ("MSG-061", body()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("MSG-061", b'{"a":' * 100_000),
    ("MSG-061", b'{"model":"m","messages":[' + b"[]," * 800_000 + b"[]]}"),
    ("MSG-005", without("model")),
    ("MSG-005", body(model=None)),
    ("MSG-005", body(model="")),
    ("MSG-005", body(model=4)),
    ("MSG-006", without("messages")),
    ("MSG-006", body(messages=None)),
    ("MSG-006", body(messages=[])),
    ("MSG-006", body(messages="Hi")),
    ("MSG-006", body(messages=[[]])),
    ("MSG-006", body(messages=[HI] * 100_001)),
    ("MSG-029", turns({"role": "tool", "content": "x"})),
    ("MSG-029", turns({"role": "developer", "content": "x"})),
    ("MSG-029", turns({"role": "", "content": "x"})),
    ("MSG-029", turns({"role": None, "content": "x"})),
    ("MSG-029", turns({"content": "x"})),
    ("MSG-027", turns({"role": "user"})),
    ("MSG-027", turns({"role": "user", "content": None})),
    ("MSG-027", turns({"role": "user", "content": 4})),
    ("MSG-027", turns({"role": "user", "content": text("x")})),
    ("MSG-027", turns(user("x"))),
    ("MSG-027", turns(user({"text": "x"}))),
    ("MSG-041", turns(user({"type": "text"}))),
    ("MSG-041", turns(user(text(None)))),
    ("MSG-041", turns(user(text(4)))),
    ("MSG-041", image(None)),
    ("MSG-041", image("https://x/a.png")),
    ("MSG-041", image({})),
    ("MSG-041", image({"type": 4})),
    ("VIS-014", image({"type": "base64", "media_type": "image/png"})),
    ("VIS-014", image({"type": "base64", "media_type": "image/png", "data": ""})),
    ("VIS-014", image({"type": "base64", "data": "AAAA"})),
    ("VIS-014", image({"type": "base64", "media_type": 4, "data": "AAAA"})),
    ("VIS-014", image({"type": "url"})),
    ("VIS-014", image({"type": "url", "url": {"url": "https://x/a.png"}})),
    ("MSG-041", document(None)),
    ("MSG-041", document({"type": "base64", "media_type": "application/pdf"})),
    ("MSG-041", document({"type": "url", "url": ""})),
    ("MSG-041", document({"type": "text", "media_type": "text/plain"})),
    ("MSG-041", call(id=None)),
    ("MSG-041", call(id="")),
    ("MSG-041", call(name=None)),
    ("MSG-041", call(name=["ping"])),
    ("MSG-041", call(input=None)),
    ("MSG-041", call(input='{"a": 1}')),
    ("MSG-041", call(input=[])),
    ("MSG-041", result(tool_use_id=None)),
    ("MSG-041", result(content=4)),
    ("MSG-041", result(content={"type": "text", "text": "x"})),
    ("MSG-041", result(content=[{"text": "x"}])),
    ("MSG-041", result(content=[text(4)])),
    ("MSG-041", result(content=[{"type": "image"}])),
    ("MSG-041", result(is_error="yes")),
    ("MSG-041", turns(HI, assistant({"type": "thinking", "signature": "s"}))),
    ("MSG-041", turns(HI, assistant({"type": "thinking", "thinking": "t", "signature": 4}))),
    ("MSG-041", turns(HI, assistant({"type": "redacted_thinking"}))),
    ("MSG-041", turns(user(CALL))),
    ("MSG-041", turns(HI, assistant(RESULT))),
    ("MSG-041", turns(HI, assistant(PIXEL))),
    ("MSG-041", turns(user({"type": "thinking", "thinking": "t", "signature": "s"}))),
    ("MSG-011", body(system=[{"type": "text", "text": 4}])),
    ("MSG-011", body(system=4)),
    ("MSG-011", body(system=["x"])),
    ("MSG-016", body(tools={})),
    ("MSG-016", body(tools=["ping"])),
    ("MSG-016", body(tools=[{"description": "d"}])),
    ("MSG-016", body(tools=[TOOL | {"name": ""}])),
    ("MSG-016", body(tools=[TOOL | {"description": 4}])),
    ("MSG-016", body(tools=[TOOL | {"input_schema": "{}"}])),
    ("MSG-016", body(tools=[TOOL | {"strict": "yes"}])),
    ("MSG-016", body(tools=[TOOL | {"type": 4}])),
    ("ERR-040", body(tools=[TOOL, {"type": "kenari:web_search"}])),
    ("JSON-012", body(output_config={"format": {"type": "xml"}})),
    ("JSON-012", body(output_config={"format": {"type": "json_schema", "schema": "{}"}})),
    ("JSON-012", body(output_config={"format": {}})),
    ("JSON-012", body(output_format={"type": "grammar"})),
    ("ERR-040", body(stop_sequences="x")),
    ("ERR-040", body(stop_sequences=[4])),
    ("ERR-040", body(temperature="hot")),
    ("ERR-040", body()[:-1] + b',"temperature":1e999}'),
    ("ERR-040", body(top_p=[])),
    ("ERR-040", body(top_k=1.5)),
    ("ERR-040", body(stream="yes")),
    ("ERR-040", body(max_tokens="9")),
    ("ERR-040", body(max_tokens=True)),
    ("ERR-040", body()[:-1] + b',"max_tokens":' + b"9" * 6_000 + b"}"),
]
BEYOND_THE_PROMPT = [
    ("RSN-004", body(output_config={"effort": "extreme"})),
    ("RSN-004", body(output_config={"effort": ""})),
    ("MSG-062", body(tool_choice={"type": "sometimes"})),
    ("TOOL-030", body(tool_choice={"type": "function", "name": "ping"})),
    ("TOOL-027", body(tool_choice={"type": "tool"})),
    ("TOOL-027", body(tool_choice={"type": "tool", "name": ""})),
    ("TOOL-027", body(tool_choice={"type": "tool", "name": 4})),
    ("RSN-018", thinking(1_023, max_tokens=4_096)),
    ("RSN-018", thinking(0, max_tokens=4_096)),
    ("RSN-018", thinking(-1, max_tokens=4_096)),
    ("RSN-018", thinking(4_096, max_tokens=4_096)),
    ("RSN-018", thinking(1_025, max_tokens=1_025)),
    ("RSN-018", thinking(10**30, max_tokens=4_096)),
    ("RSN-018", thinking(65_536)),
    ("MSG-018", body(thinking={"type": "sometimes"})),
    ("ERR-040", body(max_tokens=0)),
    ("ERR-040", body(max_tokens=-1)),
]
OF_ANOTHER_SHAPE = [
    ("MSG-062", body(tool_choice="auto")),
    ("MSG-062", body(tool_choice={})),
    ("MSG-062", body(tool_choice={"type": 4})),
    ("MSG-018", body(thinking="on")),
    ("MSG-018", body(thinking={})),
    ("MSG-018", thinking("2048")),
    ("MSG-019", body(output_config="high")),
    ("MSG-019", body(output_config={"effort": 3})),
]


def cases(table: list[tuple[str, bytes]]) -> list[Any]:
    return [pytest.param(raw, marks=pytest.mark.rule(rule), id=f"{n}-{rule}") for n, (rule, raw) in enumerate(table)]


@pytest.mark.rule("ERR-010", "MSG-060")
@pytest.mark.parametrize("raw", cases(UNREADABLE + BEYOND_THE_PROMPT + OF_ANOTHER_SHAPE))
def test_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    status, told = FORMAT.render_error(caught.value.api_error())
    assert status == 400
    assert json.loads(told) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": caught.value.message},
    }
    assert 10 < len(caught.value.message) < 300


@pytest.mark.rule("MSG-059")
@pytest.mark.parametrize("raw", cases(UNREADABLE + OF_ANOTHER_SHAPE))
def test_what_cannot_be_parsed_cannot_be_counted(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        count_tokens(raw)


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (turns(HI, assistant(text("a"), CALL | {"id": 4})), "messages[1].content[1].id"),
        (turns(user(RESULT | {"content": [text("a"), text(4)]})), "messages[0].content[0].content[1].text"),
        (turns(user(PIXEL | {"source": {"type": "url"}})), "messages[0].content[0].source.url"),
        (turns(HI, {"role": "tool", "content": "x"}), "messages[1].role"),
        (turns(user(CALL)), "messages[0].content[0].type"),
        (body(tools=[TOOL, {"name": 4}]), "tools[1].name"),
        (body(tools=[{"type": "kenari:web_search"}]), "tools[0].type"),
        (body(output_format={"type": "xml"}), "output_format.type"),
        (body(max_tokens="9"), "max_tokens"),
    ],
)
def test_the_message_names_the_member_at_fault(raw: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    assert caught.value.field == field
    assert f"`{field}`" in caught.value.message
