"""Writes the body an OpenAI-format provider gets.

Called by the adapter; pure.
"""

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import ChatRequest

_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens")
_INCLUDE_USAGE = Raw(b'{"include_usage":true}')
_TRUE, _FALSE = Raw(b"true"), Raw(b"false")

_decode_options = Decoder(dict[str, Raw]).decode


def provider_body(request: ChatRequest, model: str, limit_name: str, max_tokens: int, *, stream: bool) -> bytes:
    """The client's own members with ours in place: model, the output limit under one name, stream.

    A stream always asks for usage, whatever the client said: the bill needs it (rule STR-032).
    """
    fields = dict(request.fields)
    for name in _OUTPUT_LIMITS:
        fields.pop(name, None)
    options = fields.pop("stream_options", None)
    fields["model"] = Raw(encode(model))
    fields[limit_name] = Raw(b"%d" % max_tokens)
    fields["stream"] = _TRUE if stream else _FALSE
    if stream:
        fields["stream_options"] = _with_usage(options)
    return encode(fields)


def _with_usage(options: Raw | None) -> Raw:
    if options is None or bytes(options) == b"null":
        return _INCLUDE_USAGE
    try:
        merged = _decode_options(options)
    except DecodeError:
        return _INCLUDE_USAGE
    merged["include_usage"] = _TRUE
    return Raw(encode(merged))
