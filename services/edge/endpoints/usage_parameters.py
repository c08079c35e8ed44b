"""The query parameters of the usage reads (contract: Usage, Request and Window rules).

Used by usage.py. They are read by hand, because a wrong one is a 400 that names it in the envelope of the API.
"""

from dataclasses import dataclass

from starlette.datastructures import QueryParams

from services.edge.errors import RefusedError, refuse
from services.edge.keys import Caller

_DAY_S = 86_400
_MOST_DAYS = 366
_RANGES = {"24h": _DAY_S, "7d": 7 * _DAY_S, "30d": 30 * _DAY_S}
_KINDS = ("payg", "plan", "coupon", "token_alloc", "free", "byok")
_DEEPEST_ROW = 10_000
_LONGEST_NAME = 256


@dataclass(frozen=True)
class Window:
    """Unix seconds, both inclusive."""

    start: int
    end: int


def first_values(query: QueryParams) -> dict[str, str]:
    """Each parameter with the first value it was given."""
    return {name: query.getlist(name)[0] for name in query}


def resolve_days(given: dict[str, str], now: int) -> Window:
    """The window of a sum: as ``resolve_window``, but it may touch at most 366 UTC days."""
    window = resolve_window(given, now)
    if window.end // _DAY_S - window.start // _DAY_S >= _MOST_DAYS:
        raise _bad("start", f"the window must not touch more than {_MOST_DAYS} UTC days; move start closer to end")
    return window


def resolve_window(given: dict[str, str], now: int) -> Window:
    """The window of ``start``, ``end`` and ``range``; raise RefusedError naming the wrong one."""
    start, end = _integer(given, "start"), _integer(given, "end")
    if start is None and end is None:
        return _preset(given.get("range", "30d"), now)
    resolved_end = min(end, now) if end is not None else now
    resolved_start = start if start is not None else max(0, resolved_end - _RANGES["30d"])
    if resolved_start > resolved_end:
        raise _bad("start", "start must not be after end")
    return Window(resolved_start, resolved_end)


def _preset(name: str, now: int) -> Window:
    if name == "today":
        return Window(now - now % _DAY_S, now)
    if name not in _RANGES:
        raise _bad("range", "range must be one of today, 24h, 7d, 30d")
    return Window(now - _RANGES[name], now)


def _integer(given: dict[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise _bad(name, f"{name} must be an integer")
    if text.startswith("-"):
        raise _bad(name, f"{name} must not be negative")
    return int(text)


def paging(given: dict[str, str]) -> tuple[int, int]:
    """``page`` and ``limit``; a limit outside its bounds moves to the nearest."""
    page = _integer(given, "page") or 0
    limit = 50
    limit_text = given.get("limit")
    if limit_text is not None:
        # A limit outside 1 to 200 moves to the nearest bound, a negative one too.
        wanted = _integer({"limit": limit_text.removeprefix("-")}, "limit") or 0
        limit = min(200, max(1, -wanted if limit_text.startswith("-") else wanted))
    if page * limit > _DEEPEST_ROW:
        raise _bad("page", f"page times limit must not be above {_DEEPEST_ROW:,}; narrow the window instead")
    return page, limit


def billing_kind(given: dict[str, str]) -> str:
    """One of the six kinds, or empty text for all."""
    kind = given.get("billing_kind")
    if kind is not None and kind not in _KINDS:
        raise _bad("billing_kind", f"billing_kind must be one of {', '.join(_KINDS)}")
    return kind or ""


def model(given: dict[str, str]) -> str:
    """The model id to keep, or empty text for all."""
    return _name(given, "model")


def key_filter(caller: Caller, given: dict[str, str]) -> str:
    """The id of the key to keep, or empty text for all; a restricted key keeps itself."""
    asked = _name(given, "api_key_id")
    if not caller.restricted:
        return asked
    if asked and asked != caller.key_id:
        raise _bad("api_key_id", "a restricted key reads only its own usage")
    return caller.key_id


def _name(given: dict[str, str], parameter: str) -> str:
    name = given.get(parameter, "")
    # The ledger's database cannot even compare a text with a zero byte.
    if "\0" in name or len(name) > _LONGEST_NAME:
        raise _bad(parameter, f"{parameter} must be at most {_LONGEST_NAME} characters, none of them a zero byte")
    return name


def _bad(parameter: str, message: str) -> RefusedError:
    return refuse(400, "bad_request", message, kind="invalid_request_error", param=parameter)
