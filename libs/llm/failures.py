"""What can go wrong with a chat: a request we refuse, and a provider that fails. No provider text leaves here.

Raised by ``formats`` and ``providers``; the edge turns each into an ``ApiError`` that a format renders.
"""

from enum import StrEnum

from msgspec import Struct

from libs.core.errors import KenariError


class ApiError(Struct, frozen=True, kw_only=True):
    """An error as a client is to see it, before a format gives it its envelope (contract: Errors).

    ``code`` "" is none, which a format shows as null.
    """

    status: int
    code: str
    message: str
    type: str = ""
    """The OpenAI format's ``type``; empty means that it repeats ``code``."""
    param: str | None = None


class BadRequest(KenariError):
    """The client's body breaks a rule; ``field`` is the path of the member at fault, for logs and tests.

    ``code`` and ``param`` are what the client is told besides.
    """

    reason = "bad_request"

    def __init__(
        self, message: str, field: str | None = None, *, code: str = "bad_request", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code
        self.param = param

    def api_error(self) -> ApiError:
        """400 ``bad_request``, as a rule; ``param`` stays null outside the strict dialect and the Usage endpoints."""
        return ApiError(status=400, code=self.code, message=self.message, param=self.param)


class NotJson(BadRequest):
    """The client's body is no JSON at all."""


class FailureKind(StrEnum):
    """How an attempt at a provider failed; also the ``outcome`` of the attempts event."""

    REJECTED = "rejected"  # it refused this request itself; the same request will not do better there
    RATE_LIMITED = "rate_limited"
    REFUSED = "refused"  # it let us not in: unreachable, or our credential is not accepted
    TIMEOUT = "timeout"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # it began to answer and stopped before the end
    JUNK = "junk"  # what came is not its format


INTERRUPTED_MESSAGE = (
    "the answer broke off at the provider of this model and is incomplete; please send the whole request again"
)

_OWN_STATUS = frozenset({403, 404, 413, 415, 422, 429})
"""Statuses of a rejection that reach the client as they are; all others become 400."""

_REJECTIONS = {
    "invalid_request_error": "the provider of this model does not accept this request; another model may",
    "context_length_exceeded": "prompt and max_tokens together are more than this model can hold; "
    "send less, ask for less or choose a larger model",
    "model_not_found": "this model cannot be had from its provider for now; come back later or choose another",
    "content_policy_violation": "the content policy of this model's provider stopped the request",
    "prefill_unsupported": "this model only answers, it does not go on with an assistant message; "
    "let a user or tool message come last",
    "upstream_rejected": "the provider of this model turned the request down; "
    "a wrong model id or field is the usual cause",
}
_REMOTE_IMAGE = "remote image URL not supported by upstream"
"""The contract's own words (Images and files as input)."""

_UNCLASSIFIED = "the provider of this model answered with a client error; check the request or try another model"
_RATE_LIMITED = "the provider of this model limits requests right now; retry with backoff"
_TIMED_OUT = "the provider of this model did not answer in time; retry with backoff"
_FAILED = "the provider of this model could not answer; retry with backoff"


class ProviderFailure(KenariError):
    """An attempt at a provider that gave no (whole) answer.

    ``status`` is the provider's HTTP status when one came, ``code`` the contract's code (``bad_request`` for a
    picture at an address that the provider could not fetch, rule VIS-010), ``retry_after_ms``
    the wait the provider named. ``detail`` is for logs: identifiers only, never text, hosts or secrets.
    """

    def __init__(
        self,
        kind: FailureKind,
        *,
        status: int | None = None,
        code: str = "upstream_error",
        retry_after_ms: int | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(f"{kind} {detail}".rstrip(), reason=kind.value)
        self.kind = kind
        self.status = status
        self.code = code
        self.retry_after_ms = retry_after_ms
        self.detail = detail

    def api_error(self, *, streaming: bool = False) -> ApiError:
        """The client's view. ``streaming``: bytes of the answer are already out (contract: Errors in a stream)."""
        if self.kind is FailureKind.REJECTED and self.code == "bad_request":
            kind = "upstream_error" if streaming else ""
            return ApiError(status=400, code=self.code, type=kind, message=_REMOTE_IMAGE)
        if self.kind is FailureKind.REJECTED and self.code in _REJECTIONS:
            status = self.status if self.status in _OWN_STATUS else 400
            # In a stream the Errors page gives every chat failure the type upstream_error.
            kind = "upstream_error" if streaming else "invalid_request_error"
            return ApiError(status=status or 400, code=self.code, type=kind, message=_REJECTIONS[self.code])
        if streaming:
            return ApiError(status=503, code="stream_interrupted", type="upstream_error", message=INTERRUPTED_MESSAGE)
        match self.kind:
            case FailureKind.REJECTED:
                return ApiError(status=400, code="upstream_error", message=_UNCLASSIFIED)
            case FailureKind.RATE_LIMITED:
                return ApiError(status=429, code="upstream_error", message=_RATE_LIMITED)
            case FailureKind.TIMEOUT:
                return ApiError(status=503, code="upstream_error", message=_TIMED_OUT)
            case _:
                return ApiError(status=503, code="upstream_error", message=_FAILED)
