"""Whole answers of Gemini."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.canonical import Answer, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.gemini.answer import read_answer
from libs.llm.providers.gemini.contents import seal_call
from tests.unit.llm.gemini.chunks import USAGE, answer, call, error, text, thought
from tests.unit.llm.hub import UPSTREAM

PROOF = seal_call(UPSTREAM, "proof")


def read(body: object) -> Answer:
    return read_answer(json.dumps(body, indent=2).encode(), UPSTREAM, 1_000)


def unnamed(found: Answer) -> list[Any]:
    return [(part.name, part.arguments) if isinstance(part, ToolCall) else part for part in found.parts]


@pytest.mark.rule("TOOL-006", "TOOL-032", "RSN-050")
def test_parts_in_order_with_neighbours_joined() -> None:
    found = read(
        answer(
            thought("Why "),
            thought("not"),
            text("a"),
            text("b"),
            {"executableCode": {"code": "x"}},
            thought("So"),
            call(proof="proof", n=[1, {"x": "é"}]),
            call("other"),
        )
    )
    assert unnamed(found) == [
        ReasoningPart("Why not"),
        TextPart("ab"),
        ReasoningPart("So", PROOF),
        ("look", '{"n":[1,{"x":"\\u00e9"}]}'),
        ("other", "{}"),
    ]
    assert len({part.id for part in found.tool_calls()}) == 2
    assert found.finish_reason is FinishReason.TOOL_CALLS
    assert found.usage == Usage(prompt=14, completion=6, cached=8, reasoning=4, tells_cached=True)


def test_a_proof_without_reasoning_is_reasoning_without_text() -> None:
    assert unnamed(read(answer(text("a"), call(proof="proof")))) == [
        TextPart("a"),
        ReasoningPart("", PROOF),
        ("look", "{}"),
    ]


@pytest.mark.rule("RSN-055", "JSON-030")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (answer(text("a")), FinishReason.STOP),
        (answer(text("a"), reason=None), FinishReason.STOP),
        (answer(text("a"), reason="MAX_TOKENS"), FinishReason.LENGTH),
        ({"candidates": [{"finishReason": "SAFETY"}]}, FinishReason.CONTENT_FILTER),
        (answer(thought("hm"), usage=USAGE | {"thoughtsTokenCount": 998}), FinishReason.LENGTH),
    ],
)
def test_endings(body: object, reason: FinishReason) -> None:
    assert read(body).finish_reason is reason


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ({"promptFeedback": {"blockReason": "OTHER"}}, FailureKind.REJECTED, "content_policy_violation"),
        (error(500, "INTERNAL"), FailureKind.FAILED, "upstream_error"),
        ([error(400, "INVALID_ARGUMENT")], FailureKind.REJECTED, "invalid_request_error"),
        (answer(text("a"), reason="UNEXPECTED_TOOL_CALL"), FailureKind.INTERRUPTED, "upstream_error"),
        ({}, FailureKind.JUNK, "upstream_error"),
        ([], FailureKind.JUNK, "upstream_error"),
        ({"candidates": [7]}, FailureKind.JUNK, "upstream_error"),
        (answer({"functionCall": {}}), FailureKind.JUNK, "upstream_error"),
        (answer({"text": {}}), FailureKind.JUNK, "upstream_error"),
    ],
)
def test_what_is_no_answer(body: object, kind: FailureKind, code: str) -> None:
    with pytest.raises(ProviderFailure) as caught:
        read(body)
    assert (caught.value.kind, caught.value.code) == (kind, code)


@given(st.binary())
def test_any_bytes_are_an_answer_or_a_failure(body: bytes) -> None:
    with pytest.raises(ProviderFailure):
        read_answer(body, UPSTREAM, 1_000)
