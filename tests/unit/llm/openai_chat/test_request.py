"""The Chat completions request table: what is accepted, what is refused with 400, and that nothing else happens."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import Role
from libs.llm.failures import BadRequest
from libs.llm.formats.openai_chat.errors import render_error
from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.request import provider_body

TARGET = Target(base_url="http://up/v1", model="up")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
HI = {"role": "user", "content": "Hi"}


def body(**members: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [HI]} | members).encode()


def messages(*turns: Any) -> bytes:
    return body(messages=list(turns))


def sent(raw: bytes, *, stream: bool = False) -> Any:
    """What a provider would get."""
    return json.loads(provider_body(parse(raw), TARGET, "max_tokens", 9, stream=stream))


REFUSED = [
    ("CHAT-057", b""),
    ("CHAT-057", b"{"),
    ("CHAT-057", b"hello"),
    ("CHAT-057", b"[]"),
    ("CHAT-057", b"null"),
    ("CHAT-057", body() + b"x"),
    ("CHAT-057", b"\xff\xfe"),
    ("CHAT-057", body()[:-1] + b',"x":"\xff"}'),
    ("CHAT-057", body()[:-1] + b',"x":NaN}'),
    ("CHAT-057", body()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("CHAT-057", b'{"a":' * 100_000),
    ("CHAT-003", json.dumps({"messages": [HI]}).encode()),
    ("CHAT-003", body(model=None)),
    ("CHAT-003", body(model="")),
    ("CHAT-003", body(model=4)),
    ("CHAT-004", json.dumps({"model": "m"}).encode()),
    ("CHAT-004", body(messages=None)),
    ("CHAT-004", body(messages=[])),
    ("CHAT-004", body(messages="Hi")),
    ("CHAT-004", body(messages=[[]])),
    ("CHAT-014", body(n=2)),
    ("CHAT-014", body(n=0)),
    ("CHAT-014", body(n=-1)),
    ("CHAT-036", messages({"role": "function", "name": "f", "content": "x"})),
    ("CHAT-037", messages({"role": "robot", "content": "x"})),
    ("CHAT-037", messages({"content": "x"})),
    ("CHAT-032", messages({"role": "user"})),
    ("CHAT-032", messages({"role": "user", "content": None})),
    ("CHAT-032", messages({"role": "user", "content": 4})),
    ("CHAT-032", messages({"role": "user", "content": ["x"]})),
    ("CHAT-039", messages({"role": "user", "content": [{"type": "text"}]})),
    ("CHAT-039", messages({"role": "user", "content": [{"type": "text", "text": 4}]})),
    ("CHAT-058", messages({"role": "user", "content": [{"type": "file"}]})),
    ("CHAT-058", messages({"role": "user", "content": [{"type": "file", "file": "x"}]})),
    ("ERR-040", messages({"role": "user", "content": [{"type": "image_url", "image_url": {}}]})),
    ("CHAT-019", body(tool_choice={"type": "function"})),
    ("CHAT-019", body(tool_choice={"type": "function", "function": {"name": ""}})),
    ("CHAT-019", body(tool_choice={"type": "function", "function": 4})),
    ("CHAT-020", body(reasoning_effort="extreme")),
    ("ERR-040", body(max_tokens=0)),
    ("ERR-040", body(max_tokens=-1)),
    ("ERR-040", body(max_tokens="9")),
    ("ERR-040", body(max_tokens=True)),
    ("ERR-040", body(max_tokens=1.5)),
    ("ERR-040", body(max_completion_tokens=0)),
    ("ERR-040", body(temperature="hot")),
    ("ERR-040", body()[:-1] + b',"temperature":1e999}'),
    ("ERR-040", body()[:-1] + b',"max_tokens":' + b"9" * 6_000 + b"}"),
    ("ERR-040", body(top_p=[])),
    ("ERR-040", body(stop=4)),
    ("ERR-040", body(stop=[4])),
    ("ERR-040", body(stream="yes")),
    ("ERR-040", body(stream_options=[])),
    ("ERR-040", body(user=4)),
    ("ERR-040", body(tools={})),
]


@pytest.mark.parametrize(
    "raw", [pytest.param(raw, marks=pytest.mark.rule(rule), id=f"{n}-{rule}") for n, (rule, raw) in enumerate(REFUSED)]
)
def test_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    told = json.loads(render_error(caught.value.api_error())[1])
    assert told == {
        "error": {"message": caught.value.message, "type": "bad_request", "param": None, "code": "bad_request"}
    }
    assert 10 < len(caught.value.message) < 300


def test_the_message_says_what_to_fix() -> None:
    with pytest.raises(BadRequest) as caught:
        parse(messages(HI, {"role": "user", "content": [{"type": "text", "text": 4}]}))
    assert caught.value.field == "messages[1].content[0].text"
    assert "messages[1].content[0].text" in caught.value.message
    with pytest.raises(BadRequest) as caught:
        parse(body(max_tokens="9"))
    assert caught.value.field == "max_tokens" and "`max_tokens`" in caught.value.message


@pytest.mark.rule("CHAT-013")
@pytest.mark.parametrize("members", [{}, {"n": 1}, {"n": None}])
def test_one_answer_is_accepted(members: dict[str, Any]) -> None:
    assert parse(body(**members)).model == "m"


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "s"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": "a", "reasoning_content": "r", "reasoning": "r", "name": "bot"},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
        {"role": "tool", "tool_call_id": "c", "content": None},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,"}}]},
        {"role": "user", "content": "", "unknown": {"a": [1]}},
    ],
)  # fmt: skip
@pytest.mark.rule("CHAT-033", "CHAT-034", "CHAT-035", "CHAT-032")
def test_every_documented_turn_reaches_a_provider_as_it_was_sent(turn: dict[str, Any]) -> None:
    assert sent(messages(HI, turn))["messages"] == [HI, turn]


@pytest.mark.rule("CHAT-030")
def test_leading_instructions_are_merged_into_one_system_message() -> None:
    raw = messages(
        {"role": "developer", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "system", "content": None},
        HI,
    )
    request = parse(raw)
    assert request.system == "a\n\nbc"
    assert [(turn.role, turn.text()) for turn in request.messages] == [(Role.USER, "Hi")]
    assert sent(raw)["messages"] == [{"role": "system", "content": "a\n\nbc"}, HI]


@pytest.mark.rule("CHAT-030")
def test_a_single_instruction_is_sent_as_it_came() -> None:
    first = b'{"role":"developer", "content":"\\u0061",  "x":[1.0]}'
    raw = b'{"model":"m","messages":[' + first + b',{"role":"user","content":"Hi"}]}'
    assert parse(raw).system == "a"
    assert first in provider_body(parse(raw), TARGET, "max_tokens", 9, stream=False)


@pytest.mark.rule("CHAT-031")
def test_a_later_instruction_keeps_its_place() -> None:
    turns = [{"role": "system", "content": "a"}, HI, {"role": "developer", "content": "b"}, HI]
    request = parse(messages(*turns))
    assert request.system == "a"
    assert [(turn.role, turn.text()) for turn in request.messages] == [
        (Role.USER, "Hi"), (Role.SYSTEM, "b"), (Role.USER, "Hi")
    ]  # fmt: skip
    assert sent(messages(*turns))["messages"] == turns


@pytest.mark.rule("CHAT-038")
def test_a_message_of_unknown_parts_alone_keeps_its_place() -> None:
    turn = {"role": "user", "content": [{"type": "hologram", "data": {"text": 1}}]}
    assert sent(messages(turn, HI))["messages"] == [{"role": "user", "content": ""}, HI]


@pytest.mark.rule("CHAT-009", "CHAT-010")
@pytest.mark.parametrize(
    ("members", "limit"),
    [
        ({}, None),
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 70}, 70),
        ({"max_tokens": 50, "max_completion_tokens": 900}, 50),
        ({"max_tokens": None, "max_completion_tokens": 70}, 70),
        ({"max_tokens": 10**30}, 2**31 - 1),
    ],
)
def test_the_output_limit_and_its_alias(members: dict[str, int], limit: int | None) -> None:
    raw = body(**members)
    assert parse(raw).max_tokens == limit
    told = sent(raw)
    assert told["max_tokens"] == 9 and "max_completion_tokens" not in told


@pytest.mark.rule("CHAT-018")
@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ("auto", True), ("none", True), ("required", True), ("any", False), (4, False), ([], False),
        ({"type": "allowed_tools"}, False), ({}, False), ({"type": "function", "function": {"name": "f"}}, True),
    ],
)  # fmt: skip
def test_tool_choices_of_other_shapes_act_as_auto(choice: Any, kept: bool) -> None:
    told = sent(body(tool_choice=choice))
    assert told.get("tool_choice") == (choice if kept else None)


@pytest.mark.rule("CHAT-020")
@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
def test_every_effort_is_accepted(effort: str) -> None:
    assert parse(body(reasoning_effort=effort))


@pytest.mark.parametrize(
    ("key", "told"), [("  conv-1  ", "conv-1"), (" ", None), ("k" * 512, "k" * 512), ("é" * 257, None), (4, None)]
)
def test_an_unusable_cache_key_is_ignored(key: Any, told: str | None) -> None:
    assert sent(body(prompt_cache_key=key)).get("prompt_cache_key") == told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (None, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_obfuscation": False}, {"include_obfuscation": False, "include_usage": True}),
    ],
)
def test_stream_options_are_passed_on_with_usage(options: Any, told: dict[str, bool]) -> None:
    raw = body(stream=True, stream_options=options)
    assert sent(raw, stream=True)["stream_options"] == told
    assert "stream_options" not in sent(raw, stream=False)


def test_of_a_member_sent_twice_the_provider_gets_the_one_that_was_checked() -> None:
    raw = b'{"model":"a","messages":[],"model":"b","messages":[{"role":"user","content":"x"}],"seed":1,"seed":2}'
    assert parse(raw).model == "b"
    assert provider_body(parse(raw), TARGET, "max_tokens", 9, stream=False).count(b'"seed"') == 1


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        (messages({"role": "user", "content": ""}), 1),
        (messages({"role": "user", "content": "a" * 400}), 100),
        (messages({"role": "user", "content": "é" * 400}), 100),
        (messages({"role": "user", "content": [{"type": "text", "text": "a" * 4}] * 3}), 3),
        (messages({"role": "user", "content": [PICTURE]}), 1_501),
        (messages(HI, {"role": "assistant", "reasoning_content": "r" * 398}), 100),
    ],
)  # fmt: skip
def test_the_input_estimate_counts_text_and_images(raw: bytes, tokens: int) -> None:
    assert parse(raw).input_tokens == tokens


def test_tools_and_earlier_calls_count_into_the_estimate() -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "d" * 4_000}}]
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "a" * 4_000}}]
    assert 1_000 < parse(body(tools=tools)).input_tokens < 1_050
    assert 1_000 < parse(messages(HI, {"role": "assistant", "tool_calls": calls})).input_tokens < 1_050


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PART = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["text", "image_url", "file", "x"]) | JSON, "text": JSON, "image_url": JSON}
)
TURN = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["system", "user", "assistant", "tool", "function"]) | JSON,
        "content": st.lists(PART, max_size=3) | JSON,
        "tool_calls": JSON,
        "reasoning": JSON,
    },
)
OPTIONAL = (
    "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "n", "user",
    "tools", "tool_choice", "reasoning_effort", "prompt_cache_key", "plugins",
)  # fmt: skip
BODY = st.fixed_dictionaries(
    {},
    optional={
        "model": st.just("m") | JSON,
        "messages": st.lists(TURN, max_size=3) | JSON,
        **dict.fromkeys(OPTIONAL, JSON),
    },
)  # fmt: skip


def read(raw: bytes) -> None:
    """Either a request that a provider body can be made of, or BadRequest."""
    try:
        request = parse(raw)
    except BadRequest as error:
        render_error(error.api_error())
        return
    told = json.loads(provider_body(request, TARGET, "max_tokens", 9, stream=request.stream))
    assert told["model"] == "up" and told["messages"] and request.input_tokens >= 1


@settings(max_examples=500, deadline=None)
@given(BODY | JSON)
def test_any_json_is_a_request_or_a_bad_request(value: Any) -> None:
    read(json.dumps(value).encode())


@settings(max_examples=300, deadline=None)
@given(BODY, st.data())
def test_any_damaged_body_is_a_request_or_a_bad_request(value: Any, data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(raw))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_a_request_or_a_bad_request(raw: bytes) -> None:
    read(raw)
