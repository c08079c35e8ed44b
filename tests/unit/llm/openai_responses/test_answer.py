"""Whole answers in the Responses format (contract: Responses, Response)."""

import json
from typing import Any

import pytest

from libs.llm.canonical import (
    Answer,
    AnswerPart,
    ChatRequest,
    FinishReason,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)
from libs.llm.failures import ApiError
from libs.llm.formats.openai_responses import FORMAT
from libs.llm.identity import Identity
from tests.unit.llm.openai_responses.bodies import SEAL, TOOL, body, parse

IDENTITY = Identity("0198", "fx", 1_790_000_000)
USAGE = Usage(prompt=21, completion=7, cached=5, reasoning=3)
PLAIN = parse(body())
ASKS_SEALED = parse(body(include=["reasoning.encrypted_content"]))


def rendered(
    *parts: AnswerPart, reason: FinishReason = FinishReason.STOP, usage: Usage = USAGE, request: ChatRequest = PLAIN
) -> dict[str, Any]:
    told = FORMAT.render_answer(Answer(parts=list(parts), finish_reason=reason, usage=usage), usage, IDENTITY, request)
    answer: dict[str, Any] = json.loads(told)
    return answer


def message(text: str, index: int, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_0198_{index}",
        "status": status,
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def call(id: str, index: int, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_0198_{index}",
        "status": status,
        "call_id": id,
        "name": "f",
        "arguments": "{}",
    }


def thought(text: str, **more: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "id": "rs_0198_0", "status": "completed", "summary": summary} | more


@pytest.mark.rule("RESP-046")
@pytest.mark.rule("RESP-052")
def test_the_object() -> None:
    answer = rendered(TextPart("Hello"))
    assert answer["id"] == "resp_0198"
    assert (answer["object"], answer["created_at"], answer["model"]) == ("response", 1_790_000_000, "fx")
    assert (answer["status"], answer["incomplete_details"], answer["error"]) == ("completed", None, None)
    assert (answer["tools"], answer["tool_choice"], answer["parallel_tool_calls"]) == ([], "auto", True)
    assert answer["metadata"] == {}


@pytest.mark.rule("RESP-055")
@pytest.mark.rule("CACHE-013")
@pytest.mark.rule("CACHE-016")
def test_usage() -> None:
    assert rendered(TextPart("x"))["usage"] == {
        "input_tokens": 21,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 28,
    }
    assert rendered(TextPart("x"), usage=Usage(1, 2))["usage"]["input_tokens_details"] == {"cached_tokens": 0}


C1, C2 = ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")


@pytest.mark.parametrize(
    ("parts", "output"),
    [
        pytest.param([TextPart("a")], [message("a", 0)], marks=pytest.mark.rule("RESP-049")),
        pytest.param([TextPart("a"), TextPart("b")], [message("ab", 0)], marks=pytest.mark.rule("RESP-049")),
        pytest.param([C1], [call("c1", 0)], marks=pytest.mark.rule("RESP-050")),
        pytest.param([TextPart("a"), C1, C2], [message("a", 0), call("c1", 1), call("c2", 2)],
                     marks=pytest.mark.rule("TOOL-019")),
        pytest.param([C1, TextPart("a"), C2], [call("c1", 0), message("a", 1), call("c2", 2)],
                     marks=pytest.mark.rule("RESP-047")),
        pytest.param([ReasoningPart("why"), TextPart("a")], [thought("why"), message("a", 1)],
                     marks=pytest.mark.rule("RSN-049")),
        pytest.param([ReasoningPart("w"), ReasoningPart("hy", "sig"), C1], [thought("why"), call("c1", 1)],
                     marks=pytest.mark.rule("RESP-048")),
        pytest.param([ReasoningPart("", "zzz", redacted=True), TextPart("a")], [message("a", 0)],
                     marks=pytest.mark.rule("RESP-048")),
        pytest.param([TextPart("a")], [message("a", 0)], marks=pytest.mark.rule("RSN-051")),
        pytest.param([ReasoningPart("why", SEAL), TextPart("")], [thought("why")], marks=pytest.mark.rule("RESP-029")),
        pytest.param([], [], marks=pytest.mark.rule("RESP-047")),
    ],
)  # fmt: skip
def test_output(parts: list[AnswerPart], output: list[dict[str, Any]]) -> None:
    assert rendered(*parts)["output"] == output


@pytest.mark.parametrize(
    ("parts", "output"),
    [
        ([ReasoningPart("why", SEAL), C1], [thought("why", encrypted_content=SEAL), call("c1", 1)]),
        ([ReasoningPart("", SEAL), C1], [thought("", encrypted_content=SEAL), call("c1", 1)]),
        ([ReasoningPart("why", "sig"), C1], [thought("why"), call("c1", 1)]),
    ],
)
def test_sealed_reasoning_is_shown_to_who_asks(parts: list[AnswerPart], output: list[dict[str, Any]]) -> None:
    assert rendered(*parts, request=ASKS_SEALED)["output"] == output


@pytest.mark.rule("RESP-053")
def test_a_limit_cuts_the_answer_short() -> None:
    answer = rendered(ReasoningPart("why"), TextPart("a"), reason=FinishReason.LENGTH)
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["status"] for item in answer["output"]] == ["completed", "incomplete"]


@pytest.mark.rule("RSN-057")
def test_thinking_that_used_up_the_limit() -> None:
    answer = rendered(ReasoningPart("why"), reason=FinishReason.LENGTH)
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["type"] for item in answer["output"]] == ["reasoning"]


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.STOP_SEQUENCE, FinishReason.TOOL_CALLS])
@pytest.mark.rule("RESP-052")
def test_a_full_answer_is_completed(reason: FinishReason) -> None:
    assert rendered(TextPart("a"), reason=reason)["status"] == "completed"


FORMATS = [
    {"type": "text"},
    {"type": "json_object"},
    {"type": "json_schema", "name": "n", "schema": {"a": "b\n  c", "d": [1.0]}, "strict": None, "description": "é"},
]


@pytest.mark.rule("RESP-054")
@pytest.mark.rule("JSON-010")
@pytest.mark.parametrize("sent", FORMATS)
def test_the_format_is_repeated(sent: dict[str, Any]) -> None:
    raw = json.dumps({"model": "m", "input": "Hi", "text": {"format": sent, "verbosity": "low"}}, indent=2).encode()
    assert rendered(TextPart("a"), request=parse(raw))["text"] == {"format": sent}


@pytest.mark.rule("RESP-054")
def test_the_format_is_text_when_none_was_sent() -> None:
    assert rendered(TextPart("a"))["text"] == {"format": {"type": "text"}}


@pytest.mark.parametrize("choice", ["none", "required", {"type": "function", "name": "get_weather"}])
def test_the_choice_is_repeated(choice: Any) -> None:
    assert rendered(TextPart("a"), request=parse(body(tools=[TOOL], tool_choice=choice)))["tool_choice"] == choice


@pytest.mark.rule("RESP-057")
@pytest.mark.rule("ERR-001")
def test_errors_have_four_members() -> None:
    status, told = FORMAT.render_error(
        ApiError(status=429, code="free_quota_rpm", message="m", type="rate_limit_exceeded")
    )
    assert status == 429
    assert json.loads(told) == {
        "error": {"message": "m", "type": "rate_limit_exceeded", "param": None, "code": "free_quota_rpm"}
    }
