"""Reads a provider's error answer: whose fault it is, and which of the contract's codes it is told under.

Called by adapters for error statuses and for error objects inside a 200 (contract: Provider rejections).
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from libs.core.clock import Clock
from libs.llm.failures import FailureKind, ProviderFailure

_LONGEST_WAIT_MS = 24 * 3_600_000
_ACCESS = frozenset({401, 402, 403, 407})
"""Our credential, its credit or its rights: nothing the client could change."""
_REFUSALS = frozenset({400, 403, 404, 413, 415, 422})
_OUT_OF_CREDIT = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "billing_error"})
_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
"""Anthropic says so under the type of a bad request."""

_MALFORMED = frozenset({"invalid_request_error", "request_too_large"})

# The status that goes with a type of Anthropic's where none came: in a stream, or inside a 200.
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

# In this order: a text can fit several, and the earlier ones say more.
_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "context_length_exceeded",
        re.compile(
            r"context_length|context length|context window|context limit|maximum context|prompt is too long"
            r"|too many (input )?tokens|input is too long|exceeds? the (model'?s )?max(imum)? (number of )?tokens"
        ),
    ),
    (
        "content_policy_violation",
        re.compile(
            r"content_policy|content policy|content_filter|content filter|content management policy"
            r"|responsibleai|data_inspection_failed|content_blocked|safety (system|policy|filter)"
        ),
    ),
    (
        "bad_request",  # a picture at an address; before the others, which can quote that address
        re.compile(
            r"invalid_image_url"
            r"|(unable to|cannot|can't|could not|couldn't|failed to|error while) "
            r"(download|fetch|retriev)\w*.{0,40}\b(url|image|picture|file|https?://)"
            r"|(url|image|picture)\b.{0,200}(cannot|could not|couldn't|failed to) (be )?(download|fetch|retriev)"
            r"|(remote|external|https?) (image|picture)s?( urls?)? (is|are) not (supported|allowed)"
            r"|image urls? (is|are) not (supported|allowed)|only (base64|data url|https)\w* .{0,20}(is|are) supported"
            r"|url is disallowed by"
        ),
    ),
    ("prefill_unsupported", re.compile(r"prefill|last message (must|cannot|can't|should).{0,40}(user|assistant)")),
    (
        "model_not_found",
        re.compile(
            r"model_not_found|model_not_available|unknown_model|no endpoints found"
            r"|model\b.{0,80}(not (be )?found|does not exist|doesn't exist|not exist)"
            r"|(unknown|invalid|no such) model"
        ),
    ),
)


class _Error(Struct):
    message: Any = None
    type: Any = None
    code: Any = None


class _Envelope(Struct):
    error: _Error | str | None = None
    # Servers without the envelope put the members at the top.
    message: Any = None
    type: Any = None
    code: Any = None
    detail: Any = None


_decode = Decoder(_Envelope).decode
_decode_error = Decoder(_Error | str).decode


def failure_of(status: int, headers: Mapping[str, str], body: bytes, clock: Clock) -> ProviderFailure:
    """What an answer with an error status means. ``body`` may be anything."""
    error = _error_of(body)
    wait = retry_after_ms(headers, clock)
    return _classify(status, error, wait)


def failure_in_answer(error: bytes) -> ProviderFailure:
    """What an error object means that came where an answer should be (``error`` is the object's JSON)."""
    try:
        found = _decode_error(error)
    except DecodeError:
        return ProviderFailure(FailureKind.FAILED, detail="error object in a 200")
    if isinstance(found, str):
        found = _Error(message=found)
    status = found.code if type(found.code) is int and 400 <= found.code <= 599 else None
    if status is not None:
        return _classify(status, found, None)
    if isinstance(found.type, str) and found.type in _STATUS_OF_TYPE:
        kind, code = _kind_and_code(_STATUS_OF_TYPE[found.type], found)
        return ProviderFailure(kind, code=code, detail=_detail(found))
    if _is_our_credit(found):
        return ProviderFailure(FailureKind.REFUSED, detail=_detail(found))
    signed = _code_by_signs(found)
    if signed is not None:
        return ProviderFailure(FailureKind.REJECTED, code=signed, detail=_detail(found))
    if found.type == "invalid_request_error":
        return ProviderFailure(FailureKind.REJECTED, code="invalid_request_error", detail=_detail(found))
    if "rate_limit" in f"{found.type} {found.code}":
        return ProviderFailure(FailureKind.RATE_LIMITED, detail=_detail(found))
    return ProviderFailure(FailureKind.FAILED, detail=_detail(found))


def retry_after_ms(headers: Mapping[str, str], clock: Clock) -> int | None:
    """The wait a provider names, as seconds or as a date; None when it names none we understand."""
    exact = headers.get("retry-after-ms", "")
    if exact.isascii() and exact.isdigit():
        return min(int(exact[:12]), _LONGEST_WAIT_MS)
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII):
        whole, _, part = value.partition(".")
        return min(int(whole) * 1000 + int(part[:3].ljust(3, "0")), _LONGEST_WAIT_MS)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    wait = int(moment.timestamp() * 1000) - clock.now_ms()
    return min(max(wait, 0), _LONGEST_WAIT_MS)


