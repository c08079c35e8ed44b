"""Whole answers of a Responses provider."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.canonical import Answer, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_responses.answer import read_answer
from libs.llm.providers.openai_responses.items import seal_reasoning
from tests.unit.llm.hub import UPSTREAM
from tests.unit.llm.openai_responses_provider.events import USAGE, call, dumped, message, reasoning, response


def answered(**members: Any) -> Answer:
    return read_answer(dumped(response(**members)), UPSTREAM, 1_000)


SAID = message({"type": "output_text", "text": "Hi ", "annotations": []}, {"type": "refusal", "refusal": "no"})


@pytest.mark.rule("TOOL-032", "RSN-050")
def test_items_become_parts_in_order() -> None:
    unknown = {"type": "web_search_call", "id": "ws", "content": "odd", "summary": 1}
    answer = answered(output=[reasoning("Why", "so"), unknown, SAID, call(0, '{"n":1}'), call(1), message()])
    assert answer.parts == [
        ReasoningPart("Why\n\nso", seal_reasoning(UPSTREAM, "rs_1", "sealed")),
        TextPart("Hi no"),
        ToolCall("call_0x", "look", '{"n":1}'),
        ToolCall("call_1x", "look", "{}"),
    ]
    assert answer.finish_reason is FinishReason.TOOL_CALLS
    assert answer.usage == Usage(prompt=14, completion=6, cached=8, reasoning=4, tells_cached=True)


@pytest.mark.rule("TOOL-006")
def test_arguments_sent_as_an_object_become_text() -> None:
    assert answered(output=[call(0) | {"arguments": {"n": 1}}]).tool_calls() == [ToolCall("call_0x", "look", '{"n":1}')]


def test_reasoning_told_in_full() -> None:
    item = {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "full"}]}
    assert answered(output=[item]).parts == [ReasoningPart("full")]


@pytest.mark.rule("RESP-053", "JSON-030", "RSN-055")
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, FinishReason.STOP),
        ({"status": None}, FinishReason.STOP),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, FinishReason.LENGTH),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, FinishReason.CONTENT_FILTER),
        ({"output": [reasoning("hm")], "usage": USAGE | {"output_tokens": 1_000}}, FinishReason.LENGTH),
    ],
)
def test_endings(members: dict[str, Any], reason: FinishReason) -> None:
    assert answered(**({"output": [SAID]} | members)).finish_reason is reason


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (response("failed", error={"code": "server_error", "message": "x"}), FailureKind.FAILED),
        (response("cancelled"), FailureKind.INTERRUPTED),
        (response("in_progress"), FailureKind.INTERRUPTED),
        ({"error": {"message": "no", "type": "invalid_request_error"}}, FailureKind.REJECTED),
        ({}, FailureKind.JUNK),
        ([], FailureKind.JUNK),
        (response(output=[7]), FailureKind.JUNK),
        (response(output=[{"type": "function_call"}]), FailureKind.JUNK),
    ],
)
def test_what_is_no_answer(body: object, kind: FailureKind) -> None:
    with pytest.raises(ProviderFailure) as caught:
        read_answer(dumped(body), UPSTREAM, 1_000)
    assert caught.value.kind is kind


@given(st.binary())
def test_any_bytes_are_an_answer_or_a_failure(body: bytes) -> None:
    with pytest.raises(ProviderFailure):
        read_answer(body, UPSTREAM, 1_000)
