"""Puts input items, which stand one by one, together into the turns of a conversation.

Filled by the reader of items; its result goes into the hub's request.
"""

from libs.llm.canonical import Message, ReasoningPart, Role, TextPart, ToolCall


class Conversation:
    """What was said so far. ``leading`` are the system texts before any turn; ``characters`` counts all text.

    What a model does in one go (reasoning, text, calls) comes as several items and is one turn here: calls must
    be followed by their results, so nothing may come to stand between them.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.leading: list[str] = []
        self.characters = 0
        self.images = 0
        self.remote_images = 0

    def say(self, turn: Message) -> None:
        """A turn of its own; system turns before all others become part of the system prompt."""
        if turn.role is Role.SYSTEM and not self.messages:
            self.leading += [part.text for part in turn.parts if isinstance(part, TextPart)]
        else:
            self.messages.append(turn)

    def act(self, turn: Message) -> None:
        """Reasoning, a text or a call of the assistant, joined to its turn where they belong together."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role is Role.ASSISTANT and _belong_together(last, turn):
            last.parts.extend(turn.parts)
        elif turn.parts:
            self.messages.append(turn)


def _belong_together(last: Message, turn: Message) -> bool:
    """Two texts are two turns; but what comes after reasoning alone, or before results, is the same one."""
    if any(type(part) is ToolCall for part in turn.parts) or all(type(part) is ReasoningPart for part in last.parts):
        return True
    return any(type(part) is ToolCall for part in last.parts)
