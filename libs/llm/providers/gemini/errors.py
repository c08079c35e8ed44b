"""Reads Gemini's errors, which have forms and statuses of their own, into the failures all providers have.

Called by the adapter for error statuses, and by the decoders for error objects inside a 200.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, encode

from libs.core.clock import Clock
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.rejections import failure_in_answer, failure_of

_CREDENTIAL = re.compile(r"api[ _]key|API_KEY_INVALID|CONSUMER_INVALID|location is not supported", re.IGNORECASE)
"""Signs of a 400 that speaks of our account instead of the request."""

_TYPES = {"INVALID_ARGUMENT": "invalid_request_error", "OUT_OF_RANGE": "invalid_request_error"}
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s", re.ASCII)


class _Detail(Struct, gc=False, rename={"retry_delay": "retryDelay"}):
    reason: Any = None
    retry_delay: Any = None


class _Error(Struct, gc=False):
    code: Any = None
    message: Any = None
    status: Any = None
    details: list[_Detail] | None = None


class _Envelope(Struct, gc=False):
    error: _Error


_decode_envelope = Decoder(_Envelope | list[_Envelope]).decode
_decode_error = Decoder(_Error).decode


def failure_of_reply(status: int, headers: Mapping[str, str], body: bytes, clock: Clock) -> ProviderFailure:
    """What an answer with an error status means. ``body`` may be anything; streams fail with a list of one error."""
    try:
        envelope = _decode_envelope(body)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return failure_of(status, headers, body, clock)
    if isinstance(envelope, list):
        if not envelope:
            return failure_of(status, headers, b"", clock)
        envelope = envelope[0]
    error = envelope.error
    if status == 400 and _blames_us(error):
        return ProviderFailure(FailureKind.REFUSED, status=status, detail="status 400 credential")
    told = {"message": error.message, "type": _type_of(error), "code": error.status}
    return failure_of(status, _with_delay(headers, error), encode({"error": told}), clock)


def failure_of_object(error: bytes) -> ProviderFailure:
    """What an error object means that came where an answer should be (``error`` is the object's JSON)."""
    try:
        found = _decode_error(error)
    except (DecodeError, RecursionError):
        return failure_in_answer(error)
    if found.code == 400 and _blames_us(found):
        return ProviderFailure(FailureKind.REFUSED, detail="credential")
    return failure_in_answer(encode({"message": found.message, "type": _type_of(found), "code": found.code}))


def _blames_us(error: _Error) -> bool:
    said = [error.message, *(detail.reason for detail in error.details or [])]
    return any(isinstance(text, str) and _CREDENTIAL.search(text) for text in said)


def _type_of(error: _Error) -> Any:
    return _TYPES.get(error.status, error.status) if isinstance(error.status, str) else None


def _with_delay(headers: Mapping[str, str], error: _Error) -> Mapping[str, str]:
    """The headers, the wait from the body among them where no header names one."""
    if headers.get("retry-after"):
        return headers
    for detail in error.details or []:
        delay = _DELAY.fullmatch(detail.retry_delay) if isinstance(detail.retry_delay, str) else None
        if delay:
            return {"retry-after": delay[1]}
    return headers
