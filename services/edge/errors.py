"""The errors the edge makes itself, as clients are to see them (contract: Errors).

Raised by auth, admission and the endpoints; rendered by the format of the endpoint that was called.
"""

from libs.core.errors import KenariError
from libs.llm.failures import ApiError
from services.edge.exchange import Header


class RefusedError(KenariError):
    """A request is answered with an error before any provider has answered it."""

    reason = "refused"

    def __init__(self, error: ApiError, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(error.message, reason=error.code)
        self.error = error
        self.headers = headers


class PlainRefusedError(KenariError):
    """A request is answered with plain text, before it has reached the API."""

    reason = "refused"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def refuse(status: int, code: str, message: str, *, kind: str = "", param: str | None = None) -> RefusedError:
    """An error in the format's envelope; ``kind`` is its ``type`` where that does not repeat the code."""
    return RefusedError(ApiError(status=status, code=code, message=message, type=kind, param=param))


def with_retry_after(refused: RefusedError, seconds: int) -> RefusedError:
    """The same with a ``Retry-After`` header, if there is anything to wait for."""
    if seconds > 0:
        refused.headers = (*refused.headers, (b"retry-after", b"%d" % seconds))
    return refused


INTERNAL = ApiError(status=500, code="internal_error", message="something failed inside kenari; retry once")


def unavailable(what: str) -> RefusedError:
    """503 when a part of kenari does not answer; nothing was run and nothing charged."""
    message = f"{what} is not available right now; nothing was charged, retry with backoff"
    return with_retry_after(refuse(503, "internal_error", message), 1)
