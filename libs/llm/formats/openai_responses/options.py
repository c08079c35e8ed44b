"""Reads the smaller members of a Responses body: the output's format and limit, reasoning, the conversation's key.

Called by the request parser (contract: Responses, Request).
"""

from typing import Any

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode, format

from libs.llm.canonical import NO_WISH, Effort, OutputFormat, ReasoningWish
from libs.llm.failures import BadRequest
from libs.llm.formats.body import LARGEST_LIMIT, NULL, decode_members

_CACHE_KEY_BYTES = 512
_ENCRYPTED_REASONING = "reasoning.encrypted_content"


class Reasoning(Struct, gc=False):
    """``reasoning``; ``summary`` changes nothing."""

    effort: str | None = None


class Format(Struct, gc=False):
    """``text.format``; the members of a schema stand on it itself."""

    type: str
    name: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class Text(Struct, gc=False):
    """``text``; ``verbosity`` changes nothing."""

    format: Format | None = None


_decode_strings = Decoder(list[str]).decode


def reasoning_wish(sent: Reasoning | None) -> ReasoningWish:
    """The level asked for, if any."""
    if sent is None or sent.effort is None:
        return NO_WISH
    try:
        return ReasoningWish(effort=Effort(sent.effort))
    except ValueError:
        raise BadRequest(f"`reasoning.effort` must be one of {', '.join(Effort)}", "reasoning.effort") from None


def output_format(text: Text | None) -> OutputFormat | None:
    """The JSON that is wanted; None for plain text."""
    wanted = None if text is None else text.format
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat(kind="json_object")
    if wanted.type != "json_schema":
        raise BadRequest("`text.format.type` must be text, json_object or json_schema", "text.format.type")
    schema = None if wanted.schema == NULL else wanted.schema
    if schema is not None and not bytes(schema).startswith(b"{"):
        raise BadRequest("`text.format.schema` must be an object", "text.format.schema")
    return OutputFormat(kind="json_schema", name=wanted.name, schema=schema, strict=wanted.strict)


def repeated_format(text: Raw) -> Raw:
    """The ``text`` member of the answer for the one sent: its format in one line, as frames of a stream need."""
    one_line = format(bytes(decode_members(text)["format"]), indent=-1)
    return Raw(b'{"format":' + one_line + b"}")


def asked_encrypted(include: Raw) -> Raw | None:
    """What is kept of ``include``: whether encrypted reasoning is wanted; the rest may be anything."""
    try:
        wanted = _ENCRYPTED_REASONING in _decode_strings(include)
    except DecodeError:
        return None
    return Raw(encode([_ENCRYPTED_REASONING])) if wanted else None


def output_limit(limit: int | None) -> int | None:
    """The asked limit, within what every provider's integer holds."""
    if limit is None:
        return None
    if limit < 1:
        raise BadRequest("`max_output_tokens` must be at least 1", "max_output_tokens")
    return min(limit, LARGEST_LIMIT)


def cache_key(sent: Any) -> str | None:
    """The conversation's key without space around it; None when there is none or it cannot be used."""
    key = sent.strip() if isinstance(sent, str) else ""
    return key if key and len(key.encode()) <= _CACHE_KEY_BYTES else None
