"""Whole answers and chunks as a Chat client gets them, and how answers of sloppy providers are read."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import (
    Answer,
    ChatRequest,
    Finish,
    FinishReason,
    LogprobsDelta,
    ReasoningEnd,
    ReasoningPart,
    RedactedReasoning,
    StreamEvent,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import ApiError, ProviderFailure
from libs.llm.formats.openai_chat import FORMAT
from libs.llm.identity import Identity
from libs.llm.providers.openai_chat.answer import read_answer
from libs.llm.providers.openai_chat.stream import StreamDecoder
from tests.support.provider import DONE, chunk, delta, finish

IDENTITY = Identity("0198", "fx", 1)
LIMIT = 100
COUNTED = Usage(3, 2)
LOGPROBS = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}]}


def asked(**members: Any) -> ChatRequest:
    body = {"model": "fx", "messages": [{"role": "user", "content": "x"}]} | members
    return FORMAT.parse(json.dumps(body).encode(), lambda name: None)


def rendered(answer: Answer, usage: Usage = COUNTED, **members: Any) -> Any:
    return json.loads(FORMAT.render_answer(answer, usage, IDENTITY, asked(**members)))


def written(*events: StreamEvent, **members: Any) -> list[Any]:
    """The chunks, ``[DONE]`` aside."""
    raw = FORMAT.writer(IDENTITY, asked(**members)).write(list(events))
    return [json.loads(frame[6:]) for frame in raw.decode().split("\n\n")[:-1] if frame != "data: [DONE]"]


ANSWER = Answer(
    parts=[ReasoningPart("why", "sig"), TextPart("a"), TextPart("b"),
           ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "[")],
    finish_reason=FinishReason.TOOL_CALLS,
    usage=None,
    logprobs=Raw(json.dumps(LOGPROBS).encode()),
)  # fmt: skip


@pytest.mark.rule("CHAT-048", "CHAT-049", "TOOL-005", "TOOL-032", "TOOL-042", "RSN-047")
def test_an_answer_of_all_kinds() -> None:
    (choice,) = rendered(ANSWER)["choices"]
    assert choice["index"] == 0 and choice["finish_reason"] == "tool_calls" and "logprobs" not in choice
    assert choice["message"] == {
        "role": "assistant",
        "content": "ab",
        "reasoning": "why",
        "reasoning_content": "why",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "["}},
        ],
    }


@pytest.mark.rule("CHAT-050", "RSN-026")
def test_excluded_reasoning_is_not_shown() -> None:
    message = rendered(ANSWER, reasoning={"exclude": True})["choices"][0]["message"]
    assert not message.keys() & {"reasoning", "reasoning_content"}


def test_log_probabilities_are_for_those_who_asked() -> None:
    assert rendered(ANSWER, logprobs=True)["choices"][0]["logprobs"] == LOGPROBS


def test_without_text_the_content_is_null() -> None:
    answer = Answer(parts=[], finish_reason=FinishReason.STOP_SEQUENCE, usage=None)
    (choice,) = rendered(answer)["choices"]
    assert choice["message"] == {"role": "assistant", "content": None} and choice["finish_reason"] == "stop"


@pytest.mark.rule("CHAT-053", "CHAT-054", "CHAT-055", "CACHE-011", "CACHE-014")
@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (Usage(5, 2), {"prompt_tokens_details": {"cached_tokens": 0}}),
        (Usage(5, 2, 3, cache_write=1), {"prompt_tokens_details": {"cached_tokens": 3}}),
        (Usage(5, 2, reasoning=1), {
            "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 1}
        }),
    ],
)  # fmt: skip
def test_usage_of_a_whole_answer(usage: Usage, counts: dict[str, Any]) -> None:
    assert rendered(ANSWER, usage)["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7} | counts


@pytest.mark.rule("STR-019", "STR-021", "STR-023", "STR-024", "STR-025", "STR-026", "STR-027", "STR-028")
def test_a_stream_of_all_kinds() -> None:
    chunks = written(
        reasoning_delta("why"), ReasoningEnd("sig"), RedactedReasoning("x"), text_delta("a"),
        ToolCallStart(0, "c1", "f"), ToolCallStart(1, "c2", "g"), ToolCallDelta(0, "{"), ToolCallDelta(1, "[]"),
        ToolCallDelta(0, "}"), Finish(FinishReason.TOOL_CALLS, Usage(5, 2, 3, reasoning=1)),
    )  # fmt: skip
    choices = [chunk["choices"] for chunk in chunks]
    assert all(len(one) == 1 and one[0]["index"] == 0 for one in choices)
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["id"] == "0198" for chunk in chunks)
    assert [one[0]["finish_reason"] for one in choices] == [None] * 8 + ["tool_calls"]
    assert [one[0]["delta"] for one in choices] == [
        {"role": "assistant", "content": ""},
        {"reasoning": "why", "reasoning_content": "why"},
        {"content": "a"},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "[]"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        {},
    ]
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 1},
    }  # fmt: skip
    assert all("usage" not in chunk for chunk in chunks[:-1])


@pytest.mark.rule("STR-030", "STR-031")
@pytest.mark.parametrize(("usage", "shown"), [(None, False), (Usage(0, 0), False), (Usage(5, 0), True)])
def test_the_last_chunk_has_usage_when_something_was_counted(usage: Usage | None, shown: bool) -> None:
    last = written(Finish(FinishReason.STOP, usage))[-1]
    assert ("usage" in last) is shown and "prompt_tokens_details" not in last.get("usage", {})


@pytest.mark.rule("STR-017", "STR-018")
def test_excluded_reasoning_is_not_streamed_but_counts() -> None:
    request = asked(reasoning={"exclude": True})
    writer = FORMAT.writer(IDENTITY, request)
    assert b"reasoning" not in writer.write([reasoning_delta("four")])
    assert writer.characters == 4


def test_log_probabilities_travel_with_their_text() -> None:
    events: list[StreamEvent] = [LogprobsDelta(json.dumps(LOGPROBS).encode()), text_delta("a"), text_delta("b")]
    with_them, without = (written(*events, **members) for members in ({"logprobs": True}, {}))
    assert with_them[1]["choices"] == [
        {"index": 0, "delta": {"content": "a"}, "logprobs": LOGPROBS, "finish_reason": None}
    ]
    assert "logprobs" not in with_them[2]["choices"][0]
    assert all("logprobs" not in chunk["choices"][0] for chunk in without)


@pytest.mark.rule("STR-035")
def test_a_stream_can_fail_before_its_first_chunk() -> None:
    raw = FORMAT.writer(IDENTITY, asked()).fail(ApiError(status=503, code="stream_interrupted", message="again"))
    first, last, rest = raw.split(b"\n\n")
    assert json.loads(first[6:])["error"]["code"] == "stream_interrupted"
    assert (last, rest) == (b"data: [DONE]", b"")


# ---- sloppy providers


def answer_of(message: dict[str, Any], finish_reason: str | None = "stop", **members: Any) -> Answer:
    body = {"choices": [{"message": message, "finish_reason": finish_reason}]} | members
    return read_answer(json.dumps(body).encode(), LIMIT)


def events_of(*frames: bytes) -> list[StreamEvent]:
    decoder = StreamDecoder(LIMIT)
    events = [event for frame in (*frames, DONE) for event in decoder.feed(frame)]
    assert decoder.failure is None
    return events


def call(arguments: Any = None, **members: Any) -> dict[str, Any]:
    function = {name: members.pop(name) for name in ("name",) if name in members}
    return members | {"function": function | ({} if arguments is None else {"arguments": arguments})}


@pytest.mark.parametrize(
    "pieces",
    [
        [[call("{}", name="f", id="a", index=0)], [call("[]", name="g", id="b", index=1)]],
        [[call("{}", name="f", id="a")], [call("[]", name="g", id="b")]],
        [[call("", name="f", id="a"), call("{}")], [call("", name="g", id="b")], [call("[]")]],
        [[call("{}", name="f"), call("[]", name="g")]],
        [[call("{}", name="f")], [call("[]", name="g")]],
        [[call({}, name="f", index=0)], [call([], name="g", index=1)]],
        [[call("{}", name="f", id="a", index=0)], [call("[]", name="g", id="b", index=0)]],
        [[call("{", name="f", id="a", index=0)], [call("}", name="f", id="a", index=0)],
         [call("[]", name="g", id="b", index=7)]],
        [[call("{", name="f", index=0)], [call("}", name="f", index=0)], [call("[]", name="g", index=1)]],
        [[call("{}", name="f", id="a", index=0)], [call("[", name="g", id="b", index=1)],
         [call("]", id="", name="", index=1)]],
    ],
    ids=["proper", "no index", "no index in pieces", "neither in one", "neither", "objects", "index 0 alone",
         "repeated", "repeated without id", "empty strings"],
)  # fmt: skip
@pytest.mark.rule("TOOL-006", "TOOL-032")
def test_calls_are_told_apart_however_they_come(pieces: list[list[dict[str, Any]]]) -> None:
    events = events_of(*(delta(tool_calls=piece) for piece in pieces), finish("tool_calls"))
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    joined = {start.index: "" for start in starts}
    for event in events:
        if isinstance(event, ToolCallDelta):
            joined[event.index] += event.arguments
    assert [start.name for start in starts] == ["f", "g"]
    assert joined == {0: "{}", 1: "[]"}
    assert len({start.id for start in starts}) == 2 and all(start.id for start in starts)
    assert events[-1] == Finish(FinishReason.TOOL_CALLS, None)


def test_calls_without_ids_never_share_one() -> None:
    ids = {one.id for _ in range(3) for one in answer_of({"tool_calls": [call("{}", name="f")] * 2}).tool_calls()}
    assert len(ids) == 6


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_has_either_name(name: str) -> None:
    assert answer_of({"content": "so", name: "why"}).parts == [ReasoningPart("why"), TextPart("so")]
    assert answer_of({"content": "so", name: {"summary": "x"}}).parts == [TextPart("so")]
    assert events_of(delta(**{name: "why"}), finish())[0] == reasoning_delta("why")


def test_tags_in_the_text_stay_text() -> None:
    assert answer_of({"content": "<think>why</think>so"}).parts == [TextPart("<think>why</think>so")]


@pytest.mark.parametrize("empty", ["", None, [], [{"type": "x"}]])
def test_empty_pieces_are_no_events(empty: Any) -> None:
    assert events_of(chunk([{"delta": {"content": empty}}]), finish()) == [Finish(FinishReason.STOP, None)]


@pytest.mark.rule("RSN-055")
@pytest.mark.parametrize(
    ("content", "completion", "reason"), [("", LIMIT, "length"), ("", LIMIT - 1, "stop"), ("so", LIMIT, "stop")]
)
def test_thinking_that_used_up_the_limit_is_a_cut_off(content: str, completion: int, reason: str) -> None:
    counts = {"prompt_tokens": 1, "completion_tokens": completion}
    assert answer_of({"content": content, "reasoning": "why"}, usage=counts).finish_reason == reason
    last = events_of(delta(content, reasoning="why"), finish(), chunk([], usage=counts))[-1]
    assert isinstance(last, Finish) and last.finish_reason == reason


def test_log_probabilities_are_read_whole_and_in_pieces() -> None:
    frames = [chunk([{"delta": {"content": text}, "logprobs": LOGPROBS}]) for text in "ab"]
    assert [type(event) for event in events_of(*frames, finish())] == [
        LogprobsDelta, type(text_delta("")), LogprobsDelta, type(text_delta("")), Finish
    ]  # fmt: skip
    body = {"choices": [{"message": {"content": "a"}, "logprobs": LOGPROBS, "finish_reason": "stop"}]}
    logprobs = read_answer(json.dumps(body, indent=1).encode(), LIMIT).logprobs
    assert logprobs is not None and json.loads(bytes(logprobs)) == LOGPROBS and b"\n" not in bytes(logprobs)


def test_broken_bytes_in_log_probabilities_do_not_travel_on() -> None:
    body = b'{"choices":[{"message":{"content":"a"},"logprobs":{"content":"\xff"},"finish_reason":"stop"}]}'
    try:
        assert read_answer(body, LIMIT).logprobs is None
    except ProviderFailure as failure:
        assert failure.kind == "junk"
