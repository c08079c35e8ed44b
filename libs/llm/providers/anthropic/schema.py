"""Tells which JSON schemas Anthropic's own structured output takes, and writes the member that asks for it.

Called by the request writers beside it; a schema beyond that subset goes in the system prompt alone.
"""

from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import decode, encode

from libs.llm.canonical import OutputFormat

# Keywords it takes whatever they hold; all others, such as limits of values, end in a refusal.
_FREE = frozenset({"title", "description", "type", "enum", "const", "required", "format", "default", "$schema"})
_LISTS = frozenset({"anyOf", "allOf"})


def native_format(wanted: OutputFormat | None) -> Raw | None:
    """``output_config.format`` for a format of another dialect, its schema as the client wrote it."""
    if wanted is None or wanted.schema is None:
        return None
    try:
        schema = decode(wanted.schema)
    except (DecodeError, RecursionError):
        return None
    if not _fits(schema):
        return None
    return Raw(encode({"type": "json_schema", "schema": wanted.schema}))


def _fits(schema: Any) -> bool:
    """Whether a schema and all in it keep to the subset."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            return False
        is_object = "properties" in one or one.get("type") == "object"
        if is_object and one.get("additionalProperties") is not False:
            return False
        for keyword, value in one.items():
            if keyword in _FREE or keyword == "additionalProperties":
                continue
            if keyword in _LISTS and isinstance(value, list):
                waiting += value
            elif keyword == "properties" and isinstance(value, dict):
                waiting += value.values()
            elif keyword == "items":
                waiting.append(value)
            else:
                return False
    return True
