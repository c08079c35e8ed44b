"""Results find their calls, and no call or result stays alone, whatever a client hands over."""

import pytest

from libs.llm.canonical import Message, Role, TextPart, ToolCall, ToolResultPart
from libs.llm.providers.pairing import NO_RESULT, paired

HI = Message(Role.USER, [TextPart("Hi")])


def calls(*ids: str) -> Message:
    return Message(Role.ASSISTANT, [ToolCall(id, "f", "{}") for id in ids])


def result(id: str, *texts: str, failed: bool = False) -> Message:
    return Message(Role.TOOL, [ToolResultPart(id, [TextPart(text) for text in texts], failed)])


def stray(id: str, text: str) -> Message:
    return Message(Role.USER, [TextPart(f"[Result of an earlier call, {id}:]"), TextPart(text)])


NONE = result("a", NO_RESULT)


@pytest.mark.rule("TOOL-007", "TOOL-016", "TOOL-020", "TOOL-045")
@pytest.mark.parametrize(
    ("sent", "settled"),
    [
        ([HI, HI], [HI, HI]),
        ([calls("a", "b"), result("b", "B"), result("a", "A")], [calls("a", "b"), result("a", "A"), result("b", "B")]),
        ([calls("a"), HI, result("a", "A")], [calls("a"), result("a", "A"), HI]),
        ([calls("a"), HI], [calls("a"), NONE, HI]),
        ([calls("a"), calls("a"), result("a", "A")], [calls("a"), NONE, calls("a"), result("a", "A")]),
        (
            [calls("a"), result("a", "1"), calls("a"), result("a", "2")],
            [calls("a"), result("a", "1"), calls("a"), result("a", "2")],
        ),
        (
            [calls("a"), result("a", "1"), result("a", "2", failed=True)],
            [calls("a"), result("a", "1", "2", failed=True)],
        ),
        (
            [calls("a", "a"), result("a", "1"), result("a", "2")],
            [calls("a", "a"), result("a", "1"), result("a", "2")],
        ),
        ([result("a", "A"), calls("a")], [stray("a", "A"), calls("a"), NONE]),
        ([HI, result("x", "X"), HI], [HI, stray("x", "X"), HI]),
    ],
    ids=[
        *("no calls", "order", "place", "no result", "no result of an id again", "an id again", "two results"),
        *("an id twice", "too early", "no call"),
    ],
)
def test_each_call_has_its_one_result(sent: list[Message], settled: list[Message]) -> None:
    assert paired(sent) == settled
