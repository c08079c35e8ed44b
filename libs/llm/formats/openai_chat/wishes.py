"""Reads what a Chat completions body asks of the answer: how much reasoning, and whether JSON.

Called by ``request`` (contract: Reasoning, Structured output).
"""

from typing import NoReturn

from libs.llm.canonical import Effort, OutputFormat, ReasoningWish
from libs.llm.failures import BadRequest
from libs.llm.formats.body import LARGEST_LIMIT, NULL
from libs.llm.formats.openai_chat.wire import ReasoningObject, ResponseFormat

_LEVELS = ", ".join(Effort)


def read_reasoning(reasoning: ReasoningObject | None, field: str | None) -> ReasoningWish:
    """The wish in the ``reasoning`` object, else the level in ``reasoning_effort``.

    An object that only hides the trace leaves the level to the field.
    """
    level = None if field is None else _effort(field, "reasoning_effort")
    if reasoning is None:
        return ReasoningWish(effort=level)
    effort = None if reasoning.effort is None else _effort(reasoning.effort, "reasoning.effort")
    budget = reasoning.max_tokens
    if budget is not None and budget < 1:
        _refuse("must be at least 1", "reasoning.max_tokens")
    exclude = reasoning.exclude is True
    if reasoning.enabled is False:
        return ReasoningWish(enabled=False, exclude=exclude)
    if effort is None and budget is None and reasoning.enabled is None:
        effort = level
    return ReasoningWish(
        effort=effort,
        budget=None if budget is None else min(budget, LARGEST_LIMIT),
        enabled=reasoning.enabled,
        exclude=exclude,
    )


def _effort(value: str, field: str) -> Effort:
    try:
        return Effort(value)
    except ValueError:
        _refuse(f"must be one of {_LEVELS}", field)


def read_output_format(wanted: ResponseFormat | None) -> OutputFormat | None:
    """The JSON that is asked for; None for plain text."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat(kind="json_object")
    if wanted.type != "json_schema":
        _refuse("must be text, json_object or json_schema", "response_format.type")
    asked = wanted.json_schema
    if asked is None or asked.schema == NULL:
        return OutputFormat(kind="json_schema", name=asked.name if asked else None)
    if not bytes(asked.schema).startswith(b"{"):
        _refuse("must be a JSON schema, an object", "response_format.json_schema.schema")
    return OutputFormat(kind="json_schema", name=asked.name, schema=asked.schema, strict=asked.strict)


def _refuse(problem: str, field: str) -> NoReturn:
    raise BadRequest(f"`{field}` {problem}", field)
