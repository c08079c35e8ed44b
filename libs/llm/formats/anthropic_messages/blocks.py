"""Reads the content blocks of a turn into the hub's parts and counts what they hold.

Called for each turn of a conversation; unknown blocks are ignored, malformed known ones refused (contract: Messages).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct

from libs.llm.canonical import (
    DocumentPart,
    ImagePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResultPart,
)
from libs.llm.data_url import is_web_address
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages.wire import Block, Source, decode_content, decode_source, is_object
from libs.llm.formats.body import NULL

PASSED_IN_RESULTS = frozenset({"document", "search_result", "tool_reference"})
"""Blocks of a tool result that only a provider of this format reads; they go there as they were sent."""


_OWN = frozenset({"server_tool_use", "mcp_tool_use", "container_upload", "search_result"})


class Malformed(Exception):
    """A block of a known type that breaks a rule; ``member`` is the path inside of it."""

    def __init__(self, member: str, problem: str) -> None:
        super().__init__(member, problem)
        self.member = member
        self.problem = problem


class Tally(Struct):
    """What a conversation holds, in characters and pictures; ``ignored`` counts blocks that no model gets."""

    characters: int = 0
    images: int = 0
    remote_images: int = 0
    documents: int = 0
    ignored: int = 0


def read_block(block: Block, role: Role, tally: Tally) -> Part | None:
    """The part a block stands for, None for one that is ignored; raises ``Malformed``."""
    reader = READERS[role].get(block.type)
    if reader is not None:
        part = reader(block, tally)
        if part is None:
            tally.ignored += 1
        return part
    if block.type in _KNOWN and role is not Role.SYSTEM:
        raise Malformed("type", f"cannot be {block.type} in a turn of the {role.value}")
    if role is not Role.SYSTEM and is_own(block):
        tally.characters += sum(len(memoryview(raw)) for raw in (block.input, block.content) if raw != NULL)
        return None
    tally.ignored += 1
    return None


def is_own(block: Block) -> bool:
    """Whether it is of the kinds that providers' own tools make: only a provider of this format gets it, as sent."""
    return block.type in _OWN or (block.type.endswith("_tool_result") and block.type not in _KNOWN)


def source_of(block: Block) -> Source:
    """The source of an image or document."""
    try:
        return decode_source(block.source)
    except (DecodeError, RecursionError):
        raise Malformed("source", "must be an object with a `type`") from None


def result_content(block: Block) -> list[Block]:
    """The blocks of a tool result; a string is one block of text."""
    if block.content == NULL:
        return []
    try:
        content = decode_content(block.content)
    except (DecodeError, RecursionError):
        raise Malformed("content", "must be a string or an array of blocks with a `type` each") from None
    return [Block("text", text=content)] if isinstance(content, str) else content


def _text(block: Block, tally: Tally) -> TextPart:
    text = _string(block.text, "text")
    tally.characters += len(text)
    return TextPart(text)


def _image(block: Block, tally: Tally) -> ImagePart | None:
    source = source_of(block)
    match source.type:
        case "base64":
            part = ImagePart(media_type=_filled(source.media_type, "source.media_type"), data=_data(source))
        case "url":
            part = ImagePart(url=_web_address(source.url))
            tally.remote_images += 1
        case _:
            return None
    tally.images += 1
    return part


def _web_address(url: object) -> str:
    address = _filled(url, "source.url")
    if not is_web_address(address):
        raise BadRequest("`source.url` must be a web address", "source.url")
    return address


def _document(block: Block, tally: Tally) -> DocumentPart | TextPart | None:
    source = source_of(block)
    title = block.title if isinstance(block.title, str) else None
    match source.type:
        case "text":
            text = _string(source.data, "source.data")
            tally.characters += len(text)
            return TextPart(text)
        case "base64":
            media_type = _filled(source.media_type, "source.media_type")
            part = DocumentPart(media_type=media_type, data=_data(source), name=title)
        case "url":
            part = DocumentPart(url=_web_address(source.url), name=title)
        case _:
            return None
    tally.documents += 1
    return part


def _tool_use(block: Block, tally: Tally) -> ToolCall:
    if not is_object(block.input):
        raise Malformed("input", "must be an object")
    call = ToolCall(_filled(block.id, "id"), _filled(block.name, "name"), bytes(block.input).decode())
    tally.characters += len(call.name) + len(call.arguments)
    return call


def _tool_result(block: Block, tally: Tally) -> ToolResultPart:
    call_id = _filled(block.tool_use_id, "tool_use_id")
    if block.is_error is not None and not isinstance(block.is_error, bool):
        raise Malformed("is_error", "must be true or false")
    parts: list[TextPart | ImagePart] = []
    for place, inner in enumerate(result_content(block)):
        reader = _RESULT.get(inner.type)
        try:
            part = reader(inner, tally) if reader is not None else None
        except Malformed as problem:
            raise Malformed(f"content[{place}].{problem.member}", problem.problem) from None
        if isinstance(part, TextPart | ImagePart):
            parts.append(part)
        elif inner.type not in PASSED_IN_RESULTS:
            tally.ignored += 1
    return ToolResultPart(call_id, parts, failed=block.is_error is True)


def _thinking(block: Block, tally: Tally) -> ReasoningPart:
    text = _string(block.thinking, "thinking")
    signature = "" if block.signature is None else _string(block.signature, "signature")
    tally.characters += len(text)
    return ReasoningPart(text, signature)


def _redacted_thinking(block: Block, tally: Tally) -> ReasoningPart:
    return ReasoningPart("", _filled(block.data, "data"), redacted=True)


def _data(source: Source) -> str:
    return _filled(source.data, "source.data")


def _string(value: Any, member: str) -> str:
    if not isinstance(value, str):
        raise Malformed(member, "must be a string")
    return value


def _filled(value: Any, member: str) -> str:
    if not isinstance(value, str) or not value:
        raise Malformed(member, "must be a non-empty string")
    return value


_Reader: TypeAlias = Callable[[Block, Tally], Part | None]

_RESULT: Mapping[str, _Reader] = {"text": _text, "image": _image}

READERS: Mapping[Role, Mapping[str, _Reader]] = {
    Role.SYSTEM: {"text": _text},
    Role.USER: {"text": _text, "image": _image, "document": _document, "tool_result": _tool_result},
    Role.ASSISTANT: {
        "text": _text,
        "tool_use": _tool_use,
        "thinking": _thinking,
        "redacted_thinking": _redacted_thinking,
    },
}
"""Which blocks a turn may hold, by its role, and who reads them."""

_KNOWN = frozenset(name for readers in READERS.values() for name in readers)
