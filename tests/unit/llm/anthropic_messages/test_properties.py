"""Random Messages bodies: a conversation reads back as what was written, and nothing ends in another error."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import (
    ChatRequest,
    DocumentPart,
    Finish,
    FinishReason,
    FunctionTool,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    StreamEvent,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    ToolResultPart,
    Usage,
    reasoning_delta,
    text_delta,
)
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages import FORMAT, count_tokens
from libs.llm.identity import Identity
from tests.unit.llm.anthropic_messages.bodies import body, parse
from tests.unit.llm.anthropic_messages.test_stream import read as read_stream

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FILLED = TEXT.filter(bool)
ARGUMENTS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers(-99, 99) | TEXT, max_size=3).map(json.dumps)
SAID = st.builds(TextPart, TEXT)
ADDRESS = FILLED.map("https://{}".format)
SHOWN = st.builds(ImagePart, media_type=FILLED, data=FILLED) | st.builds(ImagePart, url=ADDRESS)
ATTACHED = st.builds(DocumentPart, media_type=FILLED, data=FILLED, name=st.none() | TEXT) | st.builds(
    DocumentPart, url=ADDRESS, name=st.none() | TEXT
)
THOUGHT = st.builds(ReasoningPart, TEXT, TEXT) | st.builds(ReasoningPart, st.just(""), FILLED, st.just(True))
CALLED = st.builds(ToolCall, FILLED, FILLED, ARGUMENTS)
RESULT = st.builds(ToolResultPart, FILLED, st.lists(SAID | SHOWN, max_size=3), st.booleans())
TURN = (
    st.builds(Message, st.just(Role.USER), st.lists(SAID | SHOWN | ATTACHED, max_size=3))
    | st.builds(Message, st.just(Role.ASSISTANT), st.lists(SAID | THOUGHT | CALLED, max_size=3))
    | st.builds(Message, st.just(Role.TOOL), st.lists(RESULT, min_size=1, max_size=1))
    | st.builds(Message, st.just(Role.SYSTEM), st.lists(st.builds(TextPart, FILLED), min_size=1, max_size=1))
)
LATER = st.lists(TURN, min_size=1, max_size=5).filter(lambda turns: turns[0].role is not Role.SYSTEM)


def source(part: ImagePart | DocumentPart) -> dict[str, str]:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data}


def block(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart():
            return {"type": "image", "source": source(part)}
        case DocumentPart():
            return {"type": "document", "source": source(part), "title": part.name}
        case ReasoningPart(_, sealed, True):
            return {"type": "redacted_thinking", "data": sealed}
        case ReasoningPart(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        case ToolResultPart(id, parts, failed):
            return {"type": "tool_result", "tool_use_id": id, "content": blocks(parts), "is_error": failed}


def blocks(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [block(part) for part in parts]


@settings(max_examples=120, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), LATER)
def test_a_conversation_reads_back_as_it_was(system: str, turns: list[Message]) -> None:
    messages = [
        {"role": "user" if turn.role is Role.TOOL else turn.role.value, "content": blocks(turn.parts)} for turn in turns
    ]
    request = parse(body(system=system, messages=messages))
    assert (request.system, request.messages) == (system, turns)
    assert json.loads(bytes(request.fields["messages"])) == messages


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(FILLED, st.none() | TEXT, st.none() | st.booleans()), max_size=4))
def test_tools_read_back_as_they_were(tools: list[tuple[str, str | None, bool | None]]) -> None:
    sent = [{"name": name, "description": description, "strict": strict} for name, description, strict in tools]
    assert parse(body(tools=sent)).tools == [
        FunctionTool(name=name, description=description, strict=strict) for name, description, strict in tools
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TYPES = ("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "x")
SOURCE = st.fixed_dictionaries(
    {"type": st.sampled_from(["base64", "url", "text", "file"]) | JSON},
    optional={"media_type": TEXT | JSON, "data": TEXT | JSON, "url": TEXT | JSON},
)


def block_of(content: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = ("text", "id", "name", "tool_use_id", "thinking", "signature", "data", "title")
    return st.fixed_dictionaries(
        {"type": st.sampled_from(TYPES) | JSON},
        optional={
            "source": SOURCE | JSON,
            "input": st.dictionaries(TEXT, JSON, max_size=2) | JSON,
            "content": content,
            "is_error": st.booleans() | JSON,
            **dict.fromkeys(members, TEXT | JSON),
        },
    )


CONTENT = TEXT | st.lists(block_of(TEXT | st.lists(block_of(JSON), max_size=2) | JSON), max_size=3) | JSON
ANY_TURN = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]) | JSON, "content": CONTENT})
OPTIONAL = (
    "stream", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice", "thinking",
    "output_config", "output_format", "metadata", "plugins", "provider",
)  # fmt: skip
BODY = st.fixed_dictionaries(
    {"model": st.just("m") | JSON, "messages": st.lists(ANY_TURN, max_size=3) | JSON},
    optional={
        "system": CONTENT,
        "tools": st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("type", "name"), TEXT | JSON)), max_size=2),
        "thinking": st.fixed_dictionaries({"type": st.sampled_from(["enabled", "disabled"])}) | JSON,
        **dict.fromkeys([name for name in OPTIONAL if name not in ("tools", "thinking")], JSON),
    },
)


def check(raw: bytes) -> None:
    """Either a request whose every raw member is JSON, or BadRequest."""
    try:
        request: ChatRequest = parse(raw)
    except BadRequest as error:
        FORMAT.render_error(error.api_error())
        return
    assert request.input_tokens >= 1
    for member in request.fields.values():
        json.loads(bytes(member))
    assert json.loads(count_tokens(raw)) == {"input_tokens": request.input_tokens}


@settings(max_examples=150, deadline=None)
@given(BODY | JSON)
def test_any_json_is_a_request_or_a_bad_request(value: Any) -> None:
    check(json.dumps(value).encode())


@settings(max_examples=120, deadline=None)
@given(BODY, st.data())
def test_any_damaged_body_is_a_request_or_a_bad_request(value: Any, data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(raw))


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[StreamEvent], dict[str, str], str, str]:
    """Pieces of calls, text and reasoning in any order, and what they are when put together."""
    calls = [json.dumps({"a": draw(TEXT)}) for _ in range(draw(st.integers(0, 4)))]
    lanes: list[list[StreamEvent]] = []
    for index, arguments in enumerate(calls):
        cut = draw(st.integers(1, len(arguments) - 1))
        pieces = [ToolCallDelta(index, arguments[:cut]), ToolCallDelta(index, arguments[cut:])]
        lanes.append([ToolCallStart(index, f"c{index}", "f"), *pieces])
    texts, thoughts = draw(st.lists(TEXT, max_size=3)), draw(st.lists(TEXT, max_size=3))
    lanes += [[text_delta(text) for text in texts], [reasoning_delta(text) for text in thoughts]]
    events: list[StreamEvent] = []
    while any(lanes):
        lane = draw(st.sampled_from([lane for lane in lanes if lane]))
        events.append(lane.pop(0))
    told = {f"c{index}": arguments for index, arguments in enumerate(calls)}
    return events, told, "".join(texts), "".join(thoughts)


@settings(max_examples=120, deadline=None)
@given(streams())
def test_a_stream_of_any_order_is_valid_and_whole(drawn: tuple[list[StreamEvent], dict[str, str], str, str]) -> None:
    events, calls, text, thought = drawn
    writer = FORMAT.writer(Identity("id", "m", 1), parse(body()))
    raw = writer.write([*events, Finish(FinishReason.STOP, Usage(1, 1))])
    told = read_stream(raw)[0]
    assert {block["id"]: block["partial_json"] for block in told if block["type"] == "tool_use"} == calls
    assert "".join(block["text"] for block in told if block["type"] == "text") == text
    assert "".join(block["thinking"] for block in told if block["type"] == "thinking") == thought
    assert writer.characters == len(text) + len(thought) + sum(len(arguments) + 1 for arguments in calls.values())
