"""Events of kinds that nobody reads do no harm, whatever they hold; those that are read must hold what they should."""

from typing import Any

import pytest

from libs.llm.canonical import Finish, TextDelta
from libs.llm.failures import FailureKind
from libs.llm.providers.anthropic.stream import StreamDecoder
from tests.support.anthropic_wire import end, start, text_block
from tests.support.provider import event

ODD: list[Any] = [7, "x", None, [], [{}], {"type": 7}, {"type": "odd"}]


def told(odd: dict[str, Any]) -> StreamDecoder:
    """A decoder that has read a whole answer with this event in the middle."""
    decoder = StreamDecoder(50)
    opened, said, closed = text_block(0, "ok")
    for piece in (start(1), opened, event(odd, odd["type"]), said, closed, *end("end_turn", 1)):
        events = decoder.feed(piece)
        assert all(isinstance(one, TextDelta | Finish) for one in events)
    return decoder


@pytest.mark.parametrize("member", ["index", "delta", "content_block", "message", "usage", "extra"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_event_of_an_unknown_kind_is_skipped(member: str, value: Any) -> None:
    decoder = told({"type": "odd_event", member: value})
    assert decoder.failure is None
    assert decoder.done


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "content_block_delta", "index": 0, "delta": 7},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 7}},
        {"type": "content_block_start", "index": "x", "content_block": {"type": "text"}},
        {"type": "message_delta", "delta": 7},
    ],
    ids=["delta", "text", "index", "message-delta"],
)
def test_an_event_that_is_read_must_hold_what_it_should(broken: dict[str, Any]) -> None:
    decoder = told(broken)
    assert decoder.failure is not None
    assert decoder.failure.kind is FailureKind.JUNK
