"""Writes a conversation as Gemini's contents.

Called by the body's writer beside it; pure.
"""

from typing import Any, TypeAlias

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

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

Content: TypeAlias = dict[str, Any]

_UNSIGNED = "skip_thought_signature_validator"
"""What the service takes in place of a proof for calls that another model made or whose proof a client lost."""

_OPENING = "(The conversation goes on from here.)"

_decode_object = Decoder(dict[str, Raw]).decode


def contents(messages: list[Message], upstream: str, *, proofs: bool) -> list[Content]:
    """The turns in order. ``proofs``: the model wants a proof on the first call of each of its turns."""
    writer = _Writer(upstream, proofs=proofs)
    for message in paired(messages):
        if message.role is Role.ASSISTANT:
            writer.said(message)
        elif message.role is Role.TOOL:
            writer.result(message)
        else:
            writer.told(message)
    if writer.contents and writer.contents[0]["role"] == "model":
        # A call may only follow something that was said to the model.
        writer.contents.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
    return writer.contents


def seal_call(upstream: str, signature: str) -> str:
    """The signature under which the proof of a function call travels to the client and back."""
    return seal(upstream, c=signature)


class _Writer:
    """Neighbouring turns of the model are one content, and so are the results of one turn's calls."""

    def __init__(self, upstream: str, *, proofs: bool) -> None:
        self.contents: list[Content] = []
        self._upstream = upstream
        self._proofs = proofs
        self._names: dict[str, str] = {}
        self._proof = ""
        self._model: list[Content] | None = None
        self._results: list[Content] | None = None

    def said(self, message: Message) -> None:
        if self._model is None:
            self._model, self._results, self._proof = [], None, ""
        parts = self._model
        began = bool(parts)
        for part in message.parts:
            if isinstance(part, ReasoningPart):
                self._proof = (unseal(part.signature, self._upstream) or {}).get("c", "")
            elif isinstance(part, TextPart) and part.text:
                parts.append({"text": part.text})
            elif isinstance(part, ToolCall):
                parts.append(self._call(part, first=not any("functionCall" in each for each in parts)))
        if parts and not began:
            self.contents.append({"role": "model", "parts": parts})

    def result(self, message: Message) -> None:
        self._model = None
        for part in message.parts:
            if not isinstance(part, ToolResultPart):
                continue
            if self._results is None:
                self._results = []
                self.contents.append({"role": "user", "parts": self._results})
            answer = {"error" if part.failed else "output": part.text()}
            name = self._names.get(part.call_id, part.call_id)
            self._results.append({"functionResponse": {"id": part.call_id, "name": name, "response": answer}})
            # Not every model takes pictures inside a result; all take them beside it.
            pictures = [_input(piece) for piece in part.parts if isinstance(piece, ImagePart)]
            if pictures:
                self.contents.append({"role": "user", "parts": [{"text": f"Given back by {name}:"}, *pictures]})

    def told(self, message: Message) -> None:
        self._model = None
        parts = [piece for part in message.parts if (piece := _input(part)) is not None]
        if parts:
            self.contents.append({"role": "user", "parts": parts})

    def _call(self, call: ToolCall, *, first: bool) -> Content:
        self._names[call.id] = call.name
        part: Content = {"functionCall": {"id": call.id, "name": call.name, "args": _args(call.arguments)}}
        proof, self._proof = self._proof, ""
        if proof or (first and self._proofs):
            part["thoughtSignature"] = proof or _UNSIGNED
        return part


def _args(arguments: str) -> Raw | dict[str, str]:
    """Arguments must be an object; a model's text that is none is told as it was."""
    try:
        _decode_object(arguments)
    except (DecodeError, RecursionError):
        return {"arguments": arguments} if arguments.strip() else {}
    return Raw(arguments.encode())


def _input(part: Part) -> Content | None:
    match part:
        case TextPart(text=text):
            return {"text": text} if text else None
        case ImagePart() | DocumentPart():
            kind = {"mimeType": part.media_type} if part.media_type else {}
            if part.url:
                return {"fileData": {**kind, "fileUri": part.url}}
            return {"inlineData": {**kind, "data": part.data}}
        case _:
            return None
