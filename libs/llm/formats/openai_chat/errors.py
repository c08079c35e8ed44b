"""The OpenAI error envelope, also the one of every endpoint outside Messages (contract: Errors, OpenAI format).

Called by the edge for any refusal, and by the chunk writer for failures in a stream.
"""

from msgspec.json import encode

from libs.llm.failures import ApiError


def render_error(error: ApiError) -> tuple[int, bytes]:
    """The status and ``{"error": {message, type, param, code}}``, always with all four members."""
    body = {
        "message": error.message,
        "type": error.type or error.code,
        "param": error.param,
        "code": error.code,
    }
    return error.status, encode({"error": body})
