"""The stream decoder and the chunk writer together: any cut of any provider stream gives the same client bytes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import Finish, FinishReason, TextDelta, Usage
from libs.llm.failures import FailureKind
from libs.llm.formats.openai_chat.answer import ChunkWriter
from libs.llm.formats.openai_chat.request import parse
from libs.llm.identity import Identity
from libs.llm.providers.openai_chat.stream import StreamDecoder
from tests.support.provider import DONE, chunk, delta, event, finish, usage

IDENTITY = Identity("0198", "fx", 1)
LIMIT = 1_000
ASKED = parse(b'{"model":"fx","messages":[{"role":"user","content":"x"}]}')


def relay(*reads: bytes) -> tuple[bytes, StreamDecoder, ChunkWriter]:
    """The client's bytes after these reads, failures excluded."""
    decoder, writer = StreamDecoder(LIMIT), ChunkWriter(IDENTITY, ASKED)
    out = b""
    for read in reads:
        events = decoder.feed(read)
        if events:
            out += writer.write(events)
        if decoder.failure or decoder.done:
            break
    return out, decoder, writer


def texts(raw: bytes) -> list[str]:
    """``delta.content`` of each content chunk, the opening one aside."""
    frames = [json.loads(frame[6:]) for frame in raw.decode().split("\n\n")[:-1] if frame != "data: [DONE]"]
    deltas = [frame["choices"][0]["delta"] for frame in frames]
    return [delta["content"] for delta in deltas if "role" not in delta and "content" in delta]


AWKWARD = [
    "a",
    '"',
    "\\",
    '":"',
    '","',
    "content",
    "role",
    "}]}",
    "\n",
    "é",
    "😀",
    "\u2028",
    "data: x",
    " ",
    "null",
    "\\u00e9",
]


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("first", AWKWARD)
def test_every_text_survives_the_pattern_learned_from_any_other(first: str, ascii_only: bool) -> None:
    said = [first, *AWKWARD, first]
    frames = [
        b"data: " + json.dumps(
            {"id": first, "choices": [{"delta": {"content": text}, "index": 0, "x": first}], "y": text},
            ensure_ascii=ascii_only,
        ).encode() + b"\n\n"
        for text in said
    ]  # fmt: skip
    out, decoder, writer = relay(*frames)
    assert decoder.failure is None
    assert texts(out) == said
    assert writer.characters == sum(map(len, said))


def test_chunks_of_one_shape_are_recognised_after_the_first() -> None:
    decoder = StreamDecoder(LIMIT)
    decoder.feed(delta("", role="assistant"))
    decoder.feed(delta("one"))
    before = decoder._template.before
    assert before.endswith(b'"content": "')
    assert decoder.feed(delta(' t"wo')) == [TextDelta(' t"wo', b'" t\\"wo"')]
    assert decoder._template.before is before


