"""The stream decoder of Anthropic's format: any cut of a stream gives the same events, and every end is told apart."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import (
    Finish,
    FinishReason,
    ReasoningDelta,
    ReasoningEnd,
    RedactedReasoning,
    StreamEvent,
    TextDelta,
    Usage,
)
from libs.llm.failures import FailureKind
from libs.llm.providers.anthropic.stream import StreamDecoder
from tests.support.anthropic_wire import PING, STOP, end, flat, start, text_block, thinking_block, tool_block
from tests.support.provider import DONE, comment
from tests.unit.llm.anthropic_provider.events import (
    arguments,
    closed,
    finish,
    last,
    opened,
    piece,
    read,
    said,
    sse,
    starts_and_arguments,
    text,
    thought,
    thoughts,
)

BLANKS = b'data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"wer"}        }\n\n'
WHOLE = flat(
    start(10, cache_read_input_tokens=30, cache_creation_input_tokens=5),
    PING,
    comment("waiting"),
    thinking_block(0, "Why ", "not ", "\u00e9", "\n"),
    (opened(1, "redacted_thinking", data="hidden"), closed(1)),
    (opened(2, "text", text=""), text('The "ans', 2), BLANKS, text(" \\ \u00e9 \U0001f600", 2), PING, text("!", 2)),
    piece(2, "citations_delta", citation={"text": 1}),
    closed(2),
    sse("of_tomorrow", index="odd", delta=[1]),
    (opened(3, "server_tool_use", id=7, name=[], input="x"), arguments('{"q"', 3), closed(3)),
    (opened(4, "web_search_tool_result", content=[{"text": 1}], text=1), closed(4)),
    (opened(9, "of_tomorrow", x=1), piece(9, "of_tomorrow_delta", x=2), closed(9)),
    tool_block(5, "toolu_1", "look", "", '{"n"', ":1}"),
    tool_block(6, "toolu_2", "find"),
    end("tool_use", 7),
)
COUNTED = Usage(prompt=45, completion=7, cached=30, cache_write=5, tells_cached=True, tells_cache_write=True)


@pytest.mark.rule("STR-022", "STR-024", "STR-025", "STR-026", "STR-027", "RSN-050", "TOOL-032", "TOOL-033")
def test_a_whole_stream_in_order() -> None:
    events, decoder = read(*WHOLE)
    assert decoder.done and decoder.failure is None
    assert [type(each).__name__ for each in events] == [
        *["ReasoningDelta"] * 4,
        "ReasoningEnd",
        "RedactedReasoning",
        *["TextDelta"] * 4,
        "CitationDelta",
        "OpaqueStart",
        "OpaqueDelta",
        "OpaqueStart",
        "ToolCallStart",
        *["ToolCallDelta"] * 2,
        "ToolCallStart",
        "ToolCallDelta",
        "Finish",
    ]
    assert (thoughts(events), said(events)) == ("Why not \u00e9\n", 'The "answer \\ \u00e9 \U0001f600!')
    assert events[4:6] == [ReasoningEnd("sig-vendor"), RedactedReasoning("hidden")]
    assert starts_and_arguments(events) == (
        [(0, "toolu_1", "look"), (1, "toolu_2", "find")],
        {0: '{"n":1}', 1: "{}"},
    )
    assert events[-1] == Finish(FinishReason.TOOL_CALLS, COUNTED)


@pytest.mark.rule("STR-076")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(b"".join(WHOLE))), max_size=12), st.sampled_from([b"\n", b"\r\n"]))
def test_any_cut_of_the_bytes_gives_the_same_events(cuts: list[int], line_end: bytes) -> None:
    body = b"".join(WHOLE)
    places = sorted({0, len(body), *cuts})
    pieces = [body[begin:end].replace(b"\n", line_end) for begin, end in pairwise(places)]
    assert read(*pieces)[0] == read(*WHOLE)[0]


@pytest.mark.rule("STR-076")
def test_byte_by_byte_the_events_are_the_same() -> None:
    body = b"".join(WHOLE)
    assert read(*(body[place : place + 1] for place in range(len(body))))[0] == read(*WHOLE)[0]


@pytest.mark.rule("STR-036", "STR-053", "STR-069")
@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(b"".join(WHOLE)) - 3))
def test_a_stream_cut_anywhere_is_interrupted_after_what_came(place: int) -> None:
    events, decoder = read(b"".join(WHOLE)[:place])
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.INTERRUPTED
    assert not decoder.done
    assert events == read(*WHOLE)[0][: len(events)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(b"".join(WHOLE)) - 1), st.binary(max_size=6))
def test_damaged_bytes_end_in_a_finish_or_a_failure(place: int, damage: bytes) -> None:
    body = b"".join(WHOLE)
    _, decoder = read(body[:place] + damage + body[place + len(damage) :])
    assert decoder.done != (decoder.failure is not None)


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n"])
def test_the_last_event_counts_without_its_blank_line(tail: bytes) -> None:
    events, decoder = read(start(3), text("a"), end("end_turn", 1)[0], STOP.rstrip(b"\n") + tail)
    assert decoder.done and events[-1] == Finish(FinishReason.STOP, Usage(prompt=3, completion=1))


def test_nothing_comes_before_the_first_content_and_nothing_after_the_end() -> None:
    decoder = StreamDecoder(100)
    assert not [event for data in flat(start(3), PING, opened(0, "text", text="")) for event in decoder.feed(data)]
    assert decoder.feed(text("a")) == [TextDelta("a", b'"a"')]
    events = decoder.feed(b"".join(flat(end("end_turn", 1), text("b"), DONE)))
    assert decoder.done and [type(each) for each in events] == [Finish]


@pytest.mark.rule("STR-024", "STR-026", "TOOL-032")
def test_calls_after_text_count_from_0_and_keep_their_own_arguments() -> None:
    # C001
    events, _ = read(
        start(20),
        text_block(0, "Checking."),
        tool_block(1, "toolu_1", "get_weather", '{"city":"Jak', 'arta"}'),
        tool_block(2, "toolu_2", "get_time", '{"tz":"WIB"}'),
        end("tool_use", 30),
    )
    assert starts_and_arguments(events) == (
        [(0, "toolu_1", "get_weather"), (1, "toolu_2", "get_time")],
        {0: '{"city":"Jakarta"}', 1: '{"tz":"WIB"}'},
    )


@pytest.mark.rule("TOOL-006", "STR-025", "STR-049")
def test_the_empty_input_of_a_start_is_not_in_front_of_the_arguments() -> None:
    # C003
    events, _ = read(
        start(8),
        tool_block(0, "toolu_1", "ping"),
        tool_block(1, "toolu_2", "find", "", '{"q":"a"}'),
        end("tool_use", 9),
    )
    assert starts_and_arguments(events)[1] == {0: "{}", 1: '{"q":"a"}'}


@pytest.mark.rule("CACHE-015", "CACHE-018", "CACHE-020", "MSG-049", "MSG-051", "MSG-052")
@pytest.mark.parametrize(
    ("first", "final", "counted"),
    [
        # C033
        (
            {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 1},
            {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 15},
            Usage(prompt=125, completion=15, cached=100, tells_cached=True),
        ),
        (
            {"input_tokens": 0, "output_tokens": 0},
            {"input_tokens": 25, "cache_read_input_tokens": 100, "output_tokens": 15},
            Usage(prompt=125, completion=15, cached=100, tells_cached=True),
        ),
        (
            {"input_tokens": 25, "cache_creation_input_tokens": 5, "output_tokens": 1},
            {"input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 15},
            Usage(prompt=30, completion=15, cache_write=5, tells_cache_write=True),
        ),
        (
            {"input_tokens": 25, "cache_read_input_tokens": 0, "output_tokens": 1},
            {"output_tokens": 15, "output_tokens_details": {"thinking_tokens": 9}},
            Usage(prompt=25, completion=15, reasoning=9, tells_cached=True),
        ),
        ({"input_tokens": 25}, {"output_tokens": 15}, Usage(prompt=25, completion=15)),
        # The first count of the output is only that of a beginning.
        ({"input_tokens": 25, "output_tokens": 1}, None, None),
        ({"input_tokens": 25, "output_tokens": 1}, {"output_tokens": -1}, None),
        ({"input_tokens": -25, "output_tokens": 1}, {"output_tokens": 1}, None),
        (None, {"input_tokens": 0, "output_tokens": 0}, None),
        (None, None, None),
    ],
)
def test_counts_are_of_the_whole_and_the_last_telling_holds(first: Any, final: Any, counted: Usage | None) -> None:
    opening = sse("message_start", message={"id": "msg_1", "usage": first})
    closing = last(delta={"stop_reason": "end_turn"}, usage=final)
    assert finish(opening, text("a"), closing, STOP) == Finish(FinishReason.STOP, counted)


WORDS = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 2)), min_size=1, max_size=8)


@pytest.mark.rule("STR-022", "STR-025", "RSN-050")
@settings(max_examples=60, deadline=None)
@given(st.tuples(WORDS, WORDS, WORDS))
def test_pieces_of_any_text_arrive_whole_however_events_are_padded(words: tuple[list[tuple[str, int]], ...]) -> None:
    def block(opening: bytes, make: Any, index: int) -> list[bytes]:
        pieces = [make(piece, index).replace(b"}}\n", b"}" + b" " * pad + b"}\n") for piece, pad in words[index]]
        return [opening, *pieces, closed(index)]

    told = ["".join(piece for piece, _ in of) for of in words]
    events, decoder = read(
        *block(opened(0, "thinking"), thought, 0),
        *block(opened(1, "text"), text, 1),
        *block(opened(2, "tool_use", id="c", name="f", input={}), arguments, 2),
        end("tool_use", 1),
    )
    assert decoder.done
    assert [thoughts(events), said(events), starts_and_arguments(events)[1][0]] == told


@pytest.mark.parametrize(
    ("frames", "events"),
    [
        ([opened(0, "text", text="a"), text("b")], [TextDelta("a", b'"a"'), TextDelta("b", b'"b"')]),
        ([opened(0, "thinking", thinking="a", signature="s"), closed()],
         [ReasoningDelta("a", b'"a"'), ReasoningEnd("s")]),
        ([opened(0, "thinking"), piece(0, "signature_delta", signature="s1"),
          piece(0, "signature_delta", signature="s2"), closed()], [ReasoningEnd("s1s2")]),
        ([opened(0, "thinking"), thought("a"), closed()], [ReasoningDelta("a", b'"a"'), ReasoningEnd("")]),
        ([opened(0, "thinking"), closed()], []),
        # Stops that never come.
        ([opened(0, "thinking"), thought("a"), opened(1, "text"), text("b", 1)],
         [ReasoningDelta("a", b'"a"'), ReasoningEnd(""), TextDelta("b", b'"b"')]),
        ([opened(0, "thinking"), thought("a")], [ReasoningDelta("a", b'"a"'), ReasoningEnd("")]),
        # Starts that never come.
        ([text("a")], [TextDelta("a", b'"a"')]),
        ([thought("a"), closed()], [ReasoningDelta("a", b'"a"'), ReasoningEnd("")]),
        ([piece(9, "odd_delta", text="a")], []),
        ([closed(7)], []),
        # Pieces that do not fit their block.
        ([opened(0, "text"), thought("a"), arguments("b"), text("c")], [TextDelta("c", b'"c"')]),
        ([opened(0, "text"), text("")], []),
        ([opened(0, "redacted_thinking")], []),
    ],
)  # fmt: skip
@pytest.mark.rule("RSN-050", "STR-016")
def test_blocks_in_unusual_ways(frames: list[bytes], events: list[StreamEvent]) -> None:
    told, decoder = read(*frames, end("end_turn", 1))
    assert decoder.done and told[:-1] == events


@pytest.mark.rule("TOOL-006")
@pytest.mark.parametrize(
    ("input", "pieces", "told"),
    [
        ({"n": 1}, (), '{"n": 1}'),
        ('{"n":1}', (), '{"n":1}'),
        (None, (), "{}"),
        ({"n": 1}, ('{"n":2}',), '{"n":2}'),
    ],
)
def test_an_input_sent_whole_stands_unless_pieces_come(input: Any, pieces: tuple[str, ...], told: str) -> None:
    frames = [opened(0, "tool_use", id="c", name="f", input=input), *map(arguments, pieces), closed()]
    assert starts_and_arguments(read(*frames, end("tool_use", 1))[0])[1] == {0: told}


def test_calls_without_ids_get_ids_of_their_own() -> None:
    events, _ = read(*(opened(place, "tool_use", name="f") for place in (0, 1)), end("tool_use", 1))
    first, second = starts_and_arguments(events)[0]
    assert first[1] and second[1] and first[1] != second[1]
