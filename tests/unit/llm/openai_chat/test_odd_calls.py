"""Calls other than plain functions: custom tools, the older way to call, unknown types; and choices beside ours."""

import json
from typing import Any

from libs.llm.canonical import StreamEvent, TextDelta, ToolCall, ToolCallDelta, ToolCallStart, Usage
from libs.llm.formats.openai_chat import FORMAT
from libs.llm.identity import Identity
from libs.llm.providers.openai_chat.answer import read_answer
from libs.llm.providers.openai_chat.stream import StreamDecoder

IDENTITY = Identity("0198", "fx", 1)
ASKED = FORMAT.parse(b'{"model":"fx","messages":[{"role":"user","content":"x"}]}', lambda name: None)
CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}
UNKNOWN = {"id": "call_2", "type": "from_tomorrow", "from_tomorrow": {}}


def whole(**message: Any) -> list[Any]:
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    return list(read_answer(json.dumps(body).encode(), 100).parts)


def streamed(*deltas: dict[str, Any], index: int = 0) -> list[StreamEvent]:
    decoder = StreamDecoder(100)
    chunks = [{"choices": [{"index": index, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    events = decoder.feed(b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks))
    events += decoder.feed(b"data: [DONE]\n\n")
    assert decoder.failure is None
    return events[:-1]


def test_a_call_of_a_custom_tool_comes_back_in_its_own_shape() -> None:
    body = {"choices": [{"message": {"tool_calls": [CUSTOM]}, "finish_reason": "tool_calls"}]}
    answer = read_answer(json.dumps(body).encode(), 100)
    assert answer.parts == [ToolCall("call_1", "code", "print(1)", custom=True)]
    told = json.loads(FORMAT.render_answer(answer, Usage(1, 1), IDENTITY, ASKED))
    assert told["choices"][0]["message"] == {"role": "assistant", "content": None, "tool_calls": [CUSTOM]}


def test_a_custom_call_is_streamed_in_its_own_shape() -> None:
    opened = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "code", "input": ""}}
    events = streamed({"tool_calls": [opened]}, {"tool_calls": [{"index": 0, "custom": {"input": "print(1)"}}]})
    assert events == [ToolCallStart(0, "call_1", "code", custom=True), ToolCallDelta(0, "print(1)")]
    written = FORMAT.writer(IDENTITY, ASKED).write(events)
    assert b'"custom":{"name":"code","input":""}' in written
    assert b'{"index":0,"custom":{"input":"print(1)"}}' in written


def test_a_call_of_a_type_nobody_knows_is_no_fault_of_the_provider() -> None:
    assert whole(content="So", tool_calls=[UNKNOWN]) == whole(content="So")
    assert streamed({"tool_calls": [UNKNOWN | {"index": 0}]}) == []


def test_the_older_way_to_call_loses_nothing() -> None:
    (call,) = whole(content=None, function_call={"name": "look", "arguments": '{"n":1}'})
    assert (call.name, call.arguments) == ("look", '{"n":1}')
    start, *pieces = streamed(
        {"function_call": {"name": "look", "arguments": ""}},
        {"function_call": {"arguments": '{"n":'}},
        {"function_call": {"arguments": "1}"}},
    )
    assert isinstance(start, ToolCallStart) and start.name == "look"
    assert "".join(piece.arguments for piece in pieces if isinstance(piece, ToolCallDelta)) == '{"n":1}'


def test_another_choice_is_not_mixed_into_the_answer() -> None:
    assert streamed({"content": "other"}, index=1) == []
    (event,) = streamed({"content": "ours"})
    assert isinstance(event, TextDelta) and event.text == "ours"
