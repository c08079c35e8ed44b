"""Reads the messages of a Chat completions body into turns of the hub, and counts what they hold.

Called by ``request``; the raw messages for providers of the same format are put right by ``rewrite``.
"""

from typing import Any, NoReturn

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode

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
from libs.llm.data_url import is_web_address, read_data_url
from libs.llm.failures import BadRequest
from libs.llm.formats.body import NULL
from libs.llm.formats.openai_chat import wire
from libs.llm.system_prompt import SEPARATOR

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}


class _Function(Struct, gc=False):
    name: str
    arguments: Any = None


class _Call(Struct, gc=False):
    id: str | None = None
    function: _Function | None = None


_decode_calls = Decoder(list[_Call] | None).decode


class Conversation:
    """The turns read so far.

    ``leading`` counts the system turns at the beginning, whose text is ``system``. ``unfit`` tells that a part was
    among the content which a provider cannot take as it was sent. ``documents`` counts file parts.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.leading = 0
        self.characters = 0
        self.images = 0
        self.remote_images = 0
        self.documents = 0
        self.unfit = False
        self._system: list[str] = []

    @property
    def system(self) -> str:
        """The leading system turns as one text, empty ones left out."""
        return SEPARATOR.join(self._system)

    def add(self, turn: wire.Turn, place: int) -> None:
        """Read the turn at ``place``; raises ``BadRequest`` naming the member at fault."""
        role = _ROLES.get(turn.role)
        if role is None:
            _refuse("must be system, developer, user, assistant or tool", f"messages[{place}].role")
        content = turn.content
        if isinstance(content, str):
            self.characters += len(content)
            parts: list[Part] = [TextPart(content)]
        elif content is not None:
            parts = self._parts(content, f"messages[{place}].content")
        elif role is Role.USER:
            _refuse("must be a string or an array of parts", f"messages[{place}].content")
        else:
            parts = []
        if role is not Role.USER:
            self._add_other(turn, role, parts, place)
        else:
            self.messages.append(Message(role, parts))

    def _add_other(self, turn: wire.Turn, role: Role, parts: list[Part], place: int) -> None:
        match role:
            case Role.SYSTEM if not self.messages:
                self.leading += 1
                text = "".join(part.text for part in parts if type(part) is TextPart)
                if text:
                    self._system.append(text)
                return
            case Role.ASSISTANT:
                parts = [*self._reasoning(turn), *parts, *self._calls(turn.tool_calls, f"messages[{place}].tool_calls")]
            case Role.TOOL:
                shown = [part for part in parts if isinstance(part, TextPart | ImagePart)]
                parts = [ToolResultPart(turn.tool_call_id or "", shown)]
        self.messages.append(Message(role, parts))

    def _parts(self, content: list[wire.Part], path: str) -> list[Part]:
        parts: list[Part] = []
        for place, part in enumerate(content):
            match part.type:
                case "text" | "refusal":
                    parts.append(self._text(part, f"{path}[{place}]"))
                case "image_url":
                    parts.append(self._image(part.image_url, f"{path}[{place}].image_url"))
                case "file":
                    parts += self._file(part.file, f"{path}[{place}].file")
                case _:
                    self.unfit = True
        return parts

    def _text(self, part: wire.Part, path: str) -> TextPart:
        text = part.text if part.type == "text" else part.refusal
        if not isinstance(text, str):
            _refuse("must be a string", f"{path}.{part.type}")
        self.characters += len(text)
        return TextPart(text)

    def _image(self, image: Any, path: str) -> ImagePart:
        url = image.get("url") if isinstance(image, dict) else None
        if not isinstance(url, str):
            _refuse("must be a string", f"{path}.url")
        detail = image.get("detail")
        detail = detail if isinstance(detail, str) else None
        self.images += 1
        if is_web_address(url):
            self.remote_images += 1
            return ImagePart(url=url, detail=detail)
        inline = read_data_url(url)
        if inline is None:
            _refuse("must be an https address or a data URL in base64", f"{path}.url")
        return ImagePart(media_type=inline[0], data=inline[1], detail=detail)

    def _file(self, file: Any, path: str) -> list[Part]:
        """The document, or nothing for a file that lies at some provider; a picture is one in any wrapping."""
        if not isinstance(file, dict):
            _refuse("must be an object", path)
        data, name = file.get("file_data"), file.get("filename")
        if data is None:
            self.documents += 1
            return []
        inline = read_data_url(data) if isinstance(data, str) else None
        if inline is None:
            _refuse("must be a data URL in base64", f"{path}.file_data")
        if inline[0].startswith("image/"):
            self.images += 1
            self.unfit = True
            return [ImagePart(media_type=inline[0], data=inline[1])]
        self.documents += 1
        return [DocumentPart(media_type=inline[0], data=inline[1], name=name if isinstance(name, str) else None)]

    def _reasoning(self, turn: wire.Turn) -> list[Part]:
        text = turn.reasoning_content or turn.reasoning
        if not text:
            return []
        self.characters += len(text)
        return [ReasoningPart(text)]

    def _calls(self, raw: Raw, path: str) -> list[Part]:
        """Earlier calls of functions; calls of other kinds are known to their provider alone."""
        if raw == NULL:
            return []
        try:
            calls = _decode_calls(raw) or []
        except (DecodeError, RecursionError):
            _refuse("must be an array of function calls with names", path)
        self.characters += len(bytes(raw))
        return [
            ToolCall(call.id or "", call.function.name, _arguments(call.function.arguments))
            for call in calls
            if call.function is not None
        ]


def _arguments(arguments: Any) -> str:
    """The JSON text; some clients send the object itself."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return encode({} if arguments is None else arguments).decode()


def _refuse(problem: str, field: str) -> NoReturn:
    raise BadRequest(f"`{field}` {problem}", field)
