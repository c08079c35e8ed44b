"""Puts right which results belong to which calls: providers refuse a history with a call or a result on its own.

Called by the providers' writers of conversations; clients cut histories short, repeat ids and stop calls half-way.
"""

from libs.llm.canonical import ImagePart, Message, Role, TextPart, ToolCall, ToolResultPart

NO_RESULT = "[No result was given.]"
"""What stands for the result of a call that the client sent none for."""


def paired(messages: list[Message]) -> list[Message]:
    """The conversation with one result for each call, right after the turn that called and in the calls' order.

    Several results of a call become one. A result of no earlier call is something the user says.
    """
    calls = _Calls(messages)
    settled: list[Message] = []
    for message in messages:
        if message.role is Role.TOOL:
            settled += calls.strays(message)
        else:
            settled.append(message)
            settled += calls.results(message)
    return settled


class _Called:
    """A call and what came back for it."""

    __slots__ = ("id", "results")

    def __init__(self, id: str) -> None:
        self.id = id
        self.results: list[ToolResultPart] = []

    def message(self) -> Message:
        if not self.results:
            return Message(Role.TOOL, [ToolResultPart(self.id, [TextPart(NO_RESULT)])])
        parts = [part for result in self.results for part in result.parts]
        failed = any(result.failed for result in self.results)
        return Message(Role.TOOL, [ToolResultPart(self.id, parts, failed)])


class _Calls:
    """The calls of a conversation with their results, found by the identity of its messages and parts."""

    def __init__(self, messages: list[Message]) -> None:
        self._of_turn: dict[int, list[_Called]] = {}
        self._taken: set[int] = set()
        # By id the calls of the latest turn that used it: ids may come again later.
        latest: dict[str, list[_Called]] = {}
        for message in messages:
            called = [_Called(part.id) for part in message.parts if type(part) is ToolCall]
            if called:
                self._of_turn[id(message)] = called
                latest |= {one.id: [other for other in called if other.id == one.id] for one in called}
            for part in message.parts:
                if type(part) is ToolResultPart and (same := latest.get(part.call_id)):
                    next((one for one in same if not one.results), same[-1]).results.append(part)
                    self._taken.add(id(part))

    def results(self, message: Message) -> list[Message]:
        """The results of the calls that this turn made."""
        return [called.message() for called in self._of_turn.get(id(message), [])]

    def strays(self, message: Message) -> list[Message]:
        """Those of a TOOL message's results that no call has taken."""
        left = [part for part in message.parts if type(part) is ToolResultPart and id(part) not in self._taken]
        return [Message(Role.USER, [*_introduced(part)]) for part in left]


def _introduced(result: ToolResultPart) -> list[TextPart | ImagePart]:
    return [TextPart(f"[Result of an earlier call, {result.call_id}:]"), *result.parts]
