"""Hands a Messages client's own body to an Anthropic-format provider, with only our members put in place.

Called by the request writer beside it (contract: Messages, Request; Prompt caching: marks stay untouched).
"""

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import ChatRequest
from libs.llm.providers.anthropic.history import cleaned
from libs.llm.providers.anthropic.thinking import adjust_thinking, calls_lack_thinking
from libs.llm.providers.base import Target
from libs.llm.system_prompt import SEPARATOR, json_instruction

_OURS_ALONE = ("provider", "models", "route", "plugins")
"""Fields about routing, which no provider of ours gets."""

_TRUE, _FALSE = Raw(b"true"), Raw(b"false")

_decode_list = Decoder(list[Raw]).decode
_decode_text = Decoder(str).decode
_decode_members = Decoder(dict[str, Raw]).decode


def passed_on(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> dict[str, Raw]:
    """The members of the body."""
    fields = dict(request.fields)
    for name in _OURS_ALONE:
        fields.pop(name, None)
    fields["model"] = Raw(encode(target.model))
    fields["max_tokens"] = Raw(b"%d" % max_tokens)
    fields["stream"] = _TRUE if stream else _FALSE
    history = cleaned(fields["messages"])
    fields["messages"] = history.messages
    _put_system(fields, history.system, request)
    _put_format(fields, keep=target.abilities.json_format)
    lost = history.lost_thinking and calls_lack_thinking(request)
    adjust_thinking(fields, request, target.reasoning, max_tokens, lost=lost)
    return fields


def _put_system(fields: dict[str, Raw], moved: list[Raw], request: ChatRequest) -> None:
    """The client's system prompt, then the leading system turns (blocks), then the instruction for JSON."""
    wanted = request.output_format
    added = list(moved)
    if wanted is not None:
        added.append(Raw(encode({"type": "text", "text": json_instruction(wanted)})))
    if not added:
        return
    own = fields.get("system", Raw(b'""'))
    if bytes(own)[:1] == b"[":
        fields["system"] = Raw(encode(_decode_list(own) + added))
        return
    text = _decode_text(own) if bytes(own)[:1] == b'"' else ""
    if moved:
        before = [Raw(encode({"type": "text", "text": text}))] if text else []
        fields["system"] = Raw(encode(before + added))
    elif wanted is not None:
        instruction = json_instruction(wanted)
        fields["system"] = Raw(encode(f"{text}{SEPARATOR}{instruction}" if text else instruction))


def _put_format(fields: dict[str, Raw], *, keep: bool) -> None:
    """The format of the answer under its newer name, for a provider that knows it; else under none."""
    older = fields.pop("output_format", None)
    try:
        config = _decode_members(fields.get("output_config", Raw(b"{}")))
    except DecodeError:
        return
    newer = config.pop("format", None)
    wanted = older if newer is None or bytes(newer) == b"null" else newer
    if keep and wanted is not None and bytes(wanted) != b"null":
        config["format"] = wanted
    fields["output_config"] = Raw(encode(config))
