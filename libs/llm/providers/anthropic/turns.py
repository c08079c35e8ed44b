"""Writes a conversation of another dialect as Anthropic's turns: user and assistant, results right after their calls.

Called by the request writer beside it.
"""

from typing import Any, Literal

from libs.llm.canonical import ChatRequest, ImagePart, Message, Role, TextPart, ToolCall, ToolResultPart
from libs.llm.providers.anthropic.content import (
    Block,
    assistant_blocks,
    call_block,
    result_block,
    stray_result,
    text_block,
    user_blocks,
)
from libs.llm.providers.anthropic.ids import CallIds

_OPENING = "(The conversation goes on from here.)"
_NO_RESULT = "(no result was given)"
_PROOFS = ("thinking", "redacted_thinking")


class _Called:
    """A call under its id here, and what came back for it."""

    __slots__ = ("failed", "id", "parts")

    def __init__(self, id: str) -> None:
        self.id = id
        self.parts: list[TextPart | ImagePart] | None = None
        self.failed = False

    def add(self, result: ToolResultPart) -> None:
        """A second result of one call, which Anthropic refuses, goes on in the first."""
        self.parts = [*(self.parts or []), *result.parts]
        self.failed |= result.failed

    def block(self) -> Block:
        """The result; a call without any gets one that says so, since Anthropic refuses to go on otherwise."""
        if self.parts is None:
            return result_block(self.id, [TextPart(_NO_RESULT)], failed=True)
        return result_block(self.id, self.parts, failed=self.failed)


class _Turn:
    __slots__ = ("blocks", "called", "role")

    def __init__(self, role: Literal["user", "assistant"]) -> None:
        self.role = role
        self.blocks: list[Block] = []
        self.called: list[_Called] = []


class _Turns:
    """Turns as they grow; neighbours of one role are one turn."""

    def __init__(self) -> None:
        self.all: list[_Turn] = []
        self._ids = CallIds()
        self._latest: dict[str, list[_Called]] = {}

    def user(self, blocks: list[Block]) -> None:
        if blocks:
            self._at("user").blocks += blocks

    def assistant(self, message: Message) -> None:
        blocks = assistant_blocks(message.parts)
        calls = [part for part in message.parts if type(part) is ToolCall]
        if not blocks and not calls:
            return
        turn = self._at("assistant")
        turn.blocks += blocks
        fresh: dict[str, list[_Called]] = {}
        for call in calls:
            called = _Called(self._ids.of_next(call.id))
            turn.called.append(called)
            turn.blocks.append(call_block(call, called.id))
            fresh.setdefault(call.id, []).append(called)
        self._latest |= fresh

    def result(self, result: ToolResultPart) -> None:
        """To the latest call of that id; the first without a result where one turn used it twice."""
        called = self._latest.get(result.call_id)
        turn = self._at("user")
        if called is None:
            turn.blocks += stray_result(result)
        else:
            next((one for one in called if one.parts is None), called[-1]).add(result)

    def _at(self, role: Literal["user", "assistant"]) -> _Turn:
        if not self.all or self.all[-1].role != role:
            self.all.append(_Turn(role))
        return self.all[-1]


def turns(request: ChatRequest) -> list[dict[str, Any]]:
    """The ``messages`` member; empty when nobody said anything (a system prompt alone)."""
    written = _Turns()
    for message in request.messages:
        match message.role:
            case Role.ASSISTANT:
                written.assistant(message)
            case Role.TOOL:
                for part in message.parts:
                    if type(part) is ToolResultPart:
                        written.result(part)
            case _:
                written.user(user_blocks(message.parts))
    return _settled(written.all)


def _settled(turns: list[_Turn]) -> list[dict[str, Any]]:
    """Results in place, and what Anthropic asks of the first and the last turn."""
    settled: list[dict[str, Any]] = []
    if turns and turns[0].role == "assistant":
        settled.append({"role": "user", "content": [text_block(_OPENING)]})
    waiting: list[_Called] = []
    for turn in turns:
        results = [called.block() for called in waiting]
        waiting = turn.called
        blocks = _proofs_first(turn.blocks) if turn.role == "assistant" else results + turn.blocks
        settled.append({"role": turn.role, "content": blocks})
    if waiting:
        settled.append({"role": "user", "content": [called.block() for called in waiting]})
    elif turns and turns[-1].role == "assistant":
        _trim_end(settled[-1]["content"])
    return settled


def _proofs_first(blocks: list[Block]) -> list[Block]:
    """A turn shows thinking from its first block on, or none."""
    if blocks[0]["type"] in _PROOFS:
        return blocks
    return [block for block in blocks if block["type"] not in _PROOFS]


def _trim_end(blocks: list[Block]) -> None:
    """An answer begun for the model must not end in blanks."""
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
