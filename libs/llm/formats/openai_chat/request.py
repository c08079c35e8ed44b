"""Reads a Chat completions body into the hub's request, or says what is wrong with it.

Called once per request by the edge; anything a client can send ends in a ``ChatRequest`` or a ``BadRequest``.
"""

from typing import Any, NoReturn

from msgspec import Raw, Struct
from msgspec.json import encode

from libs.llm.canonical import ChatRequest, Message, Part, Role, TextPart
from libs.llm.failures import BadRequest
from libs.llm.formats.body import LARGEST_LIMIT, MOST_MESSAGES, NULL, BodyDecoder, decode_list, decode_members
from libs.llm.tokens import input_tokens

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_TOOL_CHOICES = frozenset({"auto", "none", "required"})
_CACHE_KEY_BYTES = 512
_KNOWN_PARTS = frozenset({"text", "refusal", "image_url", "file"})

_OURS_ALONE = ("provider", "models", "route", "plugins")
"""Read by us, or meant for an account's own key; never sent on with our credentials."""


class _Part(Struct, gc=False):
    type: str
    # Untyped, since in a part of a type nobody knows these names may mean anything.
    text: Any = None
    refusal: Any = None
    image_url: Any = None
    file: Any = None


class _Message(Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: Raw = NULL
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Body(Struct, gc=False):
    # Required, but with a default: the message for a missing one is then ours.
    model: str | None = None
    messages: list[_Message] | None = None
    stream: bool | None = None
    stream_options: dict[str, Raw] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    user: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Any = None
    reasoning_effort: str | None = None
    prompt_cache_key: Any = None


_BODY = BodyDecoder(_Body)


def parse(body: bytes) -> ChatRequest:
    """Validate ``body`` against the request table of the Chat completions page; raise ``BadRequest``."""
    wire, fields = _BODY.read(body)
    if not wire.model:
        _refuse("`model` is required and must be a non-empty string", "model")
    if not wire.messages:
        _refuse("`messages` is required and must hold at least one message", "messages")
    if len(wire.messages) > MOST_MESSAGES:
        _refuse(f"too many messages: a request may hold {MOST_MESSAGES:,}", "messages")
    if wire.n is not None and wire.n != 1:
        _refuse("`n` must be 1: one answer per request is supported", "n")
    messages, characters, images, unknown_parts = _read_messages(wire.messages)
    if wire.tools:
        characters += sum(len(bytes(tool)) for tool in wire.tools)
    if unknown_parts:
        fields["messages"] = Raw(_without_unknown_parts(fields["messages"], wire.messages))
    _settle_fields(wire, fields)
    return ChatRequest(
        dialect="openai_chat",
        model=wire.model,
        messages=messages,
        input_tokens=input_tokens(characters, images),
        fields=fields,
        max_tokens=_output_limit(wire),
        temperature=wire.temperature,
        top_p=wire.top_p,
        stop=_stop(wire.stop),
        stream=wire.stream is True,
        user=wire.user,
    )


def _read_messages(wire: list[_Message]) -> tuple[list[Message], int, int, bool]:
    """The turns, their characters and images, and whether a part of unknown type is among them."""
    messages: list[Message] = []
    parts: list[Part]
    characters = images = 0
    unknown = False
    for index, turn in enumerate(wire):
        role = _ROLES.get(turn.role)
        if role is None:
            _refuse(
                f"`messages[{index}].role` must be system, developer, user, assistant or tool",
                f"messages[{index}].role",
            )
        content = turn.content
        if isinstance(content, str):
            characters += len(content)
            parts = [TextPart(content)]
        elif content is None:
            if role is Role.USER:
                _refuse(
                    f"`messages[{index}].content` must be a string or an array of parts",
                    f"messages[{index}].content",
                )
            parts = []
        else:
            parts = []
            for place, part in enumerate(content):
                kind = part.type
                if kind == "text" or kind == "refusal":
                    text = _text_of(part, f"messages[{index}].content[{place}]")
                    characters += len(text)
                    parts.append(TextPart(text))
                elif kind == "image_url" or kind == "file":
                    _check_media(part, f"messages[{index}].content[{place}]")
                    images += 1
                else:
                    unknown = True
        if role is Role.ASSISTANT:
            characters += _earlier_work(turn)
        messages.append(Message(role, parts))
    return messages, characters, images, unknown


def _text_of(part: _Part, path: str) -> str:
    text = part.text if part.type == "text" else part.refusal
    if not isinstance(text, str):
        _refuse(f"`{path}.{part.type}` must be a string", f"{path}.{part.type}")
    return text


def _check_media(part: _Part, path: str) -> None:
    """An image has an address, a file is an object; what they hold is for whoever reads them."""
    if part.type == "file":
        if not isinstance(part.file, dict):
            _refuse(f"`{path}.file` must be an object", f"{path}.file")
    elif not (isinstance(part.image_url, dict) and isinstance(part.image_url.get("url"), str)):
        _refuse(f"`{path}.image_url.url` must be a string", f"{path}.image_url.url")


def _earlier_work(turn: _Message) -> int:
    """Characters of an assistant turn besides its content: calls it made and reasoning handed back."""
    calls = 0 if turn.tool_calls == NULL else len(bytes(turn.tool_calls))
    return calls + len(turn.reasoning_content or turn.reasoning or "")


def _without_unknown_parts(messages: Raw, read: list[_Message]) -> bytes:
    """The messages anew without the parts that are ignored, which a provider would refuse; the rest as it was sent."""
    turns = decode_list(messages)
    for place, turn in enumerate(read):
        parts = turn.content
        if isinstance(parts, list) and any(part.type not in _KNOWN_PARTS for part in parts):
            members = decode_members(turns[place])
            sent = zip(decode_list(members["content"]), parts, strict=True)
            kept = [raw for raw, part in sent if part.type in _KNOWN_PARTS]
            members["content"] = Raw(encode(kept or ""))
            turns[place] = Raw(encode(members))
    return encode(turns)


def _settle_fields(wire: _Body, fields: dict[str, Raw]) -> None:
    """Take out of the raw members what is not for a provider, and put right what it may not see as sent."""
    for name in _OURS_ALONE:
        fields.pop(name, None)
    if wire.reasoning_effort is not None and wire.reasoning_effort not in _EFFORTS:
        _refuse("`reasoning_effort` must be one of none, minimal, low, medium, high, xhigh, max", "reasoning_effort")
    if wire.tool_choice is not None and not _is_known_choice(wire.tool_choice):
        del fields["tool_choice"]
    if wire.prompt_cache_key is not None:
        key = wire.prompt_cache_key.strip() if isinstance(wire.prompt_cache_key, str) else ""
        if key and len(key.encode()) <= _CACHE_KEY_BYTES:
            fields["prompt_cache_key"] = Raw(encode(key))
        else:
            del fields["prompt_cache_key"]


def _is_known_choice(choice: Any) -> bool:
    """Whether a tool choice is one of the four; others act as ``auto``, but a function needs its name."""
    if not isinstance(choice, dict):
        return isinstance(choice, str) and choice in _TOOL_CHOICES
    if choice.get("type") != "function":
        return False
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not (isinstance(name, str) and name):
        _refuse("`tool_choice.function.name` must be a non-empty string", "tool_choice.function.name")
    return True


def _output_limit(wire: _Body) -> int | None:
    """``max_tokens``, else its alias; None when neither is sent."""
    name = "max_completion_tokens" if wire.max_tokens is None else "max_tokens"
    limit = wire.max_completion_tokens if wire.max_tokens is None else wire.max_tokens
    if limit is None:
        return None
    if limit < 1:
        _refuse(f"`{name}` must be at least 1", name)
    return min(limit, LARGEST_LIMIT)


def _stop(stop: str | list[str] | None) -> tuple[str, ...]:
    if stop is None:
        return ()
    return tuple(text for text in ([stop] if isinstance(stop, str) else stop) if text)


def _refuse(message: str, field: str) -> NoReturn:
    raise BadRequest(message, field)
