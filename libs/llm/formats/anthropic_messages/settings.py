"""Reads what a body says about reasoning, JSON output, the end user and betas (contract: Reasoning, Structured output).

Called by the reader of requests.
"""

import re

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import DEFAULT_MAX_TOKENS, NO_WISH, Effort, OutputFormat, ReasoningWish
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages.wire import Format, OutputConfig, Thinking, is_object
from libs.llm.formats.base import Header
from libs.llm.formats.body import NULL
from libs.llm.reasoning import SMALLEST_BUDGET

_EFFORTS = ", ".join(Effort)
_BETA = re.compile(r"[\w.-]{1,100}", re.ASCII)
_MOST_BETAS = 40


class _Metadata(Struct, gc=False):
    user_id: str | None = None


_decode_metadata = Decoder(_Metadata).decode


def read_reasoning(thinking: Thinking | None, config: OutputConfig | None) -> ReasoningWish:
    """The wish; ``thinking`` turned off leaves no level in force."""
    effort = None if config is None or config.effort is None else _effort(config.effort)
    if thinking is None:
        return NO_WISH if effort is None else ReasoningWish(effort=effort)
    match thinking.type:
        case "disabled":
            return ReasoningWish(enabled=False, off_softly=True)
        case "adaptive":
            return ReasoningWish(effort=effort, enabled=True)
        case "enabled":
            return ReasoningWish(effort=effort, budget=thinking.budget_tokens, enabled=True)
    raise BadRequest("`thinking.type` must be enabled, disabled or adaptive", "thinking.type")


def check_budget(budget: int | None, max_tokens: int | None) -> None:
    """Refuse a budget that is out of bounds; with an output limit too small for any, there is no thinking at all."""
    limit = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    if budget is None or limit <= SMALLEST_BUDGET or SMALLEST_BUDGET <= budget < limit:
        return
    raise BadRequest(
        f"`thinking.budget_tokens` must be at least {SMALLEST_BUDGET:,} and less than `max_tokens`, here {limit:,}",
        "thinking.budget_tokens",
    )


def read_format(config: OutputConfig | None, older: Format | None) -> OutputFormat | None:
    """The JSON that is wanted: ``output_config.format``, else the older ``output_format``."""
    path, wanted = "output_format", older
    if config is not None and config.format is not None:
        path, wanted = "output_config.format", config.format
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat(kind="json_object")
    if wanted.type != "json_schema":
        raise BadRequest(f"`{path}.type` must be json_schema, json_object or text", f"{path}.type")
    if wanted.schema == NULL:
        return OutputFormat(kind="json_schema")
    if not is_object(wanted.schema):
        raise BadRequest(f"`{path}.schema` must be an object", f"{path}.schema")
    return OutputFormat(kind="json_schema", schema=wanted.schema)


def read_user(metadata: Raw) -> str | None:
    """``metadata.user_id``; metadata of any other shape is accepted and tells nothing."""
    if not is_object(metadata):
        return None
    try:
        return _decode_metadata(metadata).user_id
    except (DecodeError, RecursionError):
        return None


def read_betas(header: Header) -> str:
    """The names in ``anthropic-beta``, in order, those that can be none left out; "" without any."""
    names = [name.strip() for name in (header(b"anthropic-beta") or "").split(",")]
    return ",".join([name for name in names if _BETA.fullmatch(name)][:_MOST_BETAS])


def _effort(level: str) -> Effort:
    try:
        return Effort(level)
    except ValueError:
        raise BadRequest(f"`output_config.effort` must be one of {_EFFORTS}", "output_config.effort") from None
