"""A provider's error answer becomes one of the contract's codes, whatever form it has, and its text stays here."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.rejections import failure_in_answer, failure_of, retry_after_ms

NOON_MS = 1_790_856_000_000  # 2026-10-01T12:00:00Z


class Noon:
    def now_ms(self) -> int:
        return NOON_MS


def classified(status: int, body: Any) -> ProviderFailure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return failure_of(status, {}, raw, Noon())


def error(message: str | None = None, **members: Any) -> dict[str, Any]:
    return {"error": {"message": message, **members}}


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (
            400,
            error("This model's maximum context length is 8192 tokens", code="context_length_exceeded"),
            "context_length_exceeded",
        ),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum"), "context_length_exceeded"),
        (
            400,
            error("input length and `max_tokens` exceed context limit: exceeds the context window"),
            "context_length_exceeded",
        ),
        (429, error("Request too large", code="context_length_exceeded"), "context_length_exceeded"),
        (
            404,
            error("The model `x` does not exist or you do not have access to it.", code="model_not_found"),
            "model_not_found",
        ),
        (400, error("Model Not Exist", type="invalid_request_error"), "model_not_found"),
        (404, error("No endpoints found for x."), "model_not_found"),
        (404, {"detail": "Not Found"}, "model_not_found"),
        (400, error("The response was filtered", code="content_filter"), "content_policy_violation"),
        (403, error("blocked by our content policy"), "content_policy_violation"),
        (400, error("This model does not support assistant message prefill."), "prefill_unsupported"),
        (400, error("Unsupported parameter: top_k", type="invalid_request_error"), "invalid_request_error"),
        (
            400,
            error("response_format is not supported by this model", type="invalid_request_error"),
            "invalid_request_error",
        ),
        (415, error("what is this"), "upstream_rejected"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "upstream_rejected"),
        (400, {"message": "no", "code": 400}, "upstream_rejected"),
        (400, {"error": "no"}, "upstream_rejected"),
        (400, b"", "upstream_error"),
        (400, b"<html>Bad Request</html>", "upstream_error"),
        (409, error("conflict"), "upstream_error"),
        (451, b"", "upstream_error"),
    ],
)
@pytest.mark.rule("ERR-050", "ERR-051", "ERR-052", "ERR-053", "ERR-054", "ERR-056", "ERR-047")
def test_rejections_are_classified(status: int, body: Any, code: str) -> None:
    found = classified(status, body)
    assert (found.kind, found.code) == (FailureKind.REJECTED, code)


@pytest.mark.rule("ERR-048", "ERR-049")
@pytest.mark.parametrize("status", [400, 403, 404, 413, 415, 422, 429])
def test_a_rejection_keeps_the_providers_status(status: int) -> None:
    told = classified(status, error(code="context_length_exceeded")).api_error()
    assert (told.status, told.type) == (status, "invalid_request_error")


@pytest.mark.rule("ERR-049")
@pytest.mark.parametrize("status", [402, 409, 451])
def test_other_statuses_of_a_rejection_become_400(status: int) -> None:
    assert classified(status, error(code="context_length_exceeded")).api_error().status == 400


@pytest.mark.parametrize("message", ["Too many tokens, please wait", "maximum context length of the minute"])
def test_the_text_of_a_rate_limit_is_not_taken_for_a_rejection(message: str) -> None:
    assert classified(429, error(message)).kind is FailureKind.RATE_LIMITED


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"message": "busy", "code": 503}, FailureKind.FAILED),
        ({"message": "busy", "code": 429}, FailureKind.RATE_LIMITED),
        ({"message": "bad", "code": 400}, FailureKind.REJECTED),
        ({"message": "key", "code": 401}, FailureKind.REFUSED),
        ({"type": "invalid_request_error"}, FailureKind.REJECTED),
        ({"type": "rate_limit_exceeded"}, FailureKind.RATE_LIMITED),
        ({"type": "overloaded_error"}, FailureKind.FAILED),
        ("busy", FailureKind.FAILED),
        ([], FailureKind.FAILED),
        (4, FailureKind.FAILED),
    ],
)
def test_an_error_object_in_a_200_is_classified_by_what_it_says(body: Any, kind: FailureKind) -> None:
    assert failure_in_answer(json.dumps(body).encode()).kind is kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Thu, 01 Oct 2026 12:00:20 GMT", 20_000),
        ("Thu, 01 Oct 2026 11:00:00 GMT", 0),
        ("Thu, 01 Oct 2099 12:00:00 GMT", 86_400_000),
        ("20", 20_000),
        ("1.25", 1_250),
        ("86400", 86_400_000),
        ("NaN", None),
        ("1e9", None),
        ("", None),
        ("²", None),
        ("99999999999999999999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, expected: int | None) -> None:
    assert retry_after_ms({"retry-after": value}, Noon()) == expected


ANTHROPIC = [
    (400, "invalid_request_error", "messages: at least one message is required", "rejected", "invalid_request_error"),
    (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000", "rejected", "context_length_exceeded"),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "rejected",
        "context_length_exceeded",
    ),
    (400, "invalid_request_error", "Your credit balance is too low to access the API", "refused", "upstream_error"),
    (401, "authentication_error", "invalid x-api-key", "refused", "upstream_error"),
    (402, "billing_error", "vendor", "refused", "upstream_error"),
    (403, "permission_error", "your key may not use this", "refused", "upstream_error"),
    (404, "not_found_error", "model: claude-x", "rejected", "model_not_found"),
    (413, "request_too_large", "Request exceeds the maximum size", "rejected", "invalid_request_error"),
    (429, "rate_limit_error", "too many tokens per minute", "rate_limited", "upstream_error"),
    (500, "api_error", "Internal server error", "failed", "upstream_error"),
    (504, "timeout_error", "vendor", "timeout", "upstream_error"),
    (529, "overloaded_error", "Overloaded", "failed", "upstream_error"),
]


@pytest.mark.rule("ERR-049", "ERR-050", "ERR-051", "ERR-052", "ERR-062")
@pytest.mark.parametrize(("status", "type", "message", "kind", "code"), ANTHROPIC)
def test_anthropics_errors_mean_the_same_as_an_answer_and_in_a_stream(
    status: int, type: str, message: str, kind: str, code: str
) -> None:
    told = error(message, type=type)
    for found in (classified(status, {"type": "error", **told}), failure_in_answer(json.dumps(told["error"]).encode())):
        assert (found.kind, found.code) == (kind, code)


@pytest.mark.rule("VIS-010", "VIS-013")
@pytest.mark.parametrize("status", [400, 415, 422])
@pytest.mark.parametrize(
    "message",
    [
        "vendor text: cannot download that URL",
        "Unable to download the file. Please verify the URL and try again.",
        "Failed to fetch image from https://images.example/a.png: 403",
        "Error while downloading https://x.example/a.",
        "The image at https://images.example/a.png could not be fetched",
        "Only base64 images are supported",
        "This URL is disallowed by the website's robots.txt file.",
        "remote image URLs are not supported",
    ],
)
def test_a_picture_nobody_could_fetch_is_told_as_such(status: int, message: str) -> None:
    told = classified(status, error(message, type="invalid_request_error")).api_error()
    assert (told.status, told.code, told.message) == (400, "bad_request", "remote image URL not supported by upstream")


@pytest.mark.parametrize(
    "message",
    [
        "image exceeds 5 MB maximum",
        "Could not process image",
        "`url` is not a known field",
        "only https is spoken here",
    ],
)
def test_other_words_about_pictures_and_addresses_stay_a_plain_rejection(message: str) -> None:
    assert classified(400, error(message, type="invalid_request_error")).code == "invalid_request_error"


@pytest.mark.rule("ERR-061")
@given(
    st.integers(100, 599),
    st.sampled_from(["message", "type", "code", "detail"]),
    st.text(min_size=1, max_size=30).map(lambda text: f"vendor {text} https://vendor.example sk-live-1"),
)
def test_no_text_of_a_provider_reaches_client_or_log(status: int, member: str, text: str) -> None:
    for body in ({"error": {member: text}}, {"error": text}, {member: text}):
        found = classified(status, body)
        for streaming in (False, True):
            assert "vendor" not in f"{found.api_error(streaming=streaming)} {found} {found.detail}"


@given(st.binary(max_size=64), st.integers(100, 599))
def test_any_body_of_any_status_is_a_failure(body: bytes, status: int) -> None:
    assert isinstance(classified(status, body), ProviderFailure)
    assert isinstance(failure_in_answer(body), ProviderFailure)