def _error_of(body: bytes) -> _Error | None:
    """The error object of a body; None when it holds none (HTML, nothing, junk)."""
    try:
        envelope = _decode(body)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if isinstance(envelope.error, _Error):
        return envelope.error
    message = envelope.error or envelope.message or envelope.detail
    if message is None and envelope.code is None:
        return None
    return _Error(message=message, type=envelope.type, code=envelope.code)


def _classify(status: int, error: _Error | None, wait: int | None) -> ProviderFailure:
    detail = f"status {status}" if error is None else f"status {status} {_detail(error)}".rstrip()
    kind, code = _kind_and_code(status, error)
    return ProviderFailure(kind, status=status, code=code, retry_after_ms=wait, detail=detail)


def _kind_and_code(status: int, error: _Error | None) -> tuple[FailureKind, str]:
    if error is not None and _is_our_credit(error):
        return FailureKind.REFUSED, "upstream_error"
    if not 400 <= status < 500 or status == 408:
        return (FailureKind.TIMEOUT if status in (408, 504) else FailureKind.FAILED), "upstream_error"
    # "Too many tokens" of a 429 means per minute: there only identifiers tell a rejection.
    found = None if error is None or status == 401 else _code_by_signs(error, in_text=status != 429)
    if found is not None:
        return FailureKind.REJECTED, found
    if status in _ACCESS:
        return FailureKind.REFUSED, "upstream_error"
    if status == 429:
        return FailureKind.RATE_LIMITED, "upstream_error"
    if error is None or status not in _REFUSALS:
        return FailureKind.REJECTED, "upstream_error"
    if status == 404:
        return FailureKind.REJECTED, "model_not_found"
    named = _is_one_of(error, _MALFORMED)
    return FailureKind.REJECTED, "invalid_request_error" if named else "upstream_rejected"


def _is_our_credit(error: _Error) -> bool:
    if _is_one_of(error, _OUT_OF_CREDIT):
        return True
    return isinstance(error.message, str) and _NO_CREDIT.search(error.message) is not None


def _is_one_of(error: _Error, names: frozenset[str]) -> bool:
    """Whether type or code, which may be of any JSON type, is one of the names."""
    return any(isinstance(value, str) and value in names for value in (error.type, error.code))


def _code_by_signs(error: _Error, *, in_text: bool = True) -> str | None:
    said = (error.code, error.type, error.message if in_text else None)
    words = " ".join(str(value)[:2_000] for value in said if value).lower()
    return next((code for code, sign in _SIGNS if sign.search(words)), None)


def _detail(error: _Error) -> str:
    """The error's identifiers, for logs; free text is left out, as it can quote prompts and credentials."""
    names = (value for value in (error.type, error.code) if isinstance(value, str | int) and value)
    return " ".join(name for name in map(str, names) if re.fullmatch(r"[A-Za-z0-9_.\-]{1,64}", name))
