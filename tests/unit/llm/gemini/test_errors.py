"""Gemini's errors become the failures every provider has, and its text stays here."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.gemini.errors import failure_of_object, failure_of_reply
from tests.unit.llm.gemini.chunks import error


class Noon:
    def now_ms(self) -> int:
        return 1_790_856_000_000


def classified(status: int, body: Any, **headers: str) -> ProviderFailure:
    return failure_of_reply(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode(), Noon())


INVALID = "INVALID_ARGUMENT"
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


@pytest.mark.rule("ERR-050", "ERR-051", "ERR-052", "ERR-056")
@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, error(400, INVALID, "Unknown name"), FailureKind.REJECTED, "invalid_request_error"),
        (400, [error(400, INVALID, "Unknown name")], FailureKind.REJECTED, "invalid_request_error"),
        (
            400,
            error(400, INVALID, "input token count (2) exceeds the maximum number of tokens allowed (1)"),
            FailureKind.REJECTED,
            "context_length_exceeded",
        ),
        (
            400,
            error(400, INVALID, "API key not valid. Please pass a valid API key."),
            FailureKind.REFUSED,
            "upstream_error",
        ),
        (400, error(400, INVALID, "x", {"reason": "API_KEY_INVALID"}), FailureKind.REFUSED, "upstream_error"),
        (
            400,
            error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            FailureKind.REFUSED,
            "upstream_error",
        ),
        (400, error(400, "FAILED_PRECONDITION", "x"), FailureKind.REJECTED, "upstream_rejected"),
        (401, error(401, "UNAUTHENTICATED"), FailureKind.REFUSED, "upstream_error"),
        (403, error(403, "PERMISSION_DENIED"), FailureKind.REFUSED, "upstream_error"),
        (
            404,
            error(404, "NOT_FOUND", "models/x is not found for API version v1beta"),
            FailureKind.REJECTED,
            "model_not_found",
        ),
        (429, error(429, "RESOURCE_EXHAUSTED", "too many tokens"), FailureKind.RATE_LIMITED, "upstream_error"),
        (500, error(500, "INTERNAL"), FailureKind.FAILED, "upstream_error"),
        (503, error(503, "UNAVAILABLE", "overloaded"), FailureKind.FAILED, "upstream_error"),
        (504, error(504, "DEADLINE_EXCEEDED"), FailureKind.TIMEOUT, "upstream_error"),
        (400, [], FailureKind.REJECTED, "upstream_error"),
        (400, b"<html>", FailureKind.REJECTED, "upstream_error"),
    ],
)
def test_error_statuses(status: int, body: Any, kind: FailureKind, code: str) -> None:
    failure = classified(status, body)
    assert (failure.kind, failure.code, failure.status) == (kind, code, status)


def test_the_wait_is_in_the_body_unless_a_header_names_one() -> None:
    body = error(429, "RESOURCE_EXHAUSTED", "x", {"@type": "other"}, RETRY)
    assert classified(429, body).retry_after_ms == 34_500
    assert classified(429, body, **{"retry-after": "3"}).retry_after_ms == 3_000
    assert classified(429, error(429, "RESOURCE_EXHAUSTED", "x", {"retryDelay": "soon"})).retry_after_ms is None


@pytest.mark.rule("ERR-061")
def test_no_text_of_the_service_is_kept() -> None:
    failure = classified(400, error(400, INVALID, "secret marker of the vendor"))
    assert "marker" not in f"{failure} {failure.detail} {failure.api_error()}"


JSON = st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda value: json.dumps(value).encode())


@given(st.integers(400, 599), st.binary() | JSON)
def test_any_body_is_some_failure(status: int, body: bytes) -> None:
    assert classified(status, body).status == status
    assert isinstance(failure_of_object(body), ProviderFailure)
