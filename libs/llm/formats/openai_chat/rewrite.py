"""Puts right the raw messages that a provider of the same format gets: only what it could not take as sent.

Called by ``request``; everything else in the messages stays byte for byte.
"""

from collections.abc import Sequence

from msgspec import Raw
from msgspec.json import encode

from libs.llm.formats.body import decode_list, decode_members
from libs.llm.formats.openai_chat import wire

_KNOWN_PARTS = frozenset({"text", "refusal", "image_url", "file"})


def with_fitting_parts(messages: Raw, read: Sequence[wire.Turn]) -> Raw:
    """The messages without parts of unknown type, which are ignored, and with pictures in file parts as pictures."""
    turns = decode_list(messages)
    for place, turn in enumerate(read):
        parts = turn.content
        if isinstance(parts, list) and not all(map(_fits, parts)):
            members = decode_members(turns[place])
            sent = zip(decode_list(members["content"]), parts, strict=True)
            kept = [raw if _fits(part) else _picture(part) for raw, part in sent if part.type in _KNOWN_PARTS]
            members["content"] = Raw(encode(kept or ""))
            turns[place] = Raw(encode(members))
    return Raw(encode(turns))


def with_one_system_message(messages: Raw, leading: int, system: str) -> Raw:
    """The messages with the ``leading`` first ones replaced by one system message."""
    merged = Raw(encode({"role": "system", "content": system}))
    return Raw(encode([merged, *decode_list(messages)[leading:]]))


def _fits(part: wire.Part) -> bool:
    if part.type != "file":
        return part.type in _KNOWN_PARTS
    data = part.file.get("file_data")
    return not (isinstance(data, str) and data[:11].lower() == "data:image/")


def _picture(part: wire.Part) -> Raw:
    return Raw(encode({"type": "image_url", "image_url": {"url": part.file["file_data"]}}))
