"""Whole Messages answers, errors and token counts as a client receives them."""

import json
from typing import Any

import pytest

from libs.llm.canonical import Answer, AnswerPart, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.failures import ApiError, FailureKind, ProviderFailure
from libs.llm.formats.anthropic_messages import FORMAT, count_tokens
from libs.llm.identity import Identity
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
)

IDENTITY = Identity("0190f3a1", "client/name", 1_790_000_000)
USAGE = Usage(prompt=9, completion=12)


def rendered(*parts: AnswerPart, reason: FinishReason = FinishReason.STOP, usage: Usage = USAGE) -> dict[str, Any]:
    answer = Answer(parts=list(parts), finish_reason=reason, usage=usage)
    told = json.loads(FORMAT.render_answer(answer, usage, IDENTITY, parse(body())))
    assert isinstance(told, dict)
    return told


@pytest.mark.rule("MSG-044", "MSG-047", "MSG-051", "MSG-052", "CACHE-019", "RSN-051")
def test_a_plain_answer() -> None:
    assert rendered(TextPart("Hello!")) == {
        "id": "0190f3a1",
        "type": "message",
        "role": "assistant",
        "model": "client/name",
        "content": [{"type": "text", "text": "Hello!"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 12},
    }


@pytest.mark.rule("MSG-045", "RSN-048", "TOOL-014", "TOOL-033", "RSN-050")
def test_blocks_come_in_the_order_of_the_model() -> None:
    told = rendered(
        ReasoningPart("why", "proof"),
        ReasoningPart("", "sealed", redacted=True),
        TextPart("So"),
        TextPart(""),
        ToolCall("c1", "ping", '{"a": {"b": [1]}}'),
        ToolCall("c2", "pong", "{}"),
        TextPart("done"),
        ReasoningPart("more"),
    )
    assert told["content"] == [
        {"type": "thinking", "thinking": "why", "signature": "proof"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "text", "text": "So"},
        {"type": "tool_use", "id": "c1", "name": "ping", "input": {"a": {"b": [1]}}},
        {"type": "tool_use", "id": "c2", "name": "pong", "input": {}},
        {"type": "text", "text": "done"},
        {"type": "thinking", "thinking": "more", "signature": ""},
    ]


@pytest.mark.rule("TOOL-015", "JSON-028")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"a": 1, "b": "\\u00e9"}', {"a": 1, "b": "é"}),
        (" {}\n", {}),
        ('{"a":', {"raw_arguments": '{"a":'}),
        ("[1]", {"raw_arguments": "[1]"}),
        ("null", {"raw_arguments": "null"}),
        ("", {"raw_arguments": ""}),
        ('{"a": NaN}', {"raw_arguments": '{"a": NaN}'}),
        ('{"a": 1} {"b": 2}', {"raw_arguments": '{"a": 1} {"b": 2}'}),
        ('{"a": "\\ud800"}', {"raw_arguments": '{"a": "\\ud800"}'}),
        ('{"a":' * 9_000, {"raw_arguments": '{"a":' * 9_000}),
    ],
)
def test_input_is_always_an_object(arguments: str, told: dict[str, Any]) -> None:
    assert rendered(ToolCall("c", "f", arguments))["content"][0]["input"] == told


@pytest.mark.rule("MSG-046", "MSG-047", "MSG-048", "RSN-056", "JSON-030")
@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (FinishReason.STOP, "end_turn"),
        (FinishReason.STOP_SEQUENCE, "stop_sequence"),
        (FinishReason.LENGTH, "max_tokens"),
        (FinishReason.TOOL_CALLS, "tool_use"),
        (FinishReason.CONTENT_FILTER, "refusal"),
    ],
)
def test_stop_reasons(reason: FinishReason, told: str) -> None:
    answer = rendered(reason=reason)
    assert (answer["stop_reason"], answer["stop_sequence"], answer["content"]) == (told, None, [])


def counts(written: int, answered: int, **cache: int) -> dict[str, int]:
    return {"input_tokens": written, "output_tokens": answered} | {
        {"read": "cache_read_input_tokens", "write": "cache_creation_input_tokens"}[name]: count
        for name, count in cache.items()
    }


@pytest.mark.rule("MSG-049", "MSG-050", "MSG-051", "MSG-052", "CACHE-012", "CACHE-017", "CACHE-018", "CACHE-019")
@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(100, 20, reasoning=15), counts(100, 20)),
        (Usage(100, 20, cached=60, tells_cached=True), counts(40, 20, read=60)),
        (
            Usage(100, 20, cached=60, cache_write=30, tells_cached=True, tells_cache_write=True),
            counts(10, 20, read=60, write=30),
        ),
        (Usage(100, 20, tells_cached=True, tells_cache_write=True), counts(100, 20, read=0, write=0)),
        (Usage(100, 20, tells_cache_write=True), counts(100, 20, write=0)),
        (Usage(100, 20, cached=90, cache_write=30), counts(0, 20, read=90, write=30)),
    ],
)
def test_usage(usage: Usage, told: dict[str, int]) -> None:
    assert rendered(usage=usage)["usage"] == told


def error(status: int, code: str, kind: str = "") -> ApiError:
    return ApiError(status=status, code=code, message="what to do", type=kind)


