"""Server-sent events are found whatever way the bytes were cut, and bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.sse import FrameTooLong, SseSplitter


def events(*chunks: bytes) -> list[tuple[bytes, bytes]]:
    splitter = SseSplitter()
    return [event for chunk in chunks for event in splitter.feed(chunk)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\n", [(b"", b"a")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\r", [(b"", b"a")]),
        (b"data: a\n\r\n", [(b"", b"a")]),
        (b"data: a\n\n\n\ndata: b\n\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"\n\ndata: a\n\n", [(b"", b"a")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data: a\ndata\n\n", [(b"", b"a\n")]),
        (b"event: ping\ndata: {}\n\n", [(b"ping", b"{}")]),
        (b": note\n\n:\n\n: data: x\n\n", []),
        (b": note\ndata: a\n\n", [(b"", b"a")]),
        (b"id: 1\nretry: 5\ndata: a\nother: x\n\n", [(b"", b"a")]),
        (b"event: lonely\n\n", []),
        (b"data: \n\n", [(b"", b"")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        ("data: a\u2028b\u2029c\u0085d\n\n".encode(), [(b"", "a\u2028b\u2029c\u0085d".encode())]),
        (b"data: unfinished\n", []),
        (b"data: a\n\ndata: b", [(b"", b"a")]),
    ],
)
def test_events_are_read_by_the_letter_of_the_format(raw: bytes, expected: list[tuple[bytes, bytes]]) -> None:
    assert events(raw) == expected
    assert events(*(raw[place : place + 1] for place in range(len(raw)))) == expected


def test_a_carriage_return_at_the_end_of_a_read_ends_its_line_at_once() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\r\n\r") == [(b"", b"a")]
    assert splitter.feed(b"\ndata: b\r\n\r\n") == [(b"", b"b")]


def test_what_is_left_without_its_blank_line_can_be_looked_at() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data: a\n\ndata: [DONE]\n")
    assert splitter.rest() == [(b"", b"[DONE]")]


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_an_event_without_end_is_given_up(size: int) -> None:
    splitter = SseSplitter(max_frame_bytes=100)
    with pytest.raises(FrameTooLong):
        for _ in range(101):
            splitter.feed(b"x" * size)


LINE = st.sampled_from(
    [b"data: x", "data: é\u2028😀".encode(), b"data", b"data:", b": c", b"event: e", b"id: 1", b"", b"", b""]
)


@given(st.lists(LINE), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
def test_any_cut_of_any_stream_gives_the_same_events(lines: list[bytes], newline: bytes, data: st.DataObject) -> None:
    raw = newline.join(lines) + newline
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert events(*pieces) == events(raw) == events(raw.replace(newline, b"\n"))
