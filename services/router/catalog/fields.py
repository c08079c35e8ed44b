"""The kinds of values that stand in the catalogue file: ids, addresses, amounts, and the base of its entries.

Used by document.py beside it, and by whoever has to judge such a value elsewhere.
"""

import re
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from libs.core.money import PER_RUPIAH

# Names that mean something else as ``model`` (contract: Routing and routes, Providers).
FREE_ROUTE = "kenari-free"
RESERVED_IDS = (FREE_ROUTE, "kenari/auto")
# Fees and the rate of exchange stand among the models where prices are kept.
PRICED_IDS = ("web_search", "page_fetch", "x_search", "ocr", "usd_idr")
RESERVED_PREFIX = "byok/"

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENV_PART = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^${}]*))?\}")
# Keeps price times tokens of one request far inside 64 bits.
_MAX_RUPIAH = 1_000_000_000


def model_id_problem(value: str) -> str | None:
    """Why ``value`` cannot be a model's id, or None."""
    if not _MODEL_ID.fullmatch(value):
        return "a model id has letters, digits and ._:/@+- only, 128 at most"
    if value in (*RESERVED_IDS, *PRICED_IDS) or value.startswith(RESERVED_PREFIX):
        return f"{value!r} is a reserved name"
    return None


def _model_id(value: str) -> str:
    if problem := model_id_problem(value):
        raise ValueError(problem)
    return value


def _slug(value: str) -> str:
    if not _SLUG.fullmatch(value):
        raise ValueError("must be lower-case letters, digits and ._- only, 64 at most")
    return value


def _env_name(value: str) -> str:
    # The value is not repeated: somebody may have put the key itself here.
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("must be the name of an environment variable, not a key")
    return value


def some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    # Not min_length: that counts the good entries only and would hide behind it what is wrong with the others.
    if not values:
        raise ValueError("must not be empty")
    return values


def one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def env_syntax(value: str) -> str:
    if "$" in _ENV_PART.sub("", value):
        raise ValueError("bad reference to the environment: write ${NAME} or ${NAME:-default}")
    return value


def expand(value: str, environment: dict[str, str]) -> str:
    """Replace ``${NAME:-default}``; an empty variable counts as unset. Raise KeyError(NAME) without a value."""

    def one(match: re.Match[str]) -> str:
        found = environment.get(match[1], "") or match[2]
        if found is None:
            raise KeyError(match[1])
        return found

    return _ENV_PART.sub(one, value)


def url_problem(url: str) -> str | None:
    """Why ``url`` cannot be a provider's base URL, or None. The URL itself is not repeated: it may hold a secret."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        return "base_url must be an http or https URL"
    if parts.username is not None or parts.password is not None:
        return "base_url must not contain a user or password: keys come from key_env"
    if parts.query or parts.fragment:
        return "base_url must not have a query or fragment"
    return None


def _moment(value: Any) -> int:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("must be a time with its zone, such as 2027-01-31T00:00:00Z")
    return int(value.timestamp())


ModelId = Annotated[str, AfterValidator(_model_id)]
Slug = Annotated[str, AfterValidator(_slug)]
EnvName = Annotated[str, AfterValidator(_env_name)]
Text = Annotated[str, Field(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]
Milliseconds = Annotated[int, Field(strict=True, ge=1, le=600_000)]
Rupiah = Annotated[int, Field(strict=True, ge=0, le=_MAX_RUPIAH)]
MicroIdr = Annotated[int, Field(strict=True, ge=0, le=_MAX_RUPIAH * PER_RUPIAH)]


Dollars = Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,6})?$")]
# Unix seconds; the file has a time with its zone.
Moment = Annotated[int, BeforeValidator(_moment)]


class Entry(BaseModel):
    """Base of all parts of the file: no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
