"""Answers, streams and errors as clients of the strict dialect get them."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import (
    Answer,
    ChatRequest,
    Finish,
    FinishReason,
    LogprobsDelta,
    ReasoningPart,
    StreamEvent,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import ApiError, BadRequest, FailureKind, ProviderFailure
from libs.llm.formats.kyara_chat import FORMAT
from libs.llm.identity import Identity

IDENTITY = Identity("gen-1755600000-AbCdEfGhIjKlMnOp", "fx", 1_755_600_000)
USAGE = Usage(9, 4, 2, reasoning=3)
COUNTS = {
    "prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 3},
}  # fmt: skip
LOGPROBS = b'{"content":[]}'
ANSWER = Answer(
    parts=[ReasoningPart("why"), TextPart("ok"), ToolCall("c", "f", "{}")],
    finish_reason=FinishReason.TOOL_CALLS,
    usage=USAGE,
    logprobs=Raw(LOGPROBS),
)


def asked(**members: Any) -> ChatRequest:
    body = {"model": "fx", "messages": [{"role": "user", "content": "x"}]} | members
    return FORMAT.parse(json.dumps(body).encode(), lambda name: None)


def rendered(answer: Answer, usage: Usage, **members: Any) -> Any:
    return json.loads(FORMAT.render_answer(answer, usage, IDENTITY, asked(**members)))


def frames(*events: StreamEvent, **members: Any) -> list[str]:
    """The values of ``data:``."""
    raw = FORMAT.writer(IDENTITY, asked(**members)).write(list(events)).decode()
    *sent, rest = raw.split("\n\n")
    assert rest == "" and all(frame.startswith("data: ") and "\n" not in frame for frame in sent)
    return [frame[6:] for frame in sent]


@pytest.mark.rule(
    "KYARA-046", "KYARA-048", "KYARA-049", "KYARA-050", "KYARA-051", "KYARA-052", "KYARA-053", "KYARA-055",
    "KYARA-056", "KYARA-057", "KYARA-058", "KYARA-059", "KYARA-061",
)  # fmt: skip
def test_a_whole_answer() -> None:
    assert rendered(ANSWER, USAGE) == {
        "id": "gen-1755600000-AbCdEfGhIjKlMnOp",
        "object": "chat.completion",
        "created": 1_755_600_000,
        "model": "fx",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ok", "reasoning": "why"},
                "finish_reason": "stop",
            }
        ],
        "usage": COUNTS,
    }


@pytest.mark.rule("KYARA-052", "KYARA-054", "KYARA-058", "KYARA-059")
def test_an_answer_of_nothing() -> None:
    told = rendered(Answer(parts=[], finish_reason=FinishReason.LENGTH, usage=None), Usage(1, 0))
    assert told["choices"][0]["message"] == {"role": "assistant", "content": ""}
    assert told["choices"][0]["finish_reason"] == "length"
    assert told["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert told["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


@pytest.mark.rule("KYARA-032", "KYARA-053", "KYARA-060")
def test_reasoning_can_be_left_out_and_log_probabilities_be_asked_for() -> None:
    (choice,) = rendered(ANSWER, USAGE, reasoning={"exclude": True}, logprobs=True)["choices"]
    assert "reasoning" not in choice["message"] and choice["logprobs"] == {"content": []}


@pytest.mark.rule("KYARA-062", "KYARA-063", "KYARA-064", "KYARA-065", "KYARA-066")
def test_a_stream() -> None:
    *chunks, done = frames(
        reasoning_delta("why"), text_delta("ok"), ToolCallStart(0, "c", "f"), ToolCallDelta(0, "{}"),
        Finish(FinishReason.LENGTH, USAGE),
    )  # fmt: skip
    assert done == "[DONE]"
    read = [json.loads(chunk) for chunk in chunks]
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["id"] == IDENTITY.id for chunk in read)
    assert [chunk["choices"] for chunk in read] == [
        [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}],
        [{"index": 0, "delta": {"reasoning": "why"}, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "ok"}, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": "length"}],
        [],
    ]
    assert [chunk.get("usage") for chunk in read] == [None, None, None, None, COUNTS]


@pytest.mark.rule("KYARA-032", "KYARA-060")
def test_a_stream_without_reasoning_and_with_log_probabilities() -> None:
    read = [
        json.loads(frame)
        for frame in frames(
            reasoning_delta("why"), LogprobsDelta(LOGPROBS), text_delta("a"), reasoning={"exclude": True}, logprobs=True
        )
    ]
    assert [chunk["choices"][0]["delta"] for chunk in read] == [{"role": "assistant"}, {"content": "a"}]
    assert read[1]["choices"][0]["logprobs"] == {"content": []}


def test_the_writer_counts_what_was_generated() -> None:
    writer = FORMAT.writer(IDENTITY, asked(reasoning={"exclude": True}))
    writer.write([reasoning_delta("why")])
    assert writer.characters == 3
    writer.write([text_delta("ok")])
    assert writer.characters == 5


@pytest.mark.rule("KYARA-067", "KYARA-068")
@pytest.mark.parametrize("events", [[], [text_delta("a")]])
def test_a_stream_that_fails_ends_with_one_event(events: list[StreamEvent]) -> None:
    writer = FORMAT.writer(IDENTITY, asked())
    writer.write(events)
    raw = writer.fail(ApiError(status=503, code="stream_interrupted", message="x", type="upstream_error"))
    assert raw.startswith(b"data: ") and raw.endswith(b"\n\n") and b"[DONE]" not in raw
    assert json.loads(raw[6:]) == {
        "error": {
            "message": "Upstream stream failed", "type": "server_error", "param": None, "code": "upstream_stream_error"
        }
    }  # fmt: skip


def error(status: int, code: str, **members: Any) -> ApiError:
    return ApiError(status=status, code=code, message="m", **members)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(BadRequest("m", "x").api_error(), (400, None, "invalid_request_error"), id="validation"),
        pytest.param(
            error(400, "model_not_found"), (400, "model_not_found", "invalid_request_error"), id="model",
            marks=pytest.mark.rule("KYARA-006"),
        ),
        pytest.param(error(400, "context_length_exceeded"), (400, None, "invalid_request_error"), id="too long"),
        pytest.param(
            error(404, "model_not_found"), (400, "model_not_found", "invalid_request_error"), id="not served now",
        ),
        pytest.param(
            error(401, "auth_failed"), (401, "invalid_api_key", "authentication_error"), id="key",
            marks=pytest.mark.rule("KYARA-077"),
        ),
        pytest.param(
            error(402, "insufficient_balance"), (403, "insufficient_balance", "permission_error"), id="balance",
            marks=pytest.mark.rule("KYARA-079"),
        ),
        pytest.param(error(402, "key_spend_cap_reached"), (403, "insufficient_balance", "permission_error"), id="cap"),
        pytest.param(
            error(403, "subscribers_only"), (403, "no_active_plan", "permission_error"), id="plan",
            marks=pytest.mark.rule("KYARA-078"),
        ),
        pytest.param(
            error(400, "content_policy_violation"), (403, "content_policy_violation", "permission_error"), id="policy",
            marks=pytest.mark.rule("KYARA-080"),
        ),
        pytest.param(
            error(413, "request_too_large"), (413, "request_too_large", "invalid_request_error"), id="large",
            marks=pytest.mark.rule("KYARA-004"),
        ),
        pytest.param(
            error(429, "upstream_error"), (429, "rate_limit_exceeded", "rate_limit_error"), id="rate",
            marks=pytest.mark.rule("KYARA-081"),
        ),
        pytest.param(
            error(500, "internal_error"), (500, None, "server_error"), id="internal",
            marks=pytest.mark.rule("KYARA-082"),
        ),
        pytest.param(
            ProviderFailure(FailureKind.FAILED).api_error(), (503, "service_unavailable", "server_error"), id="failed",
            marks=pytest.mark.rule("KYARA-083"),
        ),
        pytest.param(error(422, "upstream_rejected"), (422, None, "invalid_request_error"), id="rejected"),
        pytest.param(error(405, "wrong_method"), (405, "wrong_method", "invalid_request_error"), id="method"),
    ],
)  # fmt: skip
@pytest.mark.rule("KYARA-074")
def test_errors_come_under_the_codes_of_this_dialect(told: ApiError, expected: tuple[int, str | None, str]) -> None:
    status, raw = FORMAT.render_error(told)
    body = json.loads(raw)["error"]
    assert (status, body["code"], body["type"]) == expected
    assert body == {"message": told.message, "type": expected[2], "param": None, "code": expected[1]}