@pytest.mark.rule("ERR-008", "MSG-060")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        *[
            pytest.param(error(400, code), "invalid_request_error", marks=pytest.mark.rule("ERR-010"))
            for code in ("bad_request", "byok_malformed_model_id", "request_blocked", "context_length_exceeded")
        ],
        pytest.param(error(400, "byok_malformed_model_id"), "invalid_request_error", marks=pytest.mark.rule("MSG-063")),
        pytest.param(error(400, "context_length_exceeded"), "invalid_request_error", marks=pytest.mark.rule("MSG-065")),
        pytest.param(error(400, "model_not_found"), "not_found_error", marks=pytest.mark.rule("ERR-011", "MSG-066")),
        pytest.param(
            error(400, "byok_provider_not_found"), "not_found_error", marks=pytest.mark.rule("ERR-011", "MSG-067")
        ),
        *[
            pytest.param(error(402, code), "payment_required", marks=pytest.mark.rule("ERR-012"))
            for code in (
                "insufficient_balance",
                "payg_limit_reached",
                "key_spend_cap_reached",
                "member_spend_cap_reached",
            )
        ],
        *[
            pytest.param(error(403, code), "permission_error", marks=pytest.mark.rule("ERR-013"))
            for code in (
                "subscribers_only",
                "byok_credential_unavailable",
                "byok_spend_capped_key",
                "subscription_required",
            )
        ],
        *[
            pytest.param(error(429, code), "rate_limit_error", marks=pytest.mark.rule("ERR-014"))
            for code in (
                "rate_limit_exceeded",
                "free_quota_rpm",
                "free_quota_daily",
                "plan_limit_reached",
                "upstream_error",
            )
        ],
        pytest.param(error(400, "upstream_error"), "api_error", marks=pytest.mark.rule("ERR-015")),
        *[
            pytest.param(error(status, code), "api_error", marks=pytest.mark.rule("ERR-016"))
            for status, code in [
                (500, "internal_error"),
                (503, "upstream_error"),
                (503, "all_providers_failed"),
                (503, "no_wire_for_modality"),
            ]
        ],
        *[
            pytest.param(
                error(status, code, "invalid_request_error"),
                "invalid_request_error",
                marks=pytest.mark.rule("ERR-017"),
            )
            for status in (400, 403, 404, 413, 415, 422, 429)
            for code in (
                "invalid_request_error",
                "content_policy_violation",
                "prefill_unsupported",
                "upstream_rejected",
            )
        ],
        pytest.param(
            error(404, "model_not_found", "invalid_request_error"),
            "not_found_error",
            marks=pytest.mark.rule("ERR-017"),
        ),
    ],
)
def test_errors(given: ApiError, told: str) -> None:
    status, envelope = FORMAT.render_error(given)
    assert status == given.status
    assert json.loads(envelope) == {"type": "error", "error": {"type": told, "message": "what to do"}}


@pytest.mark.rule("ERR-015")
def test_a_client_error_of_a_provider_that_nobody_classified() -> None:
    status, envelope = FORMAT.render_error(ProviderFailure(FailureKind.REJECTED, status=418).api_error())
    assert (status, json.loads(envelope)["error"]["type"]) == (400, "api_error")


@pytest.mark.rule("MSG-054", "VIS-033")
@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        (turns({"role": "user", "content": ""}), 1),
        (turns({"role": "user", "content": "a" * 400}), 100),
        (turns({"role": "user", "content": "é" * 400}), 100),
        (turns(user(*[text("a" * 4)] * 3)), 3),
        (body(system="a" * 398), 100),
        (body(system=[text("a" * 398)]), 100),
        (turns({"role": "system", "content": "a" * 400}), 100),
        (turns(user(PIXEL, text("a" * 40))), 1_510),
        (turns(user({"type": "document", "source": {"type": "base64", "media_type": "x/y", "data": "AAAA"}})), 1_501),
        (turns(user({"type": "document", "source": {"type": "text", "data": "a" * 400}})), 100),
        (turns(user(RESULT | {"content": "a" * 400})), 100),
        (turns(user(RESULT | {"content": [text("a" * 400), PIXEL]})), 1_600),
        (turns(HI, assistant({"type": "thinking", "thinking": "a" * 398})), 100),
        (turns(HI, assistant(CALL | {"input": {"a": "b" * 385}})), 100),
        (turns(user({"type": "hologram", "text": "a" * 400})), 1),
    ],
)
def test_the_count_follows_text_and_images(raw: bytes, tokens: int) -> None:
    assert json.loads(count_tokens(raw)) == {"input_tokens": tokens}
    assert parse(raw).input_tokens == tokens


@pytest.mark.rule("MSG-055")
def test_a_longer_body_never_counts_less() -> None:
    bodies = [
        body(system="s" * size, tools=[TOOL | {"description": "d" * size}], messages=[HI, assistant(text("a" * size))])
        for size in range(40)
    ]
    counted = [json.loads(count_tokens(raw))["input_tokens"] for raw in bodies]
    assert counted == sorted(counted) and counted[-1] > counted[0]


@pytest.mark.rule("MSG-057")
@pytest.mark.parametrize(
    "raw",
    [
        body(model="no/such-model"),
        body(thinking={"type": "enabled", "budget_tokens": 200_000}),
        body(max_tokens=0),
        body(tool_choice={"type": "sometimes"}),
    ],
)
def test_only_the_prompt_is_looked_at(raw: bytes) -> None:
    assert json.loads(count_tokens(raw)) == {"input_tokens": 1}
