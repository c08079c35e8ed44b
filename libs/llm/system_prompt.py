"""The system prompt a provider gets: the client's own, and the instruction that asks for JSON.

Called by provider adapters, and by client formats to count the instruction's tokens (contract: Structured output).
"""

from libs.llm.canonical import ChatRequest, OutputFormat

SEPARATOR = "\n\n"
"""Between merged system texts."""

_JSON = "Answer with one JSON value and nothing else: no prose around it, no code fence."
_SCHEMA = _JSON + " It must follow this JSON schema:\n"


def json_instruction(wanted: OutputFormat) -> str:
    """What the model is told; the same text for the same format, so that cached prefixes stay valid."""
    if wanted.schema is None:
        return _JSON
    return _SCHEMA + bytes(wanted.schema).decode()


def system_prompt(request: ChatRequest) -> str:
    """The merged system prompt with the JSON instruction after it, "" when there is neither."""
    if request.output_format is None:
        return request.system
    instruction = json_instruction(request.output_format)
    return f"{request.system}{SEPARATOR}{instruction}" if request.system else instruction