@pytest.mark.parametrize(
    "changed",
    [
        {"finish_reason": "stop"},
        {"delta": {"content": "b", "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}},
        {"delta": {"content": None}},
        {"delta": {"reasoning": "b"}},
        {"delta": {}},
    ],
)
def test_a_chunk_that_says_more_is_read_in_full(changed: dict[str, Any]) -> None:
    plain = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
    steps = (chunk([plain]), chunk([plain | changed]), finish("length"), DONE)
    alone = relay(*steps[1:])[0]
    assert alone.split(b"\n\n", 1)[1] in relay(*steps)[0]


def test_usage_beside_every_text_is_the_last_one_told() -> None:
    said = [
        chunk([{"delta": {"content": "a"}, "finish_reason": None}], usage={"prompt_tokens": 3, "completion_tokens": n})
        for n in range(1, 5)
    ]
    decoder = StreamDecoder(LIMIT)
    for frame in (*said, finish()):
        decoder.feed(frame)
    assert decoder.feed(DONE) == [Finish(FinishReason.STOP, Usage(3, 4))]


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ({"prompt_tokens": 14, "completion_tokens": 6}, Usage(14, 6)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 8}},
         Usage(14, 6, 8, tells_cached=True)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_cache_hit_tokens": 8},
         Usage(14, 6, 8, tells_cached=True)),
        ({"prompt_tokens": 4, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 8}},
         Usage(4, 6, 4, tells_cached=True)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "cached_tokens": 8}, Usage(14, 6, 8, tells_cached=True)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 0}},
         Usage(14, 6, tells_cached=True)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_tokens_details": {"cache_write_tokens": 4}},
         Usage(14, 6, cache_write=4, tells_cache_write=True)),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_tokens_details": None}, Usage(14, 6)),
        (
            {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10,
             "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(4, 6, reasoning=5),
        ),
        (
            {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 15,
             "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(4, 11, reasoning=5),
        ),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": -1, "completion_tokens": 6}, None),
        ({"prompt_tokens": 10**20, "completion_tokens": 6}, None),
        ({"prompt_tokens": 2**31, "completion_tokens": 6}, None),
        ({"prompt_tokens": 14, "completion_tokens": 2**53}, None),
        ({"prompt_tokens": 2**31 - 1, "completion_tokens": 6}, Usage(2**31 - 1, 6)),
        ({"prompt_tokens": 14, "completion_tokens": 6.5}, None),
        ({"prompt_tokens": 14, "completion_tokens": 1e300}, None),
        ({"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": -20}, None),
        ({"prompt_tokens": 14, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 2**31}}, None),
        ({"prompt_tokens": "14", "completion_tokens": 6}, None),
        ({"prompt_tokens": 14}, None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
@pytest.mark.rule("CHAT-054")
def test_usage_is_brought_to_one_arithmetic(counted: Any, expected: Usage | None) -> None:
    decoder = StreamDecoder(LIMIT)
    decoder.feed(finish())
    decoder.feed(chunk([], usage=counted))
    assert decoder.feed(DONE) == [Finish(FinishReason.STOP, expected)]


@pytest.mark.rule("CHAT-046")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("tool_calls", "tool_calls"),
        ("STOP", "stop"), ("max_tokens", "length"), ("function_call", "tool_calls"), ("eos", "stop"),
        ("SAFETY", "content_filter"),
    ],
)  # fmt: skip
def test_finish_reasons_are_the_contracts_four(theirs: str, ours: str) -> None:
    decoder = StreamDecoder(LIMIT)
    decoder.feed(finish(theirs))
    assert decoder.feed(DONE) == [Finish(FinishReason(ours), None)]


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (['"a\\ud83d"', '"\\ude00b"'], "a😀b"),
        (['"a\\uD83D"', '"\\uDE00b"', '"c"'], "a😀bc"),
        (['"a\\ud83d"', '"b"'], "ab"),
        (['"a\\ude00b"'], "a\ufffdb"),
        (['"a\\ud83db"'], "a\ufffdb"),
        (['"\\\\ud83d"'], "\\ud83d"),
    ],
)
def test_a_character_cut_in_two_is_put_together(pieces: list[str], whole: str) -> None:
    frames = [f'data: {{"choices":[{{"delta":{{"content":{piece}}}}}]}}\n\n'.encode() for piece in pieces]
    out, decoder, _ = relay(*frames)
    assert decoder.failure is None
    assert "".join(texts(out)) == whole


def test_an_event_without_end_is_junk() -> None:
    decoder = StreamDecoder(LIMIT)
    for _ in range(200):
        decoder.feed(b"x" * 65_536)
    assert decoder.failure is not None and decoder.failure.kind is FailureKind.JUNK


def call(index: int, arguments: str) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"c{index}", "function": function}])


TEXT = st.text(max_size=12)
PIECES = st.lists(
    st.one_of(
        st.builds(delta, TEXT),
        st.builds(lambda text: delta(reasoning_content=text), TEXT),
        st.builds(lambda text: delta(reasoning=text, content=None), TEXT),
        st.builds(lambda text: delta(text, obfuscation=text), TEXT),
        st.just(b": comment\n\n"),
        st.just(b"data: \n\n"),
        st.just(event({}, "ping")),
        st.builds(call, st.integers(0, 2), TEXT),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(PIECES, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.data())
@pytest.mark.rule("STR-076")
def test_any_cut_of_any_stream_gives_the_same_client_bytes(
    pieces: list[bytes], newline: bytes, data: st.DataObject
) -> None:
    raw = b"".join([*pieces, finish(), usage(3, 4), DONE])
    whole, decoder, _ = relay(raw)
    assert decoder.done

    wire = raw.replace(b"\n", newline)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=30)))
    reads = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]

    assert relay(*reads)[0] == whole
    assert relay(*(wire[place : place + 1] for place in range(len(wire))))[0] == whole


@settings(max_examples=300, deadline=None)
@given(PIECES, st.data())
def test_a_stream_cut_short_is_never_a_whole_one(pieces: list[bytes], data: st.DataObject) -> None:
    raw = b"".join([*pieces, finish(), usage(3, 4), DONE])
    end = data.draw(st.integers(0, len(raw) - 3))
    decoder = StreamDecoder(LIMIT)
    decoder.feed(raw[:end])
    decoder.end()
    assert decoder.failure is not None and not decoder.done


@settings(max_examples=500, deadline=None)
@given(PIECES, st.data())
def test_damaged_bytes_end_in_a_failure_or_in_frames_that_parse(pieces: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(b"".join([*pieces, finish(), usage(3, 4), DONE]))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    out = relay(bytes(raw[:cut]), bytes(raw[cut:]))[0]
    for frame in out.split(b"\n\n")[:-1]:
        assert frame.startswith(b"data: ") and b"\n" not in frame
        if frame != b"data: [DONE]":
            assert json.loads(frame[6:])["object"] == "chat.completion.chunk"
