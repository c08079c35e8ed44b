"""Writes the body an OpenAI-format provider gets.

Called by the adapter; pure. Bodies of clients of other formats are built by ``build``.
"""

from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import ChatRequest, OutputFormat
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.build import built_fields
from libs.llm.reasoning import ReasoningControl
from libs.llm.system_prompt import SEPARATOR, json_instruction

_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens")
_REASONING = ("reasoning", "reasoning_effort")
_SYSTEM_ROLES = ("system", "developer")
_INCLUDE_USAGE = Raw(b'{"include_usage":true}')
_TRUE, _FALSE = Raw(b"true"), Raw(b"false")
_SCHEMA_NAME = "answer"
"""For a schema the client gave no name: the format wants one."""

_decode_members = Decoder(dict[str, Raw]).decode
_decode_list = Decoder(list[Raw]).decode
_decode_text = Decoder(str | None).decode


def provider_body(request: ChatRequest, target: Target, limit_name: str, max_tokens: int, *, stream: bool) -> bytes:
    """The client's own members if it speaks this format, else what the hub has of them; with ours in place.

    Ours are the model, the output limit under ``limit_name``, ``stream``, reasoning and JSON output. A stream
    always asks for usage, whatever the client said: the bill needs it (rule STR-032).
    """
    fields = _own_fields(request) if request.dialect == "openai_chat" else built_fields(request)
    for name in _OUTPUT_LIMITS:
        fields.pop(name, None)
    options = fields.pop("stream_options", None)
    fields["model"] = Raw(encode(target.model))
    fields[limit_name] = Raw(b"%d" % max_tokens)
    fields["stream"] = _TRUE if stream else _FALSE
    if stream:
        fields["stream_options"] = _with_usage(options)
    _put_reasoning(fields, target.reasoning)
    _put_output_format(fields, request.output_format, target.abilities.json_format)
    return encode(fields)


def _own_fields(request: ChatRequest) -> dict[str, Raw]:
    """The client's members, with the instruction that asks for JSON in its system prompt."""
    fields = dict(request.fields)
    if request.output_format is not None:
        fields["messages"] = _instructed(fields["messages"], json_instruction(request.output_format))
    return fields


def _instructed(messages: Raw, instruction: str) -> Raw:
    """``messages`` with ``instruction`` after the system message's own content, or in a system message of its own."""
    turns = _decode_list(messages)
    first = _decode_members(turns[0])
    if _decode_text(first["role"]) not in _SYSTEM_ROLES:
        return Raw(encode([{"role": "system", "content": instruction}, *turns]))
    content = first.get("content", Raw(b"null"))
    if bytes(content).startswith(b"["):
        parts: list[Any] = [*_decode_list(content), {"type": "text", "text": instruction}]
        first["content"] = Raw(encode(parts))
    else:
        own = _decode_text(content)
        first["content"] = Raw(encode(f"{own}{SEPARATOR}{instruction}" if own else instruction))
    return Raw(encode([first, *turns[1:]]))


def _put_reasoning(fields: dict[str, Raw], control: ReasoningControl) -> None:
    """The level as the edge settled it; the client's own wish is in it already."""
    for name in _REASONING:
        fields.pop(name, None)
    if control.state == "on" and control.effort is not None:
        fields["reasoning_effort"] = Raw(encode(control.effort))
    elif control.state == "off" and not control.off_softly:
        fields["reasoning_effort"] = Raw(b'"none"')


def _put_output_format(fields: dict[str, Raw], wanted: OutputFormat | None, understood: bool) -> None:
    """The format's own member for JSON: only where it is understood, and as sent if it is whole."""
    sent = fields.pop("response_format", None)
    if wanted is None or not understood:
        return
    if wanted.schema is None:
        fields["response_format"] = Raw(b'{"type":"json_object"}')
    elif sent is not None and wanted.name:
        fields["response_format"] = sent
    else:
        schema = {"name": wanted.name or _SCHEMA_NAME, "schema": wanted.schema}
        strict = {} if wanted.strict is None else {"strict": wanted.strict}
        fields["response_format"] = Raw(encode({"type": "json_schema", "json_schema": schema | strict}))


def _with_usage(options: Raw | None) -> Raw:
    if options is None or bytes(options) == b"null":
        return _INCLUDE_USAGE
    try:
        merged = _decode_members(options)
    except DecodeError:
        return _INCLUDE_USAGE
    merged["include_usage"] = _TRUE
    return Raw(encode(merged))
