"""The error envelope of Messages and which type an error has in it (contract: Errors, Anthropic format).

Called by the edge for any refusal, and by the stream writer for failures in a stream.
"""

from msgspec.json import encode

from libs.llm.failures import ApiError

_BY_CODE = {
    "model_not_found": "not_found_error",
    "byok_provider_not_found": "not_found_error",
    # Rejections by a provider, whatever status of its own they keep.
    "invalid_request_error": "invalid_request_error",
    "context_length_exceeded": "invalid_request_error",
    "content_policy_violation": "invalid_request_error",
    "prefill_unsupported": "invalid_request_error",
    "reference_image_fetch_failed": "invalid_request_error",
    "upstream_rejected": "invalid_request_error",
}
_BY_STATUS = {402: "payment_required", 403: "permission_error", 429: "rate_limit_error"}
_REQUEST_AT_FAULT = frozenset({"invalid_request_error", "not_found_error"})


def render_error(error: ApiError) -> tuple[int, bytes]:
    """``{"type": "error", "error": {type, message}}`` and its status; there is no code."""
    return error.status, _envelope(_type_of(error), error.message)


def render_stream_error(error: ApiError) -> bytes:
    """The same envelope inside a stream, where only two types are in use (contract: Streaming, Messages stream)."""
    at_fault = _type_of(error) in _REQUEST_AT_FAULT
    return _envelope("invalid_request_error" if at_fault else "api_error", error.message)


def _type_of(error: ApiError) -> str:
    known = _BY_CODE.get(error.code) or _BY_STATUS.get(error.status)
    if known is not None:
        return known
    # A client error of a provider that nobody classified is not known to be the request's fault.
    return "api_error" if error.status >= 500 or error.code == "upstream_error" else "invalid_request_error"


def _envelope(kind: str, message: str) -> bytes:
    return encode({"type": "error", "error": {"type": kind, "message": message}})
