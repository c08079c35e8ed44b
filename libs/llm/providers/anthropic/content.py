"""Writes the blocks of a message in Anthropic's words: text, pictures, documents, calls, results, earlier reasoning.

Called by the writer of turns beside it, for requests of other dialects.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from libs.llm.canonical import (
    RAW_ARGUMENTS,
    DocumentPart,
    ImagePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultPart,
)
from libs.llm.providers.anthropic.thinking import usable

Block: TypeAlias = dict[str, Any]

_decode_members = Decoder(dict[str, Raw]).decode


def text_block(text: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": text}


def user_blocks(parts: Sequence[Part]) -> list[Block]:
    """What a user said. Text of nothing but blanks is left out, since Anthropic refuses it."""
    blocks: list[Block] = []
    for part in parts:
        match part:
            case TextPart(text=text) if text.strip():
                blocks.append(text_block(text))
            case ImagePart():
                blocks.append(_picture(part))
            case DocumentPart() if (document := _document(part)) is not None:
                blocks.append(document)
    return blocks


def assistant_blocks(parts: Sequence[Part]) -> list[Block]:
    """What the model said, its calls aside; reasoning only with a proof this provider may know."""
    blocks: list[Block] = []
    for part in parts:
        match part:
            case TextPart(text=text) if text.strip():
                blocks.append(text_block(text))
            case ReasoningPart(redacted=True) if usable(part):
                blocks.append({"type": "redacted_thinking", "data": part.signature})
            case ReasoningPart() if usable(part):
                blocks.append({"type": "thinking", "thinking": part.text, "signature": part.signature})
    return blocks


def call_block(call: ToolCall, id: str) -> Block:
    """A call of the model, under the id that this provider gets."""
    return {"type": "tool_use", "id": id, "name": call.name, "input": _input(call.arguments)}


def result_block(id: str, result: ToolResultPart) -> Block:
    """What the call with that id here gave back; an empty result stays one."""
    blocks = user_blocks(result.parts)
    only_text = [block["text"] for block in blocks if block["type"] == "text"]
    content: Any = blocks
    if len(only_text) == len(blocks) <= 1:
        content = "".join(only_text)
    block: Block = {"type": "tool_result", "tool_use_id": id, "content": content}
    if result.failed:
        block["is_error"] = True
    return block


def _input(arguments: str) -> Any:
    """Arguments as the object they must be; other text the model wrote is kept inside one."""
    try:
        _decode_members(arguments)
    except (DecodeError, RecursionError):
        return {RAW_ARGUMENTS: arguments} if arguments.strip() else {}
    return Raw(arguments.encode())


def _picture(part: ImagePart) -> Block:
    if part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _document(part: DocumentPart) -> Block | None:
    """A document, None for one of a type that Anthropic does not read."""
    if part.url:
        source = {"type": "url", "url": part.url}
    elif part.media_type == "application/pdf":
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    elif part.media_type.startswith("text/"):
        try:
            text = b64decode(part.data).decode("utf-8", "replace")
        except (Base64Error, ValueError):
            return None
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        return None
    return {"type": "document", "source": source} | ({"title": part.name} if part.name else {})
