"""Writes a conversation as the input items of Responses.

Called by the body's writer beside it; pure.
"""

from typing import Any, TypeAlias

from libs.llm.canonical import (
    DocumentPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResultPart,
)
from libs.llm.providers.pairing import paired
from libs.llm.providers.sealed import seal, unseal

Item: TypeAlias = dict[str, Any]

_DETAILS = frozenset({"low", "high", "auto"})
_ROLES = {Role.USER: "user", Role.SYSTEM: "developer", Role.ASSISTANT: "assistant"}


def input_items(messages: list[Message], upstream: str) -> list[Item]:
    """The items in order. Of earlier reasoning only what ``upstream`` itself sealed goes along.

    A reasoning item is refused without the item it led to, so it waits for that one.
    """
    items: list[Item] = []
    reasoning: list[Item] = []
    for message in paired(messages):
        if message.role is Role.ASSISTANT:
            for part in message.parts:
                if isinstance(part, ReasoningPart):
                    reasoning += _reasoning(part, upstream)
                    continue
                said = _said(part)
                if said is not None:
                    items += [*reasoning, said]
                    reasoning.clear()
            continue
        reasoning.clear()
        items += _told(message)
    return items


def message_item(role: Role, content: list[Item]) -> Item:
    """A message of ``role``; later system turns are spoken by the developer."""
    return {"type": "message", "role": _ROLES[role], "content": content}


def seal_reasoning(upstream: str, item_id: str | None, encrypted: str) -> str:
    """The signature under which an encrypted reasoning item travels to the client and back."""
    return seal(upstream, i=item_id or "", e=encrypted)


def _told(message: Message) -> list[Item]:
    """What the model is told: results each as an item of its own, the rest as one message."""
    results = [_result(part) for part in message.parts if isinstance(part, ToolResultPart)]
    content = [piece for part in message.parts if (piece := _input(part)) is not None]
    return [*results, message_item(message.role, content)] if content else results


def _said(part: Part) -> Item | None:
    if isinstance(part, ToolCall):
        return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments}
    if isinstance(part, TextPart) and part.text:
        return message_item(Role.ASSISTANT, [{"type": "output_text", "text": part.text}])
    return None


def _reasoning(part: ReasoningPart, upstream: str) -> list[Item]:
    kept = unseal(part.signature, upstream)
    if kept is None or not kept.get("e"):
        return []
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item: Item = {"type": "reasoning", "summary": summary, "encrypted_content": kept["e"]}
    if kept.get("i"):
        item["id"] = kept["i"]
    return [item]


def _result(part: ToolResultPart) -> Item:
    """Text alone as a string, which every server knows; pictures need the list."""
    output: str | list[Item] = part.text()
    if any(isinstance(piece, ImagePart) for piece in part.parts):
        output = [piece for each in part.parts if (piece := _input(each)) is not None]
    return {"type": "function_call_output", "call_id": part.call_id, "output": output}


def _input(part: Part) -> Item | None:
    match part:
        case TextPart(text=text):
            return {"type": "input_text", "text": text} if text else None
        case ImagePart():
            url = part.url or f"data:{part.media_type};base64,{part.data}"
            detail = part.detail if part.detail in _DETAILS else "auto"
            return {"type": "input_image", "image_url": url, "detail": detail}
        case DocumentPart() if part.url:
            return {"type": "input_file", "file_url": part.url}
        case DocumentPart():
            name = part.name or ("document.pdf" if part.media_type == "application/pdf" else "document.txt")
            data = f"data:{part.media_type};base64,{part.data}"
            return {"type": "input_file", "filename": name, "file_data": data}
        case _:
            return None
