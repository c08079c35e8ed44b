"""The turns of a conversation and what they hold, in no vendor's words.

Used by the request and the answer beside it, and through the package by all formats.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Raw, Struct

SEALED = "kn1."
"""Begins the signatures that only the provider adapter which made them can read; none is sent on as it stands."""


class Role(StrEnum):
    """Who speaks. ``SYSTEM`` covers ``developer`` too: models are told instructions under either name."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(Struct, frozen=True, gc=False):
    """A piece of text, in the order of the message's parts.

    ``citations``: the sources an answer names for it, in the provider's words (JSON).
    """

    text: str
    citations: Raw | None = None


class ImagePart(Struct, frozen=True, gc=False, kw_only=True):
    """A picture: either inline (``media_type`` and base64 ``data``) or at ``url``, which only a provider may fetch."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    detail: str | None = None


class DocumentPart(Struct, frozen=True, gc=False, kw_only=True):
    """A document as the client attached it: inline (``media_type`` and base64 ``data``) or at ``url``."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    name: str | None = None


class ReasoningPart(Struct, frozen=True, gc=False):
    """Earlier reasoning of the model, handed back.

    ``signature`` is the provider's proof of it, opaque and possibly empty. With ``redacted`` the text is empty
    and ``signature`` holds the provider's sealed form.
    """

    text: str
    signature: str = ""
    redacted: bool = False


RAW_ARGUMENTS = "raw_arguments"
"""Where arguments that are no JSON object stand in formats that demand one."""


class ToolCall(Struct, frozen=True, gc=False):
    """A function the model called or wants called; ``arguments`` is a JSON text, as the model wrote it.

    A ``custom`` tool (of OpenAI's formats) takes any text in its place.
    """

    id: str
    name: str
    arguments: str
    custom: bool = False


class ToolResultPart(Struct, frozen=True, gc=False):
    """What a called function gave back: text and pictures. ``failed`` marks an error the client reports."""

    call_id: str
    parts: "list[TextPart | ImagePart]"
    failed: bool = False

    def text(self) -> str:
        """All text of the result, pieces on lines of their own."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))


Part: TypeAlias = TextPart | ImagePart | DocumentPart | ReasoningPart | ToolCall | ToolResultPart
"""What a message can hold. User: text, images, documents; assistant: reasoning, text, calls; tool: one result."""


class Message(Struct, frozen=True):
    """One turn of the conversation.

    A ``TOOL`` message holds exactly one ``ToolResultPart``; what a user says beside results is a message of its
    own after them, whatever the client's format.
    """

    role: Role
    parts: list[Part]

    def text(self) -> str:
        """All text of the turn."""
        return "".join(part.text for part in self.parts if type(part) is TextPart)
