"""Writes a conversation of another dialect as Anthropic's turns: user and assistant, results right after their calls.

Called by the request writer beside it.
"""

from collections import deque
from typing import Any, Literal

from libs.llm.canonical import ChatRequest, Message, Role, ToolCall, ToolResultPart
from libs.llm.providers.anthropic.content import (
    Block,
    assistant_blocks,
    call_block,
    result_block,
    text_block,
    user_blocks,
)
from libs.llm.providers.anthropic.ids import CallIds
from libs.llm.providers.pairing import paired

_OPENING = "(The conversation goes on from here.)"
_PROOFS = ("thinking", "redacted_thinking")


class _Turns:
    """Turns as they grow; neighbours of one role are one turn."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self._ids = CallIds()
        # Ids here of the calls whose results come next: those arrive in the calls' order.
        self._called: deque[str] = deque()

    def add(self, message: Message) -> None:
        """The next message of a paired conversation."""
        match message.role:
            case Role.ASSISTANT:
                self._extend("assistant", assistant_blocks(message.parts) + self._calls(message))
            case Role.TOOL:
                results = [part for part in message.parts if type(part) is ToolResultPart]
                self._extend("user", [result_block(self._called.popleft(), part) for part in results])
            case _:
                self._extend("user", user_blocks(message.parts))

    def _calls(self, message: Message) -> list[Block]:
        blocks = []
        for part in message.parts:
            if type(part) is ToolCall:
                self._called.append(self._ids.of_next(part.id))
                blocks.append(call_block(part, self._called[-1]))
        return blocks

    def _extend(self, role: Literal["user", "assistant"], blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.all and self.all[-1]["role"] == role:
            self.all[-1]["content"] += blocks
        else:
            self.all.append({"role": role, "content": blocks})


def turns(request: ChatRequest) -> list[dict[str, Any]]:
    """The ``messages`` member; empty when nobody said anything (a system prompt alone)."""
    written = _Turns()
    for message in paired(request.messages):
        written.add(message)
    told = written.all
    for turn in told:
        if turn["role"] == "assistant":
            turn["content"] = _proofs_first(turn["content"])
    if told and told[0]["role"] == "assistant":
        told.insert(0, {"role": "user", "content": [text_block(_OPENING)]})
    if told and told[-1]["role"] == "assistant":
        _trim_end(told[-1]["content"])
    return told


def _proofs_first(blocks: list[Block]) -> list[Block]:
    """A turn shows thinking from its first block on, or none."""
    if blocks[0]["type"] in _PROOFS:
        return blocks
    return [block for block in blocks if block["type"] not in _PROOFS]


def _trim_end(blocks: list[Block]) -> None:
    """An answer begun for the model must not end in blanks."""
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
