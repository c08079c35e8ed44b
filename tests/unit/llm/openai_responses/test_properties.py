"""Any body is read or refused, any answer comes back as it went out, any stream adds up to its answer."""

import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import (
    Answer,
    AnswerPart,
    ChatRequest,
    Finish,
    FinishReason,
    ReasoningPart,
    StreamEvent,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import BadRequest
from libs.llm.formats.openai_responses import FORMAT
from libs.llm.identity import Identity
from tests.support.joined_responses import join_responses
from tests.unit.llm.openai_responses.bodies import HI, PNG, TOOL, body, parse

IDENTITY = Identity("0198", "fx", 1)
USAGE = Usage(prompt=1, completion=1)
ASKS_SEALED = parse(body(include=["reasoning.encrypted_content"]))

WORDS = st.sampled_from(
    ["message", "user", "developer", "assistant", "function_call", "function_call_output", "reasoning", "input_text",
     "output_text", "input_image", "input_file", "item_reference", "function", "json_schema", "auto",
     "low", PNG, "", "c1"]
)  # fmt: skip
NAMES = st.sampled_from(
    ["type", "role", "content", "text", "summary", "call_id", "name", "arguments", "output", "image_url", "format",
     "schema", "effort", "id", "encrypted_content", "parameters"]
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=20,
)
MEMBERS = st.sampled_from(
    ["model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "max_output_tokens", "temperature",
     "stream", "prompt_cache_key", "include", "previous_response_id"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(MEMBERS, JUNK, max_size=6), st.booleans())
def test_any_body_is_read_or_refused(members: dict[str, Any], whole: bool) -> None:
    sent = ({"model": "m", "input": [HI]} | members) if whole else members
    with contextlib.suppress(BadRequest):
        request = parse(json.dumps(sent).encode())
        assert isinstance(request, ChatRequest)
        FORMAT.render_answer(Answer(parts=[], finish_reason=FinishReason.STOP, usage=USAGE), USAGE, IDENTITY, request)


@settings(max_examples=300, deadline=None)
@given(st.lists(JUNK | st.fixed_dictionaries({"type": WORDS}, optional={"role": WORDS, "content": JUNK}), min_size=1))
def test_any_items_are_read_or_refused(items: list[Any]) -> None:
    with contextlib.suppress(BadRequest):
        parse(body(input=[HI, *items], tools=[TOOL]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    with contextlib.suppress(BadRequest):
        parse(raw)


TEXTS = st.text(min_size=1, max_size=12)
ARGUMENTS = st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), max_size=3).map(json.dumps)


@st.composite
def answers(draw: st.DrawFn) -> list[AnswerPart]:
    """Reasoning first if any, then texts (no two in a row) and calls."""
    parts: list[AnswerPart] = []
    if draw(st.booleans()):
        parts.append(ReasoningPart(draw(TEXTS), draw(st.sampled_from(["", "kn1.e30"]))))
    for number in range(draw(st.integers(1, 4))):
        if draw(st.booleans()) and not isinstance(parts[-1:] and parts[-1], TextPart):
            parts.append(TextPart(draw(TEXTS)))
        else:
            parts.append(ToolCall(f"c{number}", "f", draw(ARGUMENTS)))
    return parts


@settings(max_examples=200, deadline=None)
@given(answers())
def test_an_answer_handed_back_is_the_turn_it_was(parts: list[AnswerPart]) -> None:
    answer = Answer(parts=parts, finish_reason=FinishReason.STOP, usage=USAGE)
    told = json.loads(FORMAT.render_answer(answer, USAGE, IDENTITY, ASKS_SEALED))
    request = parse(body(input=[HI, *told["output"]]))
    assert [part for turn in request.messages[1:] for part in turn.parts] == parts
    if any(isinstance(part, ToolCall) for part in parts[:2]) or len(parts) <= 2:
        assert len(request.messages) == 2


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[AnswerPart], list[StreamEvent]]:
    """An answer and its events; the pieces of calls that follow each other are shuffled among them."""
    parts = draw(answers())
    events: list[StreamEvent] = []
    waiting: list[list[StreamEvent]] = []
    calls = 0
    for part in [*parts, None]:
        if isinstance(part, ToolCall):
            cut = draw(st.integers(0, len(part.arguments)))
            pieces = [text for text in (part.arguments[:cut], part.arguments[cut:]) if text]
            events.append(ToolCallStart(calls, part.id, part.name))
            waiting.append([ToolCallDelta(calls, text) for text in pieces])
            calls += 1
            continue
        while any(waiting):
            events.append(draw(st.sampled_from([queue for queue in waiting if queue])).pop(0))
        if isinstance(part, TextPart):
            events += [text_delta(part.text[:1]), *([text_delta(part.text[1:])] if part.text[1:] else [])]
        elif isinstance(part, ReasoningPart):
            events.append(reasoning_delta(part.text))
    return parts, events


@settings(max_examples=300, deadline=None)
@given(streams(), st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))
def test_a_stream_adds_up_to_the_whole_answer(
    drawn: tuple[list[AnswerPart], list[StreamEvent]], reason: FinishReason
) -> None:
    parts, events = drawn
    request = parse(body())
    raw = FORMAT.writer(IDENTITY, request).write([*events, Finish(reason, USAGE)])
    whole = FORMAT.render_answer(Answer(parts=parts, finish_reason=reason, usage=USAGE), USAGE, IDENTITY, request)
    joined = join_responses(raw)
    assert joined.blocks == json.loads(whole)["output"]
