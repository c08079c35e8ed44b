"""The error envelope of the strict dialect: kenari's errors under the few codes this dialect knows.

Called by the edge for any refusal (contract: Kyara, Errors).
"""

from msgspec.json import encode

from libs.llm.failures import ApiError

_MODERATED = frozenset({"content_policy_violation", "request_blocked"})
_NO_PLAN = frozenset({"subscribers_only", "subscription_required", "no_active_plan"})
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

STREAM_FAILURE = encode(
    {
        "error": {
            "message": "Upstream stream failed",
            "type": "server_error",
            "param": None,
            "code": "upstream_stream_error",
        }
    }
)
"""What a stream that broke off ends with."""


def render_error(error: ApiError) -> tuple[int, bytes]:
    """The status and ``{"error": {message, type, param, code}}``; ``code`` is null for failed validation and 500."""
    status, code = _status_and_code(error)
    type = "server_error" if status >= 500 else _TYPES.get(status, "invalid_request_error")
    body = {"message": error.message, "type": type, "param": error.param, "code": code}
    return status, encode({"error": body})


def _status_and_code(error: ApiError) -> tuple[int, str | None]:
    status, code = error.status, error.code
    if code in _MODERATED:
        return 403, "content_policy_violation"
    if code in _NO_PLAN:
        return 403, "no_active_plan"
    match status:
        case 401:
            return 401, "invalid_api_key"
        case 402:
            return 403, "insufficient_balance"
        case 413 if code == "request_too_large":
            return 413, code
        case 413:
            # A provider's word about the prompt: here the status means the body alone.
            return 400, None
        case 429:
            return 429, "rate_limit_exceeded"
        case 500:
            return 500, None
        case _ if status > 500:
            return 503, "service_unavailable"
    if code == "model_not_found":
        return 400, code
    if code == "invalid_json":
        return status, code
    return (status, None) if status in (400, 422) else (status, code or None)
