"""Whole answers of an Anthropic-format provider."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from libs.llm.canonical import Answer, FinishReason, OpaquePart, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.anthropic.answer import read_answer

USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 5,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 4},
    "service_tier": "standard",
}
COUNTED = Usage(
    prompt=45, completion=7, cached=30, cache_write=5, reasoning=4, tells_cached=True, tells_cache_write=True
)
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 1}}
TEXT = {"type": "text", "text": "Hi", "citations": None}


def message(*content: Any, **members: Any) -> dict[str, Any]:
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "vendor/real",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }
    return whole | members


def read(body: object, max_tokens: int = 1_000) -> Answer:
    return read_answer(body if isinstance(body, bytes) else json.dumps(body).encode(), max_tokens)


@pytest.mark.rule("TOOL-032", "TOOL-033", "RSN-050", "MSG-039", "MSG-045")
def test_blocks_become_parts_in_order() -> None:
    answer = read(
        message(
            {"type": "thinking", "thinking": "Why\n", "signature": "sig"},
            {"type": "redacted_thinking", "data": "hidden"},
            TEXT,
            {"type": "server_tool_use", "id": "srv", "name": 7, "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srv", "content": "odd", "text": 1},
            {"type": "of_tomorrow", "x": 1},
            USE,
            {"type": "text", "text": ""},
            USE | {"id": "toolu_2", "input": {}},
            stop_reason="tool_use",
        )
    )
    assert answer.parts == [
        ReasoningPart("Why\n", "sig"),
        ReasoningPart("", "hidden", redacted=True),
        TextPart("Hi"),
        OpaquePart("anthropic_messages", Raw(b'{"type":"server_tool_use","id":"srv","name":7,"input":{}}')),
        OpaquePart(
            "anthropic_messages",
            Raw(b'{"type":"web_search_tool_result","tool_use_id":"srv","content":"odd","text":1}'),
        ),
        ToolCall("toolu_1", "look", '{"n": 1}'),
        ToolCall("toolu_2", "look", "{}"),
    ]
    assert (answer.finish_reason, answer.usage) == (FinishReason.TOOL_CALLS, COUNTED)


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "thinking", "thinking": "Why"}, ReasoningPart("Why")),
        ({"type": "thinking", "thinking": "", "signature": "sig"}, ReasoningPart("", "sig")),
        ({"type": "thinking", "thinking": "", "signature": None}, None),
        ({"type": "text", "text": ""}, None),
    ],
)
def test_blocks_with_less_in_them(block: Any, part: Any) -> None:
    assert read(message(block)).parts == ([part] if part else [])


@pytest.mark.rule("TOOL-006")
@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (b'{"a": 1.0, "b" : "\\u00e9"}', '{"a": 1.0, "b" : "\\u00e9"}'),
        (b"{}", "{}"),
        (b"null", "{}"),
        (b'"{\\"n\\":1}"', '{"n":1}'),
        (b'""', "{}"),
    ],
)
def test_the_input_of_a_call_is_its_json_text(given: bytes, arguments: str) -> None:
    raw = json.dumps(message(USE | {"input": "#"})).encode().replace(b'"#"', given)
    assert read(raw).tool_calls() == [ToolCall("toolu_1", "look", arguments)]


def test_a_call_without_input_or_id() -> None:
    first, second = read(message({"type": "tool_use", "name": "a"}, {"type": "tool_use", "name": "b"})).tool_calls()
    assert (first.arguments, second.arguments) == ("{}", "{}") and first.id != second.id


@pytest.mark.rule("MSG-046", "MSG-048", "JSON-030", "RSN-055", "RSN-056", "RSN-057", "TOOL-014")
@pytest.mark.parametrize(
    ("stop_reason", "content", "reason"),
    [
        ("end_turn", [TEXT], FinishReason.STOP),
        ("stop_sequence", [TEXT], FinishReason.STOP_SEQUENCE),
        ("max_tokens", [TEXT], FinishReason.LENGTH),
        ("model_context_window_exceeded", [TEXT], FinishReason.LENGTH),
        ("tool_use", [USE], FinishReason.TOOL_CALLS),
        ("refusal", [TEXT], FinishReason.CONTENT_FILTER),
        ("pause_turn", [TEXT], FinishReason.LENGTH),
        ("of_tomorrow", [TEXT], FinishReason.STOP),
        (None, [TEXT], FinishReason.STOP),
        ("end_turn", [TEXT, USE], FinishReason.TOOL_CALLS),
        ("max_tokens", [USE], FinishReason.LENGTH),
    ],
)
def test_endings(stop_reason: str | None, content: list[Any], reason: FinishReason) -> None:
    assert read(message(*content, stop_reason=stop_reason)).finish_reason is reason


@pytest.mark.rule("RSN-055", "RSN-056", "RSN-057")
@pytest.mark.parametrize(("content", "reason"), [([], FinishReason.LENGTH), ([TEXT], FinishReason.STOP)])
def test_thinking_that_used_the_limit_up_is_a_cut_off(content: list[Any], reason: FinishReason) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert read(message(thought, *content), max_tokens=7).finish_reason is reason
    assert read(message(thought), max_tokens=8).finish_reason is FinishReason.STOP


@pytest.mark.rule("CACHE-012", "CACHE-015", "CACHE-016", "CACHE-018", "CACHE-019", "CACHE-020", "MSG-051", "MSG-052")
@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"input_tokens": 3, "output_tokens": 1}, Usage(prompt=3, completion=1)),
        (
            {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 0},
            Usage(prompt=3, completion=1, tells_cached=True),
        ),
        (
            {"input_tokens": 3, "output_tokens": 1, "cache_creation_input_tokens": 0},
            Usage(prompt=3, completion=1, tells_cache_write=True),
        ),
        (
            {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": None},
            Usage(prompt=3, completion=1),
        ),
        (
            {"input_tokens": 0, "output_tokens": 1, "cache_read_input_tokens": 9},
            Usage(prompt=9, completion=1, cached=9, tells_cached=True),
        ),
        (
            {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 9}},
            Usage(prompt=3, completion=2, reasoning=2),
        ),
        ({"input_tokens": 3, "output_tokens": 0}, Usage(prompt=3, completion=0)),
        ({"input_tokens": 0, "output_tokens": 0}, None),
        ({"input_tokens": 3}, None),
        ({}, None),
        (None, None),
        ([], None),
        ({"input_tokens": -1, "output_tokens": 1}, None),
        ({"input_tokens": 1.5, "output_tokens": 1}, None),
        ({"input_tokens": "3", "output_tokens": 1}, None),
        ({"input_tokens": 2**40, "output_tokens": 1}, None),
        ({"input_tokens": 2**31 - 1, "output_tokens": 1, "cache_read_input_tokens": 1}, None),
    ],
)
def test_counts(usage: object, counted: Usage | None) -> None:
    assert read(message(TEXT, usage=usage)).usage == counted


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, FailureKind.FAILED),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, FailureKind.RATE_LIMITED),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, FailureKind.REJECTED),
        (message(TEXT, error="vendor text"), FailureKind.FAILED),
        ({}, FailureKind.JUNK),
        ([], FailureKind.JUNK),
        (b"", FailureKind.JUNK),
        (b"[" * 100_000, FailureKind.JUNK),
        (message(7), FailureKind.JUNK),
        (message({"text": "a"}), FailureKind.JUNK),
        (message({"type": "text"}), FailureKind.JUNK),
        (message({"type": "redacted_thinking"}), FailureKind.JUNK),
        (message({"type": "tool_use", "id": "a"}), FailureKind.JUNK),
        (message(USE | {"name": ""}), FailureKind.JUNK),
        (json.dumps(message(USE)).encode().replace(b'"n": 1', b'"n": "\xff"'), FailureKind.JUNK),
    ],
)
def test_what_is_no_answer(body: object, kind: FailureKind) -> None:
    with pytest.raises(ProviderFailure) as caught:
        read(body)
    assert caught.value.kind is kind and "vendor text" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.binary())
def test_any_bytes_are_an_answer_or_a_failure(body: bytes) -> None:
    with pytest.raises(ProviderFailure):
        read(body)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=4))
def test_a_damaged_answer_is_an_answer_or_a_failure(place: int, damage: bytes) -> None:
    body = json.dumps(message({"type": "thinking", "thinking": "Why", "signature": "s"}, TEXT, USE)).encode()
    place %= len(body)
    with suppress(ProviderFailure):
        read(body[:place] + damage + body[place + len(damage) :])
