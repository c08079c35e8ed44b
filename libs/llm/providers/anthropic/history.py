"""Takes out of a Messages client's own turns what an Anthropic-format provider refuses, and leaves the rest as sent.

Called by the writer that passes a body on: other models' thinking, ids and system turns end up in clients' histories.
"""

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder, encode

from libs.llm.canonical import SEALED
from libs.llm.providers.anthropic.ids import accepted

_SAID_BY_USER = b'"user"'
_USER = Raw(_SAID_BY_USER)
_IDS = {"tool_use": "id", "tool_result": "tool_use_id"}


class _Block(Struct, gc=False):
    type: str | None = None


class _Proof(Struct, gc=False):
    signature: str | None = None
    data: str | None = None


class _Ids(Struct, gc=False):
    id: str = ""
    tool_use_id: str = ""


_decode_turns = Decoder(list[dict[str, Raw]]).decode
_decode_list = Decoder(list[Raw]).decode
_decode_block = Decoder(_Block).decode
_decode_proof = Decoder(_Proof).decode
_decode_ids = Decoder(_Ids).decode
_decode_members = Decoder(dict[str, Raw]).decode
_decode_text = Decoder(str).decode


class History(Struct, frozen=True):
    """The turns to send, the blocks of leading system turns, and whether thinking had to be left out."""

    messages: Raw
    system: list[Raw]
    lost_thinking: bool


def cleaned(messages: Raw) -> History:
    """Turns as they were sent, bytes and cache marks included, except for what has to change."""
    kept: list[dict[str, Raw]] = []
    system: list[Raw] = []
    changed = lost = told = False
    for sent in _decode_turns(messages):
        turn, role = sent, bytes(sent.get("role", b""))
        if role == b'"system"':
            changed = True
            blocks = _blocks_of(sent.get("content"))
            if kept:
                told |= _tell(kept, blocks)
            else:
                system += blocks
            continue
        if bytes(sent.get("content", b"")) == b'""':
            # Nothing was said, or nothing that is passed on: such a turn is refused.
            changed = True
            continue
        blocks = _list_of(sent.get("content"))
        better = [block for one in blocks if (block := _better(one)) is not None]
        if better != blocks:
            changed = True
            lost |= any(_is_foreign_thinking(one) for one in blocks)
            if not better:
                continue
            turn = turn | {"content": Raw(encode(better))}
        if told and role == _SAID_BY_USER:
            kept[-1] = _joined(kept[-1], _blocks_of(turn.get("content")))
        else:
            kept.append(turn)
        told = False
    return History(Raw(encode(kept)) if changed else messages, system, lost)


def _tell(kept: list[dict[str, Raw]], blocks: list[Raw]) -> bool:
    """Let the user say what a later system turn says; true when that made a turn of its own.

    Few models take a system turn this far in, and not all servers take two user turns in a row.
    """
    if not blocks:
        return False
    if bytes(kept[-1].get("role", b"")) == _SAID_BY_USER:
        kept[-1] = _joined(kept[-1], blocks)
        return False
    kept.append({"role": _USER, "content": Raw(encode(blocks))})
    return True


def _joined(turn: dict[str, Raw], more: list[Raw]) -> dict[str, Raw]:
    """A user turn with further blocks; results of calls stand first, where they must."""
    blocks = _blocks_of(turn.get("content")) + more
    return turn | {"content": Raw(encode(sorted(blocks, key=_is_no_result)))}


def _is_no_result(block: Raw) -> bool:
    try:
        return _decode_block(block).type != "tool_result"
    except DecodeError:
        return True


def _list_of(content: Raw | None) -> list[Raw]:
    """The blocks of content that is a list, none of a text."""
    return _decode_list(content) if content is not None and bytes(content)[:1] == b"[" else []


def _better(block: Raw) -> Raw | None:
    """The block itself, one with an id that is accepted, or None if it must not be sent."""
    try:
        kind = _decode_block(block).type
        if kind in ("thinking", "redacted_thinking"):
            return None if _is_foreign_thinking(block) else block
        name = _IDS.get(kind or "")
        if name is None:
            return block
        id = getattr(_decode_ids(block), name)
        if accepted(id) == id:
            return block
        return Raw(encode(_decode_members(block) | {name: Raw(encode(accepted(id)))}))
    except DecodeError:
        return block


def _is_foreign_thinking(block: Raw) -> bool:
    """Whether it is thinking without a proof, or with one of another kind of provider."""
    try:
        kind = _decode_block(block).type
        if kind not in ("thinking", "redacted_thinking"):
            return False
        proof = _decode_proof(block)
    except DecodeError:
        return False
    shown = proof.signature if kind == "thinking" else proof.data
    return not shown or shown.startswith(SEALED)


def _blocks_of(content: Raw | None) -> list[Raw]:
    """The content of a turn as blocks."""
    if content is None or bytes(content)[:1] != b'"':
        return _list_of(content)
    text = _decode_text(content)
    return [Raw(encode({"type": "text", "text": text}))] if text else []
