"""Reads ``system`` and ``messages`` into the hub's conversation (contract: Messages, Messages array).

Called by the reader of requests.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from libs.llm.canonical import Message, Part, Role, TextPart, ToolResultPart
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages.blocks import Malformed, Tally, read_block
from libs.llm.formats.anthropic_messages.wire import Block, Turn
from libs.llm.system_prompt import SEPARATOR

ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}


class Conversation(Struct):
    """What was said, and its size. ``cut_turns`` are the places of turns with blocks that are ignored.

    ``cut_system``: the system prompt has such blocks.
    """

    messages: list[Message]
    system: str = ""
    cut_system: bool = False
    cut_turns: set[int] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)


def read_conversation(system: str | list[Block] | None, turns: list[Turn]) -> Conversation:
    """The conversation in the hub's words; system turns before any other join the system prompt."""
    talk = Conversation([])
    texts = [_joined(_read_content(system or "", Role.SYSTEM, "system", talk.tally))]
    talk.cut_system = talk.tally.ignored > 0
    for place, turn in enumerate(turns):
        role = ROLES.get(turn.role)
        if role is None:
            member = f"messages[{place}].role"
            raise BadRequest(f"`{member}` must be user, assistant or system", member)
        before = talk.tally.ignored
        parts = _read_content(turn.content, role, f"messages[{place}].content", talk.tally)
        if talk.tally.ignored > before:
            talk.cut_turns.add(place)
        if role is Role.SYSTEM and not talk.messages:
            texts.append(_joined(parts))
        else:
            _add_turn(talk.messages, role, parts)
    talk.system = SEPARATOR.join(text for text in texts if text)
    return talk


def _read_content(content: str | list[Block], role: Role, path: str, tally: Tally) -> list[Part]:
    if isinstance(content, str):
        tally.characters += len(content)
        return [TextPart(content)]
    parts: list[Part] = []
    for place, block in enumerate(content):
        try:
            part = read_block(block, role, tally)
        except Malformed as error:
            member = f"{path}[{place}].{error.member}"
            raise BadRequest(f"`{member}` {error.problem}", member) from None
        if part is not None:
            parts.append(part)
    return parts


def _add_turn(messages: list[Message], role: Role, parts: list[Part]) -> None:
    """Each result of a call is a turn of its own, before the rest; a later system turn is one text."""
    if role is Role.SYSTEM:
        text = _joined(parts)
        if text:
            messages.append(Message(role, [TextPart(text)]))
        return
    rest = [part for part in parts if type(part) is not ToolResultPart]
    messages.extend(Message(Role.TOOL, [part]) for part in parts if type(part) is ToolResultPart)
    if rest or not parts:
        messages.append(Message(role, rest))


def _joined(parts: Sequence[Part]) -> str:
    return SEPARATOR.join(part.text for part in parts if type(part) is TextPart and part.text)
