"""Reads the items of ``input`` (contract: Responses, Input items): messages, calls, their results, reasoning.

Called by the request parser, item by item; other kinds of item are left out.
"""

from typing import Any, NoReturn

from msgspec import Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import SEALED, ImagePart, Message, ReasoningPart, Role, TextPart, ToolCall, ToolResultPart
from libs.llm.data_url import is_web_address, read_data_url
from libs.llm.failures import BadRequest
from libs.llm.formats.body import decode_at
from libs.llm.formats.openai_responses.conversation import Conversation

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


class _Kind(Struct, gc=False):
    # Read alone first: in an item of a type nobody knows the other names may mean anything.
    type: str | None = None


class _Part(Struct, gc=False):
    type: str
    # Untyped, since in a part of a type nobody knows these names may mean anything.
    text: Any = None
    refusal: Any = None
    image_url: Any = None
    detail: Any = None


class _MessageItem(Struct, gc=False):
    id: Any = None
    role: str | None = None
    content: str | list[_Part] | None = None


class _CallItem(Struct, gc=False):
    call_id: str = ""
    name: str = ""
    arguments: str | None = None


class _ResultItem(Struct, gc=False):
    call_id: str = ""
    output: str | list[_Part] | None = None


class _ReasoningItem(Struct, gc=False):
    summary: list[_Part] | None = None
    content: list[_Part] | None = None
    encrypted_content: str | None = None


_decode_kind = Decoder(_Kind).decode
_decode_message = Decoder(_MessageItem).decode
_decode_call = Decoder(_CallItem).decode
_decode_result = Decoder(_ResultItem).decode
_decode_reasoning = Decoder(_ReasoningItem).decode


def read_item(raw: Raw, path: str, said: Conversation) -> None:
    """Add what the item says to the conversation; raise ``BadRequest`` when it is malformed."""
    match decode_at(path, _decode_kind, raw).type:
        case None | "message":
            _read_message(decode_at(path, _decode_message, raw), path, said)
        case "function_call":
            _read_call(decode_at(path, _decode_call, raw), path, said)
        case "function_call_output":
            _read_result(decode_at(path, _decode_result, raw), path, said)
        case "reasoning":
            _read_reasoning(decode_at(path, _decode_reasoning, raw), path, said)


def _read_message(item: _MessageItem, path: str, said: Conversation) -> None:
    if item.role is None and item.content is None and item.id is not None:
        return  # a reference to a stored item may leave out its type
    role = _ROLES.get(item.role or "")
    if role is None:
        _refuse("must be system, developer, user or assistant", f"{path}.role")
    if item.content is None:
        _refuse("must be a string or an array of parts", f"{path}.content")
    parts = _read_parts(item.content, f"{path}.content", said, pictures=role is not Role.SYSTEM)
    if role is Role.ASSISTANT:
        said.act(Message(role, [part for part in parts if not (isinstance(part, TextPart) and part.text == "")]))
    else:
        said.say(Message(role, [*parts]))


def _read_call(item: _CallItem, path: str, said: Conversation) -> None:
    if not item.call_id:
        _refuse("must be a non-empty string", f"{path}.call_id")
    if not item.name:
        _refuse("must be a non-empty string", f"{path}.name")
    if item.arguments is None:
        _refuse("must be a string that holds JSON", f"{path}.arguments")
    said.characters += len(item.name) + len(item.arguments)
    said.act(Message(Role.ASSISTANT, [ToolCall(item.call_id, item.name, item.arguments)]))


def _read_result(item: _ResultItem, path: str, said: Conversation) -> None:
    if not item.call_id:
        _refuse("must be a non-empty string", f"{path}.call_id")
    if item.output is None:
        _refuse("must be a string or an array of parts", f"{path}.output")
    parts = _read_parts(item.output, f"{path}.output", said, pictures=True)
    said.say(Message(Role.TOOL, [ToolResultPart(item.call_id, parts)]))


def _read_reasoning(item: _ReasoningItem, path: str, said: Conversation) -> None:
    """Earlier reasoning: its summary, or where a client kept only the full text, that."""
    text = _joined(item.summary, f"{path}.summary") or _joined(item.content, f"{path}.content")
    sealed = item.encrypted_content or ""
    signature = sealed if sealed.startswith(SEALED) else ""
    said.characters += len(text)
    if text or signature:
        said.act(Message(Role.ASSISTANT, [ReasoningPart(text, signature)]))


def _joined(parts: list[_Part] | None, path: str) -> str:
    return "\n\n".join(
        _text(part.text, f"{path}[{place}].text") for place, part in enumerate(parts or []) if part.type in _TEXTS
    )


def _read_parts(
    content: str | list[_Part], path: str, said: Conversation, *, pictures: bool
) -> list[TextPart | ImagePart]:
    """Texts and pictures in order, counted; parts of other types are left out."""
    if isinstance(content, str):
        said.characters += len(content)
        return [TextPart(content)]
    parts: list[TextPart | ImagePart] = []
    for place, part in enumerate(content):
        if part.type in _TEXTS or part.type == "refusal":
            name = "refusal" if part.type == "refusal" else "text"
            text = _text(part.refusal if name == "refusal" else part.text, f"{path}[{place}].{name}")
            said.characters += len(text)
            parts.append(TextPart(text))
        elif part.type == "input_image":
            if not pictures:
                _refuse("pictures belong in user and assistant messages", f"{path}[{place}]")
            parts.append(_picture(part, f"{path}[{place}]", said))
        elif part.type == "input_file":
            _refuse("files are not read here; use Chat completions with a `file` part", f"{path}[{place}]")
    return parts


def _text(sent: Any, path: str) -> str:
    if not isinstance(sent, str):
        _refuse("must be a string", path)
    return sent


def _picture(part: _Part, path: str, said: Conversation) -> ImagePart:
    url = part.image_url
    if not (isinstance(url, str) and url):
        _refuse("must be a string: a data URL or a web address", f"{path}.image_url")
    detail = part.detail if isinstance(part.detail, str) else None
    said.images += 1
    inline = read_data_url(url)
    if inline is not None:
        return ImagePart(media_type=inline[0], data=inline[1], detail=detail)
    if url[:5].lower() == "data:":
        _refuse("is a data URL without base64 data", f"{path}.image_url")
    if not is_web_address(url):
        _refuse("must be a data URL or a web address", f"{path}.image_url")
    said.remote_images += 1
    return ImagePart(url=url, detail=detail)


def _refuse(problem: str, path: str) -> NoReturn:
    raise BadRequest(f"`{path}` {problem}", path)
