"""Hands a Messages client's own body to an Anthropic-format provider, with only our members put in place.

Called by the request writer beside it (contract: Messages, Request; Prompt caching: marks stay untouched).
"""

from msgspec import Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import ChatRequest
from libs.llm.providers.anthropic.history import cleaned
from libs.llm.providers.anthropic.thinking import adjust_thinking, calls_lack_thinking, members_of, put_config
from libs.llm.providers.base import Target
from libs.llm.system_prompt import SEPARATOR, json_instruction

_TRUE, _FALSE = Raw(b"true"), Raw(b"false")
_NOTHING = Raw(b'"."')
_NULL = Raw(b"null")

_decode_list = Decoder(list[Raw]).decode
_decode_text = Decoder(str).decode


def passed_on(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> dict[str, Raw]:
    """The members of the body."""
    fields = dict(request.fields)
    fields["model"] = Raw(encode(target.model))
    fields["max_tokens"] = Raw(b"%d" % max_tokens)
    fields["stream"] = _TRUE if stream else _FALSE
    history = cleaned(fields["messages"])
    fields["messages"] = history.messages
    _put_system(fields, history.system, request)
    if bytes(history.messages) == b"[]":
        # A turn is wanted to answer: the only text there is has to be it.
        fields["messages"] = Raw(encode([{"role": "user", "content": fields.pop("system", _NOTHING)}]))
    _put_format(fields, request, native=target.abilities.json_format)
    lost = history.lost_thinking and calls_lack_thinking(request)
    adaptive = target.abilities.adaptive_thinking
    adjust_thinking(fields, request, target.reasoning, max_tokens, lost=lost, adaptive=adaptive)
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


def _put_format(fields: dict[str, Raw], request: ChatRequest, *, native: bool) -> None:
    """The format of the answer under its newer name, for a provider that knows it; else under none.

    Only schemas have a place there: plain JSON and plain text are refused.
    """
    older = fields.pop("output_format", None)
    config = members_of(fields.get("output_config"))
    wanted = config.get("format", _NULL)
    if wanted == _NULL and older is not None:
        wanted = older
    if native and request.output_format is not None and request.output_format.schema is not None:
        config["format"] = wanted
    else:
        config.pop("format", None)
    put_config(fields, config)
